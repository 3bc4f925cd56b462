//! The program where system calls are filtered: as the packaged service, and without `openat2`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use inhaul_hostile_tests::{Manager, Outcome, Scratch, Signal, Unit, figures, inhaul, noise, python};

const PATIENCE: Duration = Duration::from_secs(30);
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../service/inhaul.service");
const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/probe.py");

/// The packaged service, by filters that do what systemd's do.
fn by_our_filters() -> Vec<String> {
    [env!("CARGO_BIN_EXE_confine"), UNIT].map(str::to_owned).into()
}

/// The packaged service answers gets and puts under these filters.
fn serves(by: &str, confine: &[String]) {
    let (unit, manager) = (Unit::packaged(), Manager::new());
    let (from, to) = (Scratch::new(), Scratch::new());
    // Of a size whose digests are kept.
    let big = noise(9 << 20, 3);
    from.file("set/big", &big);
    from.file("set/deep/small", b"small");
    symlink("set", from.path().join("link")).unwrap();
    symlink("/etc", from.path().join("outside")).unwrap();
    let confine: Vec<&str> = confine.iter().map(String::as_str).collect();
    let server = manager.start_unit(&unit, from.path(), &confine);
    let source = |path: &str| format!("inhaul://{}{path}", manager.address());
    let get = |path: &str, name: &str| inhaul(["get", "-q", &source(path)]).arg(to.path().join(name)).finish(PATIENCE);
    let expect = |what: &str, outcome: &Outcome, code: i32| {
        assert_eq!(outcome.code, Some(code), "{by}: {what}: {} / {}", outcome.summary(), server.stderr());
    };
    expect("a get", &get("/set", "set"), 0);
    assert!(std::fs::read(to.path().join("set/big")).unwrap() == big);
    assert_eq!(std::fs::read(to.path().join("set/deep/small")).unwrap(), b"small");
    expect("a get through a link", &get("/link/deep/small", "linked"), 0);
    expect("a get through a link that leads outside", &get("/outside/passwd", "passwd"), 7);
    expect("ls", &inhaul(["ls", &source("/")]).finish(PATIENCE), 0);
    let put = inhaul(["put", "-q"]).arg(from.path().join("set")).arg(source("/")).finish(PATIENCE);
    expect("a put", &put, 0);
    assert!(std::fs::read(manager.path().join("inbox/set/big")).unwrap() == big);
    let is_full = |path: &Path| std::fs::read_dir(path).is_ok_and(|mut items| items.next().is_some());
    assert!(is_full(&manager.path().join("state")), "{by}: the service keeps its key");
    assert!(manager.path().join("cache/inhaul/digests").is_dir(), "{by}: the service keeps digests");
    server.signal(Signal::TERM);
    let ended = server.finish(PATIENCE);
    assert_eq!(ended.code, Some(0), "{by}: {}", ended.summary());
    figures(&format!("the packaged service under {by}"), "get, ls and put succeed");
}

#[test]
fn the_packaged_service_serves_under_the_filters_of_systemd() {
    match Unit::packaged().by_systemd() {
        Some(confine) => serves("the filters of systemd", &confine),
        None => println!("no library of systemd is here: only filters that do the same are tried"),
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_packaged_service_serves_under_filters_that_do_the_same() {
    serves("filters that do what systemd's do", &by_our_filters());
}

/// How system calls end under the filters that `confine` sets up.
fn answers(confine: &[String]) -> Vec<String> {
    let mut command = Command::new(&confine[0]);
    let probed = command.args(&confine[1..]).args([python(), PROBE]).output().unwrap();
    assert!(probed.status.success(), "{confine:?}: {}", String::from_utf8_lossy(&probed.stderr));
    String::from_utf8(probed.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The probes need a user without rights: the kernel would let root do what filters do not forbid.
fn as_nobody(confine: &[String]) -> Vec<String> {
    let change = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all"];
    let change = change.iter().filter(|_| rustix::process::geteuid().is_root());
    change.map(|word| (*word).to_owned()).chain(confine.iter().cloned()).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn our_filters_answer_as_those_of_systemd_do() {
    let Some(systemd) = Unit::packaged().by_systemd() else {
        println!("no library of systemd is here to compare with");
        return;
    };
    let theirs = answers(&as_nobody(&systemd));
    let ours = answers(&as_nobody(&by_our_filters()));
    let differ: Vec<_> = theirs.iter().zip(&ours).filter(|(theirs, ours)| theirs != ours).collect();
    assert!(differ.is_empty() && theirs.len() == ours.len(), "{differ:#?}");
    assert!(theirs.contains(&"openat2: ENOSYS".to_owned()), "{theirs:#?}");
    assert!(theirs.iter().any(|answer| answer == "openat: ENOENT"), "{theirs:#?}");
}
