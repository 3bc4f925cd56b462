//! Filters of system calls: the filter of a systemd unit, and a filter without `openat2`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, Gt, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

/// Set in a process whose tests run without `openat2`.
const WITHOUT_OPENAT2: &str = "INHAUL_HOSTILE_WITHOUT_OPENAT2";
/// Such a process is ended if it takes longer.
const SECONDS_MAX: &str = "400";
/// What `@system-service` without `@privileged` allows.
const SYSTEM_SERVICE: &str = include_str!("../systemd/system-service.x86_64");

/// Runs the tests of a topic again (`module` is its `module_path!()`), only tests whose names begin with one of `names`
/// (none: all), in a process that may not call `openat2`. The same holds for the processes that it starts. A test
/// called `all_again_without_openat2` must call it.
pub fn again_without_openat2(module: &str, names: &[&str]) {
    const NAME: &str = "all_again_without_openat2";
    if std::env::var_os(WITHOUT_OPENAT2).is_some() {
        let opened = rustix::fs::openat2(CWD, "/", OFlags::PATH, Mode::empty(), ResolveFlags::empty());
        assert!(matches!(opened, Err(Errno::NOSYS)), "{opened:?}");
        return;
    }
    let topic = module.split_once("::").map_or("", |(_program, topic)| topic);
    let names = names.iter().copied().chain([if names.is_empty() { "" } else { NAME }]);
    let names: Vec<String> = names.map(|name| format!("{topic}::{name}")).collect();
    // The filter holds for one thread, and for the processes that it starts.
    let again = std::thread::spawn(move || {
        let program = filter(vec![(libc::SYS_openat2, Vec::new())], SeccompAction::Allow, refuse(Errno::NOSYS));
        seccompiler::apply_filter(&program).unwrap();
        let mut tests = Command::new("timeout");
        tests.arg(SECONDS_MAX).arg(std::env::current_exe().unwrap()).args(names);
        tests.env(WITHOUT_OPENAT2, "1").output().unwrap()
    });
    let again = again.join().unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "without openat2: {}\n{told}", again.status);
    assert!(told.contains(&format!("{NAME} ... ok")), "{told}");
}

