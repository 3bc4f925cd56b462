//! Puts: the client has the data, the server fetches it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::{Outcome, Running, Server, Signal, noise, run, start, tree, wait_until};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The source of a put, a server that takes it in, and that server's offered directory.
struct Trial {
    from: tempfile::TempDir,
    inbox: tempfile::TempDir,
    _offered: tempfile::TempDir,
    server: Server,
}

impl Trial {
    fn new(options: &[&str]) -> Self {
        let [from, inbox, offered] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let args = ["serve", text(offered.path()), "--listen", "127.0.0.1:0", "--accept-puts", text(inbox.path())];
        let server = Server::start(&[&args[..], options].concat());
        Self { from, inbox, _offered: offered, server }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.from.path().join(name), bytes).unwrap();
    }

    /// Puts these names to `dest`.
    fn start(&self, names: &[&str], dest: &str, options: &[&str]) -> Running {
        let mut args = vec!["put".to_owned()];
        args.extend(names.iter().map(|name| text(&self.from.path().join(name)).to_owned()));
        args.push(format!("inhaul://{}/{dest}", self.server.address));
        args.extend(options.iter().map(|&option| option.to_owned()));
        args.push("--json".to_owned());
        start(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn put(&self, names: &[&str], dest: &str, options: &[&str]) -> Outcome {
        self.start(names, dest, options).finish()
    }

    fn names(&self) -> Vec<String> {
        tree(self.inbox.path()).into_iter().map(|(name, _)| name).collect()
    }
}

fn assert_complete(outcome: &Outcome) -> serde_json::Value {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
    outcome.json()
}

#[test]
fn put_brings_files_by_the_rules_of_cp_and_reports_as_get_does() {
    let trial = Trial::new(&[]);
    let bytes = noise(3_000_001, 1);
    trial.write("f", &bytes);
    trial.write("empty", b"");
    let report = assert_complete(&trial.put(&["f"], "", &[]));
    assert_eq!((&report["status"], &report["bytes"]), (&"complete".into(), &3_000_001.into()), "{report}");
    assert_eq!((&report["files"][0]["path"], &report["files"][0]["verified"]), (&"/f".into(), &true.into()));
    assert_eq!(report["sources"][0]["bytes"], 3_000_001, "{report}");
    assert_complete(&trial.put(&["f"], "g", &[]));
    assert_complete(&trial.put(&["f", "empty"], "several/", &[]));
    assert_eq!(trial.names(), ["f", "g", "several/", "several/empty", "several/f"]);
    assert!(tree(trial.inbox.path()).iter().all(|(name, held)| name.ends_with(['/', 'y']) || *held == bytes));
}

#[test]
fn put_brings_trees_with_links_and_odd_names() {
    let trial = Trial::new(&[]);
    let set = trial.from.path().join("set");
    std::fs::create_dir_all(set.join("deep/er/empty")).unwrap();
    for k in 0..60 {
        std::fs::write(set.join(format!("deep/{k:02} odd\nname")), noise(k * 3001, k as u64)).unwrap();
    }
    std::fs::set_permissions(set.join("deep/07 odd\nname"), std::fs::Permissions::from_mode(0o400)).unwrap();
    symlink("/etc/passwd", set.join("deep/link")).unwrap();
    assert_complete(&trial.put(&["set"], "", &["--exclude", "59*"]));
    std::fs::remove_file(set.join("deep/59 odd\nname")).unwrap();
    assert!(tree(trial.inbox.path()) == tree(trial.from.path()), "{:?}", trial.names());
    let landed = trial.inbox.path().join("set/deep");
    assert_eq!(std::fs::read_link(landed.join("link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(landed.join("07 odd\nname").metadata().unwrap().mode() & 0o7777, 0o400);
}

#[test]
fn put_replaces_nothing_unless_told() {
    let trial = Trial::new(&[]);
    trial.write("f", b"new");
    std::fs::write(trial.inbox.path().join("f"), b"theirs").unwrap();
    let refused = trial.put(&["f"], "", &[]);
    assert_eq!(refused.code, Some(9), "{}", refused.stderr);
    assert!(refused.stderr.contains("'/f' exists already and differs"), "{}", refused.stderr);
    let planned = trial.put(&["f"], "", &["--overwrite", "--dry-run"]);
    assert_eq!(assert_complete(&planned)["files"][0]["action"], "replace");
    assert_eq!(tree(trial.inbox.path()), [("f".to_owned(), b"theirs".to_vec())]);
    assert_complete(&trial.put(&["f"], "", &["--overwrite"]));
    assert_eq!(tree(trial.inbox.path()), [("f".to_owned(), b"new".to_vec())]);
}

#[test]
fn put_is_refused_where_it_is_not_allowed() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), b"data").unwrap();
    let server = Server::offer(from.path());
    let outcome = run(&["put", text(&from.path().join("f")), &format!("inhaul://{}/", server.address)]);
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--accept-puts DIR"), "{}", outcome.stderr);
}

#[test]
fn put_never_leads_out_of_the_inbox() {
    let trial = Trial::new(&[]);
    trial.write("f", b"data");
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), trial.inbox.path().join("away")).unwrap();
    for dest in ["../f", "a/../../f", "away/", "away/f", "%2e%2e/f"] {
        let outcome = trial.put(&["f"], dest, &["--overwrite"]);
        assert_eq!(outcome.code, Some(9), "{dest}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("leads outside"), "{dest}: {}", outcome.stderr);
    }
    assert!(tree(outside.path()).is_empty());
    assert!(!trial.inbox.path().parent().unwrap().join("f").exists());
}

