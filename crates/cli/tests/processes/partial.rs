//! Transfers that fetch only some of their files: exit code 16.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Server, noise, run, start, tree, wait_until, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_source_that_is_not_there_does_not_hold_up_the_others() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("f"), b"good").unwrap();
    let server = Server::offer(from.path());
    let sources = ["f", "missing"].map(|name| format!("inhaul://{}/{name}", server.address));
    let outcome = run(&["get", &sources[0], &sources[1], &within(to.path()), "--json"]);
    assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("there is no '/missing'"), "{}", outcome.stderr);
    let report = outcome.json();
    assert_eq!((report["status"].as_str(), report["error"]["code"].as_str()), (Some("partial"), Some("partial")));
    assert_eq!(tree(to.path()), [("f".to_owned(), b"good".to_vec())]);
    // All of them: then it is the cause itself.
    let outcome = run(&["get", &sources[1], &sources[1].replace("missing", "lost"), &within(to.path())]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
}

#[test]
fn a_source_that_is_lost_midway_is_gone_on_with_later() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, len) in [("quick", 1_000_000), ("slow", 24_000_000)] {
        std::fs::write(from.path().join(name), noise(len, len as u64)).unwrap();
    }
    let (quick, mut slow) = (Server::offer(from.path()), Server::offer(from.path()));
    let sources = [format!("inhaul://{}/quick", quick.address), format!("inhaul://{}/slow", slow.address)];
    let client = start(&["get", &sources[0], &sources[1], &within(to.path()), "--json", "--rate", "50M"]);
    wait_until("some of the slow one", || to.path().join("slow.partial").exists());
    slow.kill();
    let outcome = client.finish();
    assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
    assert!(std::fs::read(to.path().join("quick")).unwrap() == noise(1_000_000, 1_000_000));
    assert!(!to.path().join("slow").exists());
    let again = Server::offer(from.path());
    let source = format!("inhaul://{}/slow", again.address);
    let outcome = run(&["get", &sources[0], &source, &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(tree(to.path()) == tree(from.path()));
}

#[test]
fn a_file_that_its_server_may_not_read_is_named_and_the_others_come() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let set = from.path().join("set");
    std::fs::create_dir_all(set.join("closed")).unwrap();
    for name in ["a", "secret", "closed/c"] {
        std::fs::write(set.join(name), b"content").unwrap();
    }
    for name in ["secret", "closed"] {
        std::fs::set_permissions(set.join(name), PermissionsExt::from_mode(0o000)).unwrap();
    }
    let args = ["serve", text(from.path()), "--listen", "127.0.0.1:0"];
    // Root reads everything, unless it has given up the capability to.
    let server = match std::fs::read(set.join("secret")) {
        Err(_) => Server::start(&args),
        Ok(_) => {
            let drop = "--bounding-set=-dac_override,-dac_read_search";
            if !Command::new("setpriv").args([drop, "true"]).status().is_ok_and(|status| status.success()) {
                println!("skipped: this user reads files without permission, and setpriv is not here");
                return;
            }
            Server::start_by(&["setpriv", drop], &args)
        }
    };
    let source = format!("inhaul://{}/set", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--json"]);
    let excluded =
        run(&["get", &source, &within(&to.path().join("other")), "--exclude", "secret", "--exclude", "closed"]);
    for name in ["secret", "closed"] {
        std::fs::set_permissions(set.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    assert_eq!(outcome.code, Some(16), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("'secret'") && outcome.stderr.contains("'closed'"), "{}", outcome.stderr);
    assert_eq!(tree(to.path().join("set").as_path()), [("a".to_owned(), b"content".to_vec())]);
    assert_eq!(excluded.code, Some(0), "{}", excluded.stderr);
}
