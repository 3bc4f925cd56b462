//! The control groups of this process: where they are, and their account of processor time. Version 2, or version 1
//! with separate controllers, mounted anywhere.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use inhaul_base::Span;

use super::quota::{Account, Bandwidth};

/// Most levels of groups to look at, from the process's own group up.
const LEVELS_MAX: usize = 16;

/// A control group with a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its folder under the controller of processor time.
    folder: PathBuf,
    version: Version,
    /// Version 1: the folder that tells the used time.
    accounts: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The process's own group and its ancestors, as far as they have a quota, the innermost first.
pub(super) fn with_quota(proc: &Path) -> Vec<(Group, Bandwidth)> {
    let read = |name: &str| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
    groups(&read("cgroup"), &read("mountinfo"))
        .into_iter()
        .filter_map(|group| group.bandwidth().map(|bandwidth| (group, bandwidth)))
        .collect()
}

/// The groups that `/proc/self/cgroup` and `/proc/self/mountinfo` tell of, the innermost first.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let version = match controllers {
            "" => Version::Two,
            list if list.split(',').any(|name| name == "cpu") => Version::One,
            _ => continue,
        };
        let controller = (version == Version::One).then_some("cpu");
        let Some(mount) = mount_of(mountinfo, controller) else { continue };
        let account = (version == Version::One).then(|| mount_of(mountinfo, Some("cpuacct"))).flatten();
        for part in ancestors(path) {
            let Some(folder) = mount.folder(part) else { continue };
            let accounts = account.as_ref().and_then(|mount| {
                // Version 1 may have the process in different groups of the two controllers.
                let is_there = path_of(cgroup, "cpuacct")? == path;
                is_there.then(|| mount.folder(part)).flatten()
            });
            found.push(Group { folder, version, accounts });
        }
    }
    found
}

/// A mounted hierarchy: which folder of it is mounted, and where.
#[derive(Debug)]
struct Mount {
    root: String,
    at: PathBuf,
}

impl Mount {
    /// Where the group `path` is; `None` if it is outside of what is mounted.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = match self.root.as_str() {
            "/" => path,
            root => path.strip_prefix(root)?,
        };
        Some(self.at.join(below.trim_start_matches('/')))
    }
}

/// The mount of a controller of version 1, or of version 2.
fn mount_of(mountinfo: &str, controller: Option<&str>) -> Option<Mount> {
    mountinfo.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        let (kind, _, options) = (tail.next()?, tail.next()?, tail.next().unwrap_or_default());
        let fits = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        let mut head = head.split(' ').skip(3);
        let (root, at) = (head.next()?, head.next()?);
        fits.then(|| Mount { root: unescaped(root), at: PathBuf::from(unescaped(at)) })
    })
}

/// The path of the group of a controller of version 1.
fn path_of<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// `/a/b`, `/a`, `/`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    Path::new(path).ancestors().take(LEVELS_MAX).filter_map(Path::to_str)
}

/// `mountinfo` writes spaces and backslashes in octal.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let rest = bytes.as_slice();
        let code = rest.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                out.push(code);
                bytes.nth(2);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Group {
    /// Its quota; `None` if it has none.
    pub(super) fn bandwidth(&self) -> Option<Bandwidth> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        match self.version {
            Version::Two => bandwidth_of_max(&read("cpu.max")?),
            Version::One => bandwidth_of_micros(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
        }
    }

    /// The files of its account, open: they are read many times a second.
    pub(super) fn open(&self) -> Option<Book> {
        let used = self.accounts.as_ref().and_then(|folder| File::open(folder.join("cpuacct.usage")).ok());
        Some(Book { stat: File::open(self.folder.join("cpu.stat")).ok()?, used })
    }

    /// Its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where a group's account is kept.
#[derive(Debug)]
pub(super) struct Book {
    stat: File,
    used: Option<File>,
}

impl Book {
    /// The account now. The used time is `None` if the group does not tell it.
    pub(super) fn read(&self) -> Option<(Account, Option<Span>)> {
        let mut bytes = [0; 1024];
        let (account, used) = account_of(text(&self.stat, &mut bytes)?)?;
        let used = used.or_else(|| text(self.used.as_ref()?, &mut bytes)?.trim().parse().ok().map(Span::from_nanos));
        Some((account, used))
    }
}

/// The text of a small file.
fn text<'b>(file: &File, bytes: &'b mut [u8]) -> Option<&'b str> {
    let len = file.read_at(bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..len]).ok()
}

