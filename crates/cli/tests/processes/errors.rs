//! Each failure has its own exit code, advises the user, and leaves nothing behind.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Outcome, Server, Signal, noise, run, run_without, start, tree, wait_until, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server that offers `set/f`, and an empty directory to land in. Beside `set` lies `secret`.
fn offered() -> (tempfile::TempDir, Server, tempfile::TempDir) {
    let from = tempfile::tempdir().unwrap();
    std::fs::create_dir(from.path().join("set")).unwrap();
    std::fs::write(from.path().join("set/f"), noise(2_000_000, 1)).unwrap();
    std::fs::write(from.path().join("secret"), b"secret").unwrap();
    let server = Server::offer(&from.path().join("set"));
    (from, server, tempfile::tempdir().unwrap())
}

/// The command failed with this code, said something in one line, and left nothing in `to`.
fn assert_failed(outcome: &Outcome, code: i32, words: &str, to: &Path) {
    assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
    let line = outcome.stderr.lines().find(|line| line.contains(words));
    assert!(line.is_some_and(|line| line.starts_with("inhaul: ")), "{}", outcome.stderr);
    assert_eq!(tree(to), []);
}

#[test]
fn unknown_host_is_4() {
    let to = tempfile::tempdir().unwrap();
    let outcome = run(&["get", "inhaul://no-such-host.invalid/f", &within(to.path()), "--json"]);
    assert_failed(&outcome, 4, "check its spelling", to.path());
    assert_eq!(outcome.json()["error"]["code"], "host-unknown");
    assert_eq!(outcome.json()["status"], "failed");
}

#[test]
fn port_with_nothing_on_it_is_5() {
    let to = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let outcome = run(&["get", &format!("inhaul://127.0.0.1:{port}/f"), &within(to.path())]);
    assert_failed(&outcome, 5, "nothing listens on port", to.path());
}

#[test]
fn silent_host_is_6() {
    let to = tempfile::tempdir().unwrap();
    // Takes connections and never says a word.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("inhaul://{}/f", listener.local_addr().unwrap());
    let outcome = run(&["get", &source, &within(to.path())]);
    assert_failed(&outcome, 6, "no answer in", to.path());
}

#[test]
fn missing_path_is_3() {
    let (_from, server, to) = offered();
    let outcome = run(&["get", &format!("inhaul://{}/missing", server.address), &within(to.path())]);
    assert_failed(&outcome, 3, "there is no '/missing'", to.path());
}