/// Does `work` as on a kernel without IPv6, as are the processes that it starts.
pub fn without_ipv6<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let of_ipv6 = rule(vec![condition(0, Dword, Eq, family("AF_INET6"))]);
    let program = filter(vec![(libc::SYS_socket, vec![of_ipv6])], SeccompAction::Allow, refuse(Errno::AFNOSUPPORT));
    std::thread::scope(|scope| {
        // The filter holds for one thread, and for the processes that it starts.
        let confined = scope.spawn(move || {
            seccompiler::apply_filter(&program).unwrap();
            assert!(std::net::UdpSocket::bind("[::]:0").is_err());
            work()
        });
        confined.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A unit file's settings of its service.
#[derive(Clone, Debug)]
pub struct Unit {
    directives: Vec<(String, String)>,
}

/// Directives of a service by which systemd filters system calls.
const FILTERS: &[&str] = &[
    "DynamicUser",
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "PrivateDevices",
    "ProtectClock",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
    "SystemCallErrorNumber",
    "SystemCallFilter",
];
/// Directives that change something else: the manager of these tests does some of that.
const OTHERS: &[&str] = &[
    "AmbientCapabilities",
    "CacheDirectory",
    "CacheDirectoryMode",
    "CapabilityBoundingSet",
    "Environment",
    "ExecReload",
    "ExecStart",
    "LimitNOFILE",
    "NoNewPrivileges",
    "PrivateTmp",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectProc",
    "ProtectSystem",
    "Restart",
    "RestartSec",
    "StateDirectory",
    "StateDirectoryMode",
    "TimeoutStopSec",
    "Type",
    "UMask",
    "User",
    "WatchdogSec",
];

impl Unit {
    /// The packaged service.
    pub fn packaged() -> Self {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../service/inhaul.service"))
    }

    /// The service of a unit file. Panics at a directive that these tests do not know: it may change what a service
    /// can do.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let of_service = text.split("[Service]").nth(1).unwrap().split("\n[").next().unwrap();
        let lines = of_service.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let directives: Vec<(String, String)> = lines
            .map(|line| line.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (name, _) in &directives {
            let is_known = FILTERS.contains(&name.as_str()) || OTHERS.contains(&name.as_str());
            assert!(is_known, "what does {name}= do? Say so in tests/hostile/src/confined.rs");
        }
        Self { directives }
    }

    /// The values of a directive, in the file's order.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.directives.iter().filter(|(of, _)| of == name).map(|(_, value)| value.as_str()).collect()
    }

    fn is_on(&self, name: &str) -> bool {
        self.values(name).last() == Some(&"yes")
    }

    /// The command that runs what follows it under systemd's own filters; `None`: there is no systemd whose library is
    /// known.
    pub fn by_systemd(&self) -> Option<Vec<String>> {
        let library = library_of_systemd()?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/confine.py");
        let is_filter = |name: &String| FILTERS.contains(&name.as_str());
        let directives = self.directives.iter().filter(|(name, _)| is_filter(name));
        let words = [python(), script, library.to_str()?].map(str::to_owned);
        let directives = directives.map(|(name, value)| format!("{name}={value}"));
        Some(words.into_iter().chain(directives).chain(["--".to_owned()]).collect())
    }

    /// Filters that do what systemd's do, to be set up in this order. Those of `SystemCallFilter=` refuse what other
    /// directives refuse in the same way: `ProtectClock=`, `ProtectKernelModules=`, `PrivateDevices=` and others.
    pub fn filters(&self) -> Vec<BpfProgram> {
        let mut filters = Vec::new();
        let mut deny = |rules, errno| filters.push(filter(rules, SeccompAction::Allow, refuse(errno)));
        let families = self.values("RestrictAddressFamilies").join(" ");
        if !families.is_empty() {
            let conditions = families.split_whitespace().map(|name| condition(0, Dword, Ne, family(name)));
            deny(vec![(libc::SYS_socket, vec![rule(conditions.collect())])], Errno::AFNOSUPPORT);
        }
        if self.is_on("MemoryDenyWriteExecute") {
            deny(made_executable(), Errno::PERM);
        }
        if self.is_on("RestrictRealtime") {
            // Not SCHED_OTHER, SCHED_BATCH and SCHED_IDLE.
            let policies = [condition(1, Dword, Gt, 5)].into_iter();
            let policies = policies.chain([1, 2, 4].map(|policy| condition(1, Dword, Eq, policy)));
            let rules = policies.map(|policy| rule(vec![policy])).collect();
            deny(vec![(libc::SYS_sched_setscheduler, rules)], Errno::PERM);
        }
        if self.is_on("RestrictSUIDSGID") || self.is_on("DynamicUser") {
            deny(set_ids(), Errno::PERM);
            deny(vec![(libc::SYS_openat2, Vec::new())], Errno::NOSYS);
        }
        if self.is_on("RestrictNamespaces") {
            deny(namespaces(), Errno::PERM);
            deny(vec![(libc::SYS_clone3, Vec::new())], Errno::NOSYS);
        }
        if self.is_on("LockPersonality") {
            deny(vec![(libc::SYS_personality, vec![rule(vec![condition(0, Dword, Ne, 0)])])], Errno::PERM);
        }
        if !self.values("SystemCallFilter").is_empty() {
            assert_eq!(self.values("SystemCallFilter"), ["@system-service", "~@privileged"], "other lists are needed");
            assert_eq!(self.values("SystemCallErrorNumber"), ["EPERM"]);
            let lines = SYSTEM_SERVICE.lines().filter(|line| !line.starts_with('#'));
            let calls = lines.filter_map(|line| line.split(' ').nth(1)?.parse().ok()).map(|call| (call, Vec::new()));
            filters.push(filter(calls.collect(), refuse(Errno::PERM), SeccompAction::Allow));
        }
        filters
    }
}

/// Python for a user without rights: the first one in this user's path may be accessible only to this user.
pub fn python() -> &'static str {
    let of_system = "/usr/bin/python3";
    if Path::new(of_system).exists() { of_system } else { "python3" }
}