#[test]
fn put_says_what_is_missing() {
    let trial = Trial::new(&[]);
    trial.write("f", b"data");
    assert_eq!(trial.put(&["missing"], "", &[]).code, Some(3));
    let nowhere = trial.put(&["f"], "no/such/place", &[]);
    assert_eq!(nowhere.code, Some(9), "{}", nowhere.stderr);
    let local = run(&["put", text(&trial.from.path().join("f")), "/tmp"]);
    assert_eq!(local.code, Some(2), "{}", local.stderr);
}

/// A file of this length takes some seconds at [`SLOW`].
const LEN: usize = 24_000_000;
const SLOW: &[&str] = &["--send-rate", "100M"];

#[test]
fn put_goes_on_after_its_client_or_its_server_has_died() {
    let trial = Trial::new(&[]);
    let bytes = noise(LEN, 9);
    trial.write("f", &bytes);
    let received = |path: &Path| path.metadata().map_or(0, |stat| stat.blocks() * 512);
    let partial = trial.inbox.path().join("f.partial");
    // Told to stop: it prints which data is kept.
    let client = trial.start(&["f"], "", SLOW);
    wait_until("data", || received(&partial) > 5_000_000);
    client.signal(Signal::INT);
    let outcome = client.finish();
    assert_eq!(outcome.code, Some(130), "{}", outcome.stderr);
    assert!(outcome.json()["kept_bytes"].as_u64().unwrap() > 0, "{}", outcome.stdout);
    // Killed: no process is left to print it.
    let before = received(&partial);
    let mut client = trial.start(&["f"], "", SLOW);
    wait_until("more data", || received(&partial) > before + 4_000_000);
    client.kill();
    // Until the server has noticed, the place is taken.
    wait_until("the end of it", || {
        let outcome = trial.put(&["f"], "", &["--dry-run"]);
        outcome.code == Some(0)
    });
    let report = loop {
        let outcome = trial.put(&["f"], "", &[]);
        if outcome.code != Some(9) {
            break assert_complete(&outcome);
        }
    };
    assert!(report["resumed_bytes"].as_u64().unwrap() > 6_000_000, "{report}");
    assert!(tree(trial.inbox.path()) == [("f".to_owned(), bytes)], "{:?}", trial.names());
}

#[test]
fn puts_at_once_are_bounded() {
    let trial = Trial::new(&["--max-puts", "1"]);
    trial.write("f", &noise(LEN, 3));
    trial.write("g", b"data");
    let client = trial.start(&["f"], "", SLOW);
    wait_until("data", || trial.inbox.path().join("f.partial").exists());
    let second = trial.put(&["g"], "", &[]);
    assert_eq!(second.code, Some(7), "{}", second.stderr);
    assert!(second.stderr.contains("--max-puts"), "{}", second.stderr);
    assert_complete(&client.finish());
    assert_eq!(trial.names(), ["f"]);
}

#[test]
fn server_that_dies_ends_a_put_that_says_so() {
    let mut trial = Trial::new(&[]);
    trial.write("f", &noise(LEN, 4));
    let client = trial.start(&["f"], "", SLOW);
    wait_until("data", || trial.inbox.path().join("f.partial").exists());
    trial.server.kill();
    let outcome = client.finish();
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the same command goes on"), "{}", outcome.stderr);
}

#[test]
fn every_transport_carries_puts() {
    let trial = Trial::new(&[]);
    let bytes = noise(2_000_003, 5);
    trial.write("f", &bytes);
    for name in ["gtp", "cubic", "reno"] {
        assert_complete(&trial.put(&["f"], name, &["--transport", name]));
        assert!(std::fs::read(trial.inbox.path().join(name)).unwrap() == bytes, "{name}");
    }
}
