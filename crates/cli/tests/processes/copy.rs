//! Copies: one server fetches from another, asked for by a third.

use std::path::Path;

use crate::common::{Outcome, Running, Server, noise, start, tree, wait_until};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server that has a file `f`, and a server that takes data in.
struct Trial {
    _from: tempfile::TempDir,
    inbox: tempfile::TempDir,
    from: Server,
    to: Server,
    bytes: Vec<u8>,
}

impl Trial {
    /// The second server copies from the first if it is `allowed` to.
    fn new(len: usize, allowed: bool) -> Self {
        let [offered, inbox] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let bytes = noise(len, len as u64);
        std::fs::write(offered.path().join("f"), &bytes).unwrap();
        let from = Server::offer(offered.path());
        let known = if allowed { from.address.clone() } else { "127.0.0.1:1".to_owned() };
        let to = Server::start(&[
            "serve",
            text(inbox.path()),
            "--listen",
            "127.0.0.1:0",
            "--accept-puts",
            text(inbox.path()),
            "--accept-copies-from",
            &known,
        ]);
        Self { _from: offered, inbox, from, to, bytes }
    }

    fn start(&self, options: &[&str]) -> Running {
        let places = [format!("inhaul://{}/f", self.from.address), format!("inhaul://{}/", self.to.address)];
        start(&[&["copy", &places[0], &places[1], "--json"], options].concat())
    }

    fn copy(&self, options: &[&str]) -> Outcome {
        self.start(options).finish()
    }
}

#[test]
fn copy_goes_from_server_to_server() {
    let trial = Trial::new(3_000_001, true);
    let outcome = trial.copy(&[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report = outcome.json();
    assert_eq!((&report["bytes"], &report["files"][0]["path"]), (&3_000_001.into(), &"/f".into()), "{report}");
    // The bytes came from the first server, and not by way of this process.
    assert_eq!(report["sources"][0]["address"], trial.from.address, "{report}");
    assert!(tree(trial.inbox.path()) == [("f".to_owned(), trial.bytes.clone())]);
    let kept = trial.copy(&["--checksum"]);
    assert_eq!((kept.code, &kept.json()["files"][0]["action"]), (Some(0), &"keep".into()), "{}", kept.stderr);
}

#[test]
fn copy_is_no_way_to_hosts_that_are_not_named() {
    let trial = Trial::new(1000, false);
    let outcome = trial.copy(&[]);
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--accept-copies-from"), "{}", outcome.stderr);
    assert!(tree(trial.inbox.path()).is_empty());
}

#[test]
fn copy_ends_with_its_client_and_continues_when_asked_again() {
    let trial = Trial::new(24_000_000, true);
    let mut client = trial.start(&["--rate", "100M"]);
    let partial = trial.inbox.path().join("f.partial");
    let received = || std::fs::metadata(&partial).map_or(0, |stat| std::os::unix::fs::MetadataExt::blocks(&stat) * 512);
    wait_until("data", || received() > 5_000_000);
    client.kill();
    wait_until("the end of it", || trial.copy(&["--dry-run"]).code == Some(0));
    let mut outcome = trial.copy(&[]);
    // Until the server has noticed, the place is taken.
    while outcome.code == Some(9) {
        outcome = trial.copy(&[]);
    }
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.json()["resumed_bytes"].as_u64().unwrap() > 3_000_000, "{}", outcome.stdout);
    assert!(tree(trial.inbox.path()) == [("f".to_owned(), trial.bytes.clone())]);
}
