//! Properties that a copy needs and that a file's stat does not show.
//!
//! - If a file has an access control list, the group bits of its mode are the list's mask: an upper bound for its
//!   entries, not the group's permissions. A copy without the list would grant the mask to the group.
//! - Files of `/proc` and `/sys` are generated when they are read. Their sizes are 0, or a whole page. So their copies
//!   would be empty, or end in zeros.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::beneath::{Beneath, Links};
use crate::file_system::FileSystem;

/// The attribute with a file's access control list.
const ACL: &str = "system.posix_acl_access";
/// Most bytes of an attribute.
const ACL_BYTES_MAX: usize = 64 * 1024;
/// Enough bytes for most lists.
const ACL_BYTES: usize = 512;
/// The list's version; its bytes before and of each entry: tag, permissions, and the number of a user or group.
const ACL_VERSION: [u8; 4] = 2_u32.to_le_bytes();
const ACL_ENTRY_BYTES: usize = 8;
const TAG_GROUP: u16 = 0x04;
const TAG_MASK: u16 = 0x10;

/// The file systems in a walk, by their devices.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<u64, Device>);

#[derive(Clone, Copy, Debug)]
struct Device {
    file_system: FileSystem,
    has_lists: bool,
}

impl Device {
    fn of(fd: impl AsFd) -> Self {
        let list = rustix::fs::fgetxattr(&fd, ACL, &mut [0; ACL_BYTES_MAX][..]);
        Self { file_system: FileSystem::of(&fd), has_lists: !matches!(list, Err(Errno::NOTSUP | Errno::NOSYS)) }
    }
}

impl Devices {
    /// Whether the file `name` of `stat` in `dir` is generated when it is read.
    pub(super) fn is_generated(&mut self, dir: &Beneath, name: &CStr, stat: &Stat) -> rustix::io::Result<bool> {
        let file_system = self.device(dir, name, stat)?.file_system;
        if file_system != FileSystem::Other || stat.st_size != 0 {
            return Ok(file_system == FileSystem::Generated);
        }
        is_longer_than_it_says(&dir.open_for_reading(name.to_bytes(), Links::Refuse)?)
    }

    /// The permissions of the file `name` of `stat` in `dir`, without its list.
    pub(super) fn granted(&mut self, dir: &Beneath, name: &CStr, stat: &Stat) -> rustix::io::Result<u32> {
        // An empty mask needs no list.
        if stat.st_mode & 0o070 == 0 || !self.device(dir, name, stat)?.has_lists {
            return Ok(stat.st_mode);
        }
        let way = PathBuf::from(format!("/proc/self/fd/{}", dir.fd().as_raw_fd()));
        let way = way.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let list = read_list(|buffer| rustix::fs::lgetxattr(&way, ACL, buffer));
        if list.is_some() || std::path::Path::new("/proc/self/fd").exists() {
            return Ok(without_list(stat.st_mode, list.as_deref()));
        }
        let file = dir.open_for_reading(name.to_bytes(), Links::Refuse)?;
        Ok(granted_of(&file, stat))
    }

    fn device(&mut self, dir: &Beneath, name: &CStr, stat: &Stat) -> rustix::io::Result<Device> {
        if let Some(known) = self.0.get(&stat.st_dev) {
            return Ok(*known);
        }
        let is_of_directory = rustix::fs::fstat(dir.fd())?.st_dev == stat.st_dev;
        let device = if is_of_directory {
            Device::of(dir.fd())
        } else {
            // This asks the file system, not the file.
            let file = dir.open(name.to_bytes(), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Links::Refuse)?;
            Device { has_lists: true, file_system: FileSystem::of(file) }
        };
        self.0.insert(stat.st_dev, device);
        Ok(device)
    }
}

/// The permissions of an open file or directory, without its list.
pub(super) fn granted_of(fd: impl AsFd, stat: &Stat) -> u32 {
    if stat.st_mode & 0o070 == 0 {
        return stat.st_mode;
    }
    without_list(stat.st_mode, read_list(|buffer| rustix::fs::fgetxattr(&fd, ACL, buffer)).as_deref())
}

/// Whether an open file of `stat` is generated when it is read.
pub(super) fn is_generated(file: &File, stat: &Stat) -> rustix::io::Result<bool> {
    match FileSystem::of(file) {
        FileSystem::Other if stat.st_size == 0 => is_longer_than_it_says(file),
        file_system => Ok(file_system == FileSystem::Generated),
    }
}

/// Whether a file of size 0 has bytes, and still size 0 after its first byte was read.
fn is_longer_than_it_says(file: &File) -> rustix::io::Result<bool> {
    // If reading fails, the file counts as empty, or fails again when it is fetched.
    let has_more = file.read_at(&mut [0], 0).is_ok_and(|read| read > 0);
    Ok(has_more && rustix::fs::fstat(file)?.st_size == 0)
}