/// The shared library of systemd's programs, in a version with the functions that confine.py calls.
fn library_of_systemd() -> Option<PathBuf> {
    let places = ["/usr/lib/x86_64-linux-gnu/systemd", "/usr/lib/aarch64-linux-gnu/systemd", "/usr/lib/systemd"];
    let libraries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    let version = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let digits = name.strip_prefix("libsystemd-shared-")?.split(|other: char| !other.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok().filter(|version| (247..=257).contains(version))
    };
    libraries.map(|item| item.path()).find(|path| version(path).is_some())
}

/// Calls, each with the rules by which it matches; without a rule it always does.
type Calls = Vec<(i64, Vec<SeccompRule>)>;

fn refuse(errno: Errno) -> SeccompAction {
    SeccompAction::Errno(errno.raw_os_error().unsigned_abs())
}

fn filter(calls: Calls, otherwise: SeccompAction, matching: SeccompAction) -> BpfProgram {
    let calls: BTreeMap<i64, Vec<SeccompRule>> = calls.into_iter().collect();
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(calls, otherwise, matching, architecture).unwrap().try_into().unwrap()
}

fn condition(argument: u8, len: seccompiler::SeccompCmpArgLen, operator: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, len, operator, value).unwrap()
}

fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).unwrap()
}

/// One rule for each of these bits in an argument.
fn any_of(argument: u8, bits: impl IntoIterator<Item = u64>) -> Vec<SeccompRule> {
    bits.into_iter().map(|bit| rule(vec![condition(argument, Qword, MaskedEq(bit), bit)])).collect()
}

fn family(name: &str) -> u64 {
    match name {
        "AF_UNIX" => 1,
        "AF_INET" => 2,
        "AF_INET6" => 10,
        "AF_NETLINK" => 16,
        other => panic!("which number has {other}?"),
    }
}

/// Calls by which what can be written becomes executable.
fn made_executable() -> Calls {
    const WRITE_AND_EXECUTE: u64 = 6;
    const EXECUTE: u64 = 4;
    const SHM_EXEC: u64 = 0o100_000;
    vec![
        (libc::SYS_mmap, any_of(2, [WRITE_AND_EXECUTE])),
        (libc::SYS_mprotect, any_of(2, [EXECUTE])),
        (libc::SYS_pkey_mprotect, any_of(2, [EXECUTE])),
        (libc::SYS_shmat, any_of(2, [SHM_EXEC])),
    ]
}

/// Calls that make a file of a set user id or group id.
fn set_ids() -> Calls {
    let ids = [0o4000, 0o2000];
    let creating = |flags: u8, mode: u8| {
        let create = u64::from(OFlags::CREATE.bits());
        let both = ids.map(|id| {
            vec![condition(flags, Qword, MaskedEq(create), create), condition(mode, Qword, MaskedEq(id), id)]
        });
        both.into_iter().map(rule).collect::<Vec<_>>()
    };
    let mut calls = vec![
        (libc::SYS_fchmod, any_of(1, ids)),
        (libc::SYS_fchmodat, any_of(2, ids)),
        (libc::SYS_mkdirat, any_of(2, ids)),
        (libc::SYS_mknodat, any_of(2, ids)),
        (libc::SYS_openat, creating(2, 3)),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        (libc::SYS_chmod, any_of(1, ids)),
        (libc::SYS_mkdir, any_of(1, ids)),
        (libc::SYS_mknod, any_of(1, ids)),
        (libc::SYS_creat, any_of(1, ids)),
        (libc::SYS_open, creating(1, 2)),
    ]);
    calls
}

/// Calls that make or enter namespaces.
fn namespaces() -> Calls {
    // Times, mounts, control groups, host names, System V IPC, users, processes, network.
    let kinds = [0x80, 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
    let mut entered = any_of(1, kinds);
    entered.push(rule(vec![condition(1, Qword, Eq, 0)]));
    vec![
        (libc::SYS_unshare, any_of(0, kinds)),
        // The first bits of these flags are the signal at the end.
        (libc::SYS_clone, any_of(0, kinds.into_iter().skip(1))),
        (libc::SYS_setns, entered),
    ]
}