/// Reads `cpu.max`.
fn bandwidth_of_max(text: &str) -> Option<Bandwidth> {
    let (quota, period) = text.trim().split_once(' ')?;
    bandwidth_of_micros(quota, period)
}

/// Reads a quota and a period in microseconds. "max" and -1 are no quota.
fn bandwidth_of_micros(quota: &str, period: &str) -> Option<Bandwidth> {
    let micros = |text: &str| text.trim().parse::<u64>().ok().filter(|micros| (1..=10_000_000_000).contains(micros));
    Some(Bandwidth { quota: Span::from_micros(micros(quota)?), period: Span::from_micros(micros(period)?) })
}

/// Reads `cpu.stat`: the account, and the used time if it is there.
fn account_of(text: &str) -> Option<(Account, Option<Span>)> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let account = Account { periods: value("nr_periods")?, throttled: value("nr_throttled")?, used: Span::ZERO };
    Some((account, value("usage_usec").map(Span::from_micros)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MOUNTS: &str = "\
36 24 0:31 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw
37 36 0:32 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
38 36 0:33 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
46 36 0:41 / /mnt/odd\\040place rw,relatime shared:3 - cgroup2 cgroup2 rw
";

    fn folders(cgroup: &str, mounts: &str) -> Vec<String> {
        groups(cgroup, mounts).iter().map(|group| group.folder.display().to_string()).collect()
    }

    #[test]
    fn groups_are_found_wherever_they_are_mounted() {
        assert_eq!(folders("0::/a/b\n", MOUNTS), ["/mnt/odd place/a/b", "/mnt/odd place/a", "/mnt/odd place/"]);
        assert_eq!(folders("4:memory:/x\n2:cpu:/a\n", MOUNTS), ["/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu/"]);
        // In a container only its own part may be mounted.
        let inside = "46 36 0:41 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folders("0::/docker/7/own\n", inside), ["/sys/fs/cgroup/own", "/sys/fs/cgroup/"]);
        assert!(folders("nonsense\n", "nonsense\n").is_empty());
        assert!(folders("0::/a\n", "").is_empty());
    }

    #[test]
    fn accounts_of_version_1_count_only_where_the_process_is() {
        let same = groups("2:cpu:/a\n3:cpuacct:/a\n", MOUNTS);
        assert_eq!(same[0].accounts.as_deref(), Some(Path::new("/sys/fs/cgroup/cpuacct/a")));
        assert_eq!(groups("2:cpu:/a\n3:cpuacct:/\n", MOUNTS)[0].accounts, None);
    }

    #[test]
    fn quotas_of_both_versions_are_read_and_none_is_none() {
        let half = Some(Bandwidth { quota: Span::from_millis(50), period: Span::from_millis(100) });
        assert_eq!(bandwidth_of_max("50000 100000\n"), half);
        assert_eq!(bandwidth_of_micros("50000\n", "100000\n"), half);
        for none in ["max 100000\n", "", "50000", "0 100000", "5e3 1"] {
            assert_eq!(bandwidth_of_max(none), None, "{none}");
        }
        assert_eq!(bandwidth_of_micros("-1\n", "100000\n"), None);
    }

    #[test]
    fn accounts_of_both_versions_are_read() {
        let two =
            "usage_usec 9000\nuser_usec 8000\nsystem_usec 1000\nnr_periods 12\nnr_throttled 3\nthrottled_usec 7\n";
        let account = Account { periods: 12, throttled: 3, used: Span::ZERO };
        assert_eq!(account_of(two), Some((account, Some(Span::from_millis(9)))));
        assert_eq!(account_of("nr_periods 12\nnr_throttled 3\nthrottled_time 7000\n"), Some((account, None)));
        assert_eq!(account_of("usage_usec 9000\n"), None, "the root has no quota");
    }

    #[test]
    fn with_quota_reads_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("groups/a");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.max"), "25000 100000\n").unwrap();
        fs::write(group.join("cpu.stat"), "usage_usec 5\nnr_periods 1\nnr_throttled 0\n").unwrap();
        fs::write(dir.path().join("cgroup"), "0::/a\n").unwrap();
        let mount = format!("1 2 0:3 / {} rw - cgroup2 none rw\n", dir.path().join("groups").display());
        fs::write(dir.path().join("mountinfo"), mount).unwrap();
        let found = with_quota(dir.path());
        assert_eq!(found.len(), 1, "the root has none");
        assert!((found[0].1.processors() - 0.25).abs() < 1e-9);
        assert_eq!(found[0].0.open().unwrap().read().unwrap().1, Some(Span::from_micros(5)));
        assert!(with_quota(&dir.path().join("nowhere")).is_empty());
    }
}