#[test]
fn missing_directory_to_serve_is_3() {
    let outcome = run(&["serve", "/no/such/directory", "--listen", "127.0.0.1:0"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
}

#[test]
fn path_outside_is_7() {
    let (_from, server, to) = offered();
    let outcome = run(&["get", &format!("inhaul://{}/../secret", server.address), &within(to.path())]);
    assert_failed(&outcome, 7, "outside", to.path());
}

#[test]
fn server_of_another_kind_is_7() {
    let (_from, server, to) = offered();
    let outcome = run(&["bench", &server.address, "-t", "1"]);
    assert_failed(&outcome, 7, "bench --server", to.path());
}

#[test]
fn mirrors_without_a_majority_are_7() {
    let (from, server, to) = offered();
    std::fs::create_dir(from.path().join("other")).unwrap();
    std::fs::write(from.path().join("other/f"), b"other").unwrap();
    let other = Server::offer(&from.path().join("other"));
    let outcome = run(&["get", &format!("inhaul://{},{}/f", server.address, other.address), &within(to.path())]);
    assert_failed(&outcome, 7, "no majority", to.path());
}

#[test]
fn existing_file_is_9_and_stays_unless_told_otherwise() {
    let (_from, server, to) = offered();
    let source = format!("inhaul://{}/f", server.address);
    std::fs::write(to.path().join("f"), b"mine").unwrap();
    let outcome = run(&["get", &source, &within(to.path())]);
    assert_eq!(outcome.code, Some(9), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), [("f".to_owned(), b"mine".to_vec())]);
    let outcome = run(&["get", &source, &within(to.path()), "--overwrite"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(tree(to.path()), [("f".to_owned(), noise(2_000_000, 1))]);
}

#[test]
fn destination_that_cannot_be_written_is_9() {
    let (_from, server, to) = offered();
    let source = format!("inhaul://{}/f", server.address);
    let outcome = run(&["get", &source, text(&to.path().join("no/such/place"))]);
    assert_failed(&outcome, 9, "there is no directory", to.path());
    std::fs::set_permissions(to.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(to.path().join("probe"), b"").is_ok() {
        std::fs::remove_file(to.path().join("probe")).unwrap();
        println!("partly skipped: this user may write in read-only directories; /proc must do");
        let outcome = run(&["get", &source, "/proc/"]);
        assert_eq!(outcome.code, Some(9), "{}", outcome.stderr);
        return;
    }
    let outcome = run(&["get", &source, &within(to.path())]);
    assert_failed(&outcome, 9, "cannot be written", to.path());
}

#[test]
fn nonsense_is_2() {
    for args in [
        &["get", "inhaul://a/f", ".", "--nonsense"][..],
        &["get", "inhaul://a/f", ".", "--set", "no-value"],
        &["get", "inhaul://a/f", ".", "--set", "no-such-parameter=1"],
        &["get", "a:70000/f", "."],
        &["get", "inhaul://a:0/f", "."],
        &["get", "inhaul://a/f", ".", "--rate", "fast"],
        &["get", "inhaul://127.0.0.1/f", "inhaul://127.0.0.1/g"],
        &["frobnicate"],
    ] {
        assert_eq!(run(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn unknown_transport_is_2() {
    let (_from, server, to) = offered();
    let source = format!("inhaul://{}/f", server.address);
    let outcome = run(&["get", &source, &within(to.path()), "--transport", "pigeon"]);
    assert_failed(&outcome, 2, "inhaul protocols", to.path());
}

#[test]
fn address_that_is_taken_is_5() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let outcome = run(&["serve", text(dir.path()), "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--listen"), "{}", outcome.stderr);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let outcome = run(&["serve", text(dir.path()), "--listen", &udp.local_addr().unwrap().to_string()]);
    assert_eq!(outcome.code, Some(5), "{}", outcome.stderr);
}

#[test]
fn standard_output_that_is_closed_is_8_or_9() {
    let (from, server, to) = offered();
    let source = format!("inhaul://{}/f", server.address);
    let without = |args: &[&str]| run_without(">&-", args);
    for args in [&["ls", &source][..], &["manifest", text(from.path())], &["token", "make", "--read", "/"], &["--help"]]
    {
        let outcome = without(args);
        assert_eq!(outcome.code, Some(8), "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("standard output cannot be written (it is closed)"), "{}", outcome.stderr);
    }
    for place in ["-", "/dev/stdout"] {
        let outcome = without(&["get", &source, place]);
        assert_eq!(outcome.code, Some(9), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains("verified"), "{}", outcome.stderr);
    }
    // What prints nothing there needs none.
    let outcome = without(&["get", &source, &within(to.path())]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let outcome = run_without("<&-", &["put", "-", &source]);
    assert!(outcome.stderr.contains("standard input cannot be read"), "{}", outcome.stderr);
}

#[test]
fn interrupted_transfer_is_130() {
    let (_from, server, to) = offered();
    // It would take minutes.
    let source = format!("inhaul://{}/f", server.address);
    for signal in [Signal::INT, Signal::TERM] {
        let client = start(&["get", &source, &within(to.path()), "--receive-rate", "100k"]);
        wait_until("the transfer", || to.path().join("f.partial").exists());
        client.signal(signal);
        assert_failed(&client.finish(), 130, "interrupted", to.path());
    }
}

#[test]
fn last_server_lost_is_5() {
    // Whether it dies or is asked to stop while it is sending.
    let ways: [fn(&mut Server); 2] = [Server::kill, |server| assert_eq!(server.stop(Signal::TERM), Some(0))];
    for end in ways {
        let (_from, mut server, to) = offered();
        let source = format!("inhaul://{}/f", server.address);
        let client = start(&["get", &source, &within(to.path()), "--receive-rate", "100k"]);
        wait_until("the transfer", || to.path().join("f.partial").exists());
        end(&mut server);
        assert_failed(&client.finish(), 5, "no server is left", to.path());
    }
}
