//! One server and many receivers at once. `bench/many` measures cost and fairness.

use std::path::Path;

use crate::common::{Running, Server, Signal, noise, run, start, tree, wait_until, within};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const RECEIVERS: usize = 12;

/// Receivers of the file `f` of `server`, each into a directory of its own.
fn receivers(server: &Server, into: &[tempfile::TempDir]) -> Vec<Running> {
    let source = format!("inhaul://{}/f", server.address);
    into.iter().map(|to| start(&["get", &source, &within(to.path()), "--json"])).collect()
}

fn serve(directory: &Path, options: &[&str]) -> Server {
    Server::start(&[&["serve", text(directory), "--listen", "127.0.0.1:0"], options].concat())
}

fn directories<const N: usize>() -> [tempfile::TempDir; N] {
    [(); N].map(|()| tempfile::tempdir().unwrap())
}

#[test]
fn many_receivers_at_once_are_all_served() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(2_000_001, 1)).unwrap();
    let server = serve(from.path(), &["--send-rate", "300M"]);
    let into = directories::<RECEIVERS>();
    for receiver in receivers(&server, &into) {
        let outcome = receiver.finish();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    assert!(into.iter().all(|to| tree(to.path()) == tree(from.path())));
    // The file is read as it is sent, not held: only the sessions' memory grows with the receivers.
    let rss_bytes = server.memory_bytes();
    assert!(rss_bytes < 100 << 20, "{rss_bytes} bytes");
}

#[test]
fn one_session_too_many_is_told_so() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(24_000_000, 2)).unwrap();
    let server = serve(from.path(), &["--send-rate", "100M", "--max-sessions", "1"]);
    let into = directories::<2>();
    let first = receivers(&server, &into[..1]);
    wait_until("data", || into[0].path().join("f.partial").exists());
    let second = run(&["get", &format!("inhaul://{}/f", server.address), &within(into[1].path())]);
    assert_eq!(second.code, Some(7), "{}", second.stderr);
    assert!(second.stderr.contains("--max-sessions"), "{}", second.stderr);
    for receiver in first {
        assert_eq!(receiver.finish().code, Some(0));
    }
}

#[test]
fn server_that_is_told_to_stop_finishes_what_runs_and_accepts_no_client() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(24_000_000, 3)).unwrap();
    let mut server = serve(from.path(), &["--send-rate", "100M"]);
    let into = directories::<1>();
    let running = receivers(&server, &into);
    wait_until("data", || into[0].path().join("f.partial").exists());
    let address = server.address.clone();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let late = run(&["get", &format!("inhaul://{address}/f"), &within(from.path())]);
    assert_eq!(late.code, Some(5), "{}", late.stderr);
    for receiver in running {
        let outcome = receiver.finish();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
}

#[test]
fn second_signal_ends_a_server_at_once() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(24_000_000, 4)).unwrap();
    let mut server = serve(from.path(), &["--send-rate", "10M"]);
    let into = directories::<1>();
    let running = receivers(&server, &into);
    wait_until("data", || into[0].path().join("f.partial").exists());
    server.signal(Signal::TERM);
    // It accepts no more clients: the signal was handled.
    wait_until("the end of its listening", || std::net::TcpStream::connect(&server.address).is_err());
    assert_eq!(server.stop(Signal::TERM), Some(130));
    for receiver in running {
        assert_eq!(receiver.finish().code, Some(5));
    }
}

#[test]
fn a_client_s_sessions_share_its_rate() {
    let from = tempfile::tempdir().unwrap();
    std::fs::write(from.path().join("f"), noise(2_000_000, 5)).unwrap();
    let server = serve(from.path(), &["--client-rate", "40M"]);
    let into = directories::<4>();
    let began = std::time::Instant::now();
    for receiver in receivers(&server, &into) {
        let outcome = receiver.finish();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    // 8 MB are 1.6 s; content in the lists of files, and first bursts, come beside them.
    let took = began.elapsed().as_secs_f64();
    assert!(took > 1.4, "{took} s");
    assert!(into.iter().all(|to| tree(to.path()) == tree(from.path())));
}
