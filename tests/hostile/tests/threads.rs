//! A host that gives no more threads: every command ends with an answer or an error, and none by a panic.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use inhaul_hostile_tests::{Outcome, Scratch, Server, figures, inhaul, noise};

const PATIENCE: Duration = Duration::from_secs(60);

/// A user without other processes: the kernel counts threads by user.
fn user() -> u32 {
    1_000_000 + std::process::id()
}

/// A place that only this user may write to; `None`, and it says so, when this test may not become another user, or
/// that one may not run the program.
fn place_of(user: u32) -> Option<Scratch> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: this user may not become another one");
        return None;
    }
    let place = Scratch::new();
    chown(place.path(), Some(user), Some(user)).unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let version = limited(&["--version"], 1, user, place.path());
    if version.code != Some(0) {
        println!("skipped: another user may not run the program: {}", version.summary());
        return None;
    }
    Some(place)
}

fn limited(words: &[&str], threads: u32, user: u32, place: &Path) -> Outcome {
    let start = inhaul(words).variable("INHAUL_STATE", place.join("state")).variable("TMPDIR", place);
    start.with_threads(threads, user).finish(PATIENCE)
}

#[test]
fn no_command_panics_where_few_threads_are_allowed() {
    let user = user();
    let Some(place) = place_of(user) else { return };
    let from = Scratch::new();
    for k in 0..20 {
        from.file(&format!("d/{k}"), &noise(100_000, k));
    }
    std::fs::set_permissions(from.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let server = Server::offer_with(from.path(), &["--accept-puts", place.path().to_str().unwrap()]);
    let (source, tree) = (server.source("/d"), from.path().join("d"));
    let (tree, server_address) = (tree.to_str().unwrap(), server.address.to_string());
    let mut ends = Vec::new();
    for threads in 1..=6 {
        let at = |name: &str| place.path().join(format!("{name}{threads}")).to_str().unwrap().to_owned();
        let (out, scenario) = (at("out"), at("star"));
        let lines: &[&[&str]] = &[
            &["manifest", tree],
            &["ls", &source],
            &["get", &source, &out],
            &["get", &source, &out, "-n"],
            &["plan", &source, &out],
            &["put", tree, &source],
            &["doctor"],
            &["doctor", &server_address],
            &["bench", &server_address, "--duration", "1s"],
            &["udt", "receive", "127.0.0.1:1", "x", &scenario],
            &["key", "make"],
            &["lab", "list"],
        ];
        for words in lines {
            let outcome = limited(words, threads, user, place.path());
            let said = format!("{threads} threads, {words:?}: {}", outcome.summary());
            assert!(!outcome.timed_out && outcome.code.is_some_and(|code| code != 101), "{said}");
            assert!(!outcome.stderr.contains("panicked"), "{said}");
            ends.push(outcome.code);
        }
        for words in [&["manifest", tree][..], &["key", "make"]] {
            let outcome = limited(words, threads, user, place.path());
            assert_eq!(outcome.code, Some(0), "{threads} threads, {words:?}: {}", outcome.summary());
        }
    }
    let well = ends.iter().filter(|code| **code == Some(0)).count();
    figures("commands with 1 to 6 threads", &format!("{} run, {well} end with 0, none panics", ends.len()));
}

#[test]
fn a_list_is_made_and_verified_with_one_thread() {
    let user = user();
    let Some(place) = place_of(user) else { return };
    let from = Scratch::new();
    from.file("a", &noise(5_000_000, 1));
    from.file("b", b"");
    std::fs::set_permissions(from.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let tree = from.path().to_str().unwrap();
    for format in ["inhaul", "sha256", "blake3"] {
        let many = inhaul(["manifest", tree, "--format", format]).finish(PATIENCE);
        let one = limited(&["manifest", tree, "--format", format], 1, user, place.path());
        assert_eq!(one.code, Some(0), "{}", one.summary());
        assert_eq!(one.stdout, many.stdout);
    }
}
