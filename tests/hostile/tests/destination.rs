//! Servers that choose names, deceptive destinations, and programs that interfere with landing files.

use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::time::Duration;

use inhaul_hostile_tests::{
    HostileServer, Offer, RawFile, RawManifest, Scratch, Server, figures, inhaul, noise, tree, wait_for,
};
use rustix::fs::{CWD, FileType, Mode};

const PATIENCE: Duration = Duration::from_secs(60);

/// A data set called `name` that has one file.
fn tree_of(name: &str, file: &str, bytes: &[u8]) -> Offer {
    let mut manifest = RawManifest::directory(name, vec![RawFile::new(file, bytes.len() as u64)]);
    manifest.directories.extend(file.rsplit_once('/').map(|(above, _)| above.as_bytes().to_vec()));
    Offer { manifest: manifest.encode(), ..Offer::file(name, bytes.to_vec()) }
}

/// A home that has keys in it.
fn home() -> Scratch {
    let home = Scratch::new();
    home.file(".ssh/id", b"mine");
    home
}

#[test]
fn a_server_that_chooses_the_name() {
    let keys = b"ssh-ed25519 of somebody else\n";
    let server = HostileServer::offer(tree_of(".ssh", "authorized_keys", keys));
    let home = home();
    let into = inhaul(["get", "-q", &server.source("/run-42")]).arg(home.inside()).finish(PATIENCE);
    assert_eq!(into.code, Some(0), "{}", into.summary());
    assert_eq!(tree(home.path()), [".ssh/", ".ssh/id", "run-42/", "run-42/authorized_keys"]);
    let file = HostileServer::offer(Offer::file(".bashrc", keys.to_vec()));
    let as_asked = inhaul(["get", "-q", &file.source("/x/run-43")]).arg(home.inside()).finish(PATIENCE);
    assert_eq!(as_asked.code, Some(0), "{}", as_asked.summary());
    assert!(home.path().join("run-43").exists() && !home.path().join(".bashrc").exists());
    figures("a server calls what was asked for .ssh, or .bashrc", "lands as what was asked for");
}

#[test]
fn a_server_that_adds_to_a_directory_that_was_there() {
    for dot in [".ssh", "d"] {
        let server = HostileServer::offer(tree_of(dot, ".ssh/authorized_keys", b"somebody else's"));
        let home = home();
        let outcome = inhaul(["get", "-q", &server.source("/run-42")]).arg(home.path()).finish(PATIENCE);
        assert_eq!(outcome.code, Some(9), "{}", outcome.summary());
        assert_eq!(tree(home.path()), [".ssh/", ".ssh/id"]);
        figures("a server brings .ssh/authorized_keys to $HOME", &outcome.summary());
    }
}

#[test]
fn what_is_no_file_is_never_replaced() {
    let (from, to) = (Scratch::new(), Scratch::new());
    from.file("t/f", b"data");
    let server = Server::offer(from.path());
    let pipe = to.directory("t").join("f");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let outcome = inhaul(["get", "-q", "--overwrite", &server.source("/t")]).arg(to.inside()).finish(PATIENCE);
    assert_eq!(outcome.code, Some(9), "{}", outcome.summary());
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    figures("--overwrite where a pipe is", &outcome.summary());
    let null = inhaul(["get", "-q", "--overwrite", &server.source("/t/f"), "/dev/null"]).finish(PATIENCE);
    assert_eq!(null.code, Some(0), "{}", null.summary());
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    figures("get SRC /dev/null --overwrite", "is a stream; the node stays");
}

/// Does `deed` to the partial file while it lands; returns the results of the transfer and of the same command once
/// more.
fn meddle(attempt: &str, deed: fn(&Path)) {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(16 << 20, 5));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let get = |rate: &str| inhaul(["get", "-q", "--rate", rate, &server.source("/f")]).arg(to.inside());
    let running = get("60M").start();
    let (partial, journal) = (to.path().join("f.partial"), to.path().join("f.inhaul"));
    // A few groups are verified.
    assert!(wait_for(PATIENCE, || journal.metadata().is_ok_and(|stat| stat.len() > 400)));
    deed(&partial);
    let outcome = running.finish(PATIENCE);
    let is_right = |name: &str| std::fs::read(to.path().join(name)).is_ok_and(|found| found == bytes);
    assert!(outcome.code != Some(0) || is_right("f"), "wrong bytes were verified");
    assert!(is_right("f") || !to.path().join("f").exists(), "wrong bytes under the name");
    let again = get("1G").finish(PATIENCE);
    assert_eq!(again.code, Some(0), "{}", again.summary());
    assert!(is_right("f"));
    figures(attempt, &format!("{}; the same command again: exit 0", outcome.summary()));
}

#[test]
fn a_partial_file_that_is_written_over() {
    meddle("a live partial file is written over", |path| {
        std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[0xEE; 400], 100).unwrap();
    });
}

#[test]
fn a_partial_file_that_is_cut() {
    meddle("a live partial file is cut", |path| {
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap();
    });
}

#[test]
fn a_partial_file_that_is_replaced() {
    meddle("a live partial file is replaced", |path| {
        std::fs::copy(path, path.with_extension("copy")).unwrap();
        std::fs::rename(path.with_extension("copy"), path).unwrap();
    });
}

#[test]
fn a_partial_file_that_is_a_name_of_another_file() {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(16 << 20, 6));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let get = |rate: &str| inhaul(["get", "-q", "--rate", rate, &server.source("/f")]).arg(to.inside());
    let running = get("60M").start();
    let journal = to.path().join("f.inhaul");
    assert!(wait_for(PATIENCE, || journal.metadata().is_ok_and(|stat| stat.len() > 400)));
    running.signal(inhaul_hostile_tests::Signal::INT);
    assert_eq!(running.finish(PATIENCE).code, Some(130));
    let victim = to.file("victim", b"precious");
    std::fs::remove_file(to.path().join("f.partial")).unwrap();
    std::fs::hard_link(&victim, to.path().join("f.partial")).unwrap();
    let outcome = get("1G").finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert_eq!(std::fs::read(victim).unwrap(), b"precious");
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    figures("a partial file is a hard link to another file", "the other file keeps its bytes; exit 0");
}

#[test]
fn all_again_without_openat2() {
    inhaul_hostile_tests::again_without_openat2(module_path!(), &[]);
}