fn read_list(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Option<Vec<u8>> {
    let mut list = vec![0; ACL_BYTES];
    let len = match read(&mut list) {
        Err(Errno::RANGE) => {
            list.resize(ACL_BYTES_MAX, 0);
            read(&mut list)
        }
        len => len,
    };
    list.truncate(len.ok()?);
    Some(list)
}

/// The mode of a file without its list.
fn without_list(mode: u32, list: Option<&[u8]>) -> u32 {
    let Some(entries) = list.and_then(|list| list.strip_prefix(&ACL_VERSION)) else { return mode };
    let of = |tag: u16| {
        let (entries, _) = entries.as_chunks::<ACL_ENTRY_BYTES>();
        let entry = entries.iter().find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == tag)?;
        Some(u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 0o7)
    };
    match (of(TAG_GROUP), of(TAG_MASK)) {
        (Some(group), Some(mask)) => (mode & !0o070) | ((group & mask) << 3),
        _ => mode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Offered, ScanOptions};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A list of the owner, another user, the group, the mask, and all others.
    fn list(user: u16, other_user: u16, group: u16, mask: u16, others: u16) -> Vec<u8> {
        let mut list = ACL_VERSION.to_vec();
        let entries = [(1, user, u32::MAX), (2, other_user, 65534), (4, group, u32::MAX), (16, mask, u32::MAX)];
        for (tag, permissions, number) in entries.into_iter().chain([(32_u16, others, u32::MAX)]) {
            list.extend_from_slice(&tag.to_le_bytes());
            list.extend_from_slice(&permissions.to_le_bytes());
            list.extend_from_slice(&number.to_le_bytes());
        }
        list
    }

    #[test]
    fn a_group_has_in_a_copy_what_the_list_grants_it() {
        for (list, before, after) in [
            (list(6, 6, 4, 6, 4), 0o664, 0o644),
            (list(7, 7, 0, 7, 0), 0o770, 0o700),
            (list(6, 6, 7, 5, 0), 0o650, 0o650),
            (list(6, 6, 6, 4, 0), 0o640, 0o640),
        ] {
            assert_eq!(without_list(before, Some(&list)), after, "{before:o}");
            assert_eq!(without_list(before, Some(&list[..20])), before, "cut short");
            assert_eq!(without_list(before, Some(b"")), before);
        }
        assert_eq!(without_list(0o664, None), 0o664);
    }

    #[test]
    fn no_copy_gains_what_a_mask_grants_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let set = dir.path().join("set");
        fs::create_dir_all(set.join("d")).unwrap();
        fs::write(set.join("f"), b"x").unwrap();
        fs::write(set.join("plain"), b"x").unwrap();
        fs::set_permissions(set.join("plain"), fs::Permissions::from_mode(0o664)).unwrap();
        let (file, directory) = (list(6, 6, 4, 6, 4), list(7, 7, 5, 7, 5));
        for (path, list) in [("f", &file), ("d", &directory), ("", &directory)] {
            match rustix::fs::setxattr(set.join(path), ACL, list, rustix::fs::XattrFlags::empty()) {
                Err(Errno::NOTSUP) => return println!("skipped: there are no lists here"),
                done => done.unwrap(),
            }
        }
        assert_eq!(fs::metadata(set.join("f")).unwrap().permissions().mode() & 0o777, 0o664, "the mask shows");
        let offered = Offered::new(&[set]).unwrap();
        for options in [ScanOptions::default(), ScanOptions { attributes: true, ..ScanOptions::default() }] {
            let tree = offered.scan(b"/", options).unwrap();
            let manifest = tree.manifest();
            let modes: Vec<u32> = manifest.entries().iter().map(|entry| entry.metadata.mode).collect();
            assert_eq!(modes, [0o644, 0o664]);
            assert_eq!((manifest.directories()[0].metadata.mode, manifest.top().mode), (0o755, 0o755));
            let one = offered.scan(b"f", options).unwrap();
            assert_eq!(one.manifest().entries()[0].metadata.mode, 0o644);
        }
    }

    #[test]
    fn what_is_made_when_it_is_read_is_not_carried_as_empty() {
        let offered = Offered::new(&["/proc/sys/kernel/random".into()]).unwrap();
        let tree = offered.scan(b"/", ScanOptions::default()).unwrap();
        assert_eq!(tree.manifest().entries().len(), 0);
        let skipped = tree.manifest().skipped();
        assert!(skipped.count > 0 && skipped.paths.contains(&b"uuid".to_vec()), "{skipped:?}");
        let error = offered.scan(b"uuid", ScanOptions::default()).unwrap_err();
        assert!(matches!(error, crate::OfferedError::Generated { .. }), "{error}");
        assert!(error.to_string().contains("cat uuid >"), "{error}");
        let error = Offered::new(&["/proc/version".into()]).unwrap_err();
        assert!(matches!(error, crate::OfferedError::Generated { .. }), "{error}");
    }

    #[test]
    fn an_empty_file_is_one_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("empty"), b"").unwrap();
        let file = File::open(dir.path().join("empty")).unwrap();
        assert!(!is_longer_than_it_says(&file).unwrap());
        assert!(is_longer_than_it_says(&File::open("/proc/version").unwrap()).unwrap());
        // It has grown since: then it says so by now.
        fs::write(dir.path().join("empty"), b"x").unwrap();
        assert!(!is_longer_than_it_says(&file).unwrap());
    }
}
