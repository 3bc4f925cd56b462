//! `inhaul lab kernel-cc`: congestion controls are loaded, carry a transfer, and go.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use inhaul_lab::kernel_cc::{self, CONTROLS};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

use crate::common::{run, wait_until};

/// Unloads when the test ends, however it does.
struct Unload;

impl Drop for Unload {
    fn drop(&mut self) {
        // An error cannot be handled here, and the next load replaces the rest.
        let _ = kernel_cc::unload();
    }
}

/// A transfer over loopback whose sender uses the congestion control `name`; returns the one that the kernel reports.
fn transfer(name: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let received = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    set_tcp_congestion(&stream, name).unwrap();
    let sent: Vec<u8> = (0..8_000_000_u32).map(|n| (n / 7) as u8).collect();
    stream.write_all(&sent).unwrap();
    let used = tcp_congestion(&stream).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(received.join().unwrap() == sent, "{name} carried something else");
    used
}

#[test]
fn congestion_controls_are_loaded_used_and_unloaded() {
    if let Err(error) = kernel_cc::check() {
        assert!(error.is_refusal(), "{error}");
        eprintln!("SKIPPED: {error}");
        let refused = run(&["lab", "kernel-cc", "load"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(15), ""), "{}", refused.stderr);
        return;
    }
    // All tests on this host share one kernel, and so do measurements on it.
    let name = SocketAddr::from_abstract_name("inhaul-test-kernel-cc").unwrap();
    let turn = RefCell::new(None);
    wait_until("this test's turn", || turn.borrow_mut().insert(UnixListener::bind_addr(&name)).is_ok());
    if kernel_cc::status().unwrap().iter().any(|status| status.loaded) {
        eprintln!("SKIPPED: they are in use on this host; 'inhaul lab kernel-cc unload' if that is not so");
        return;
    }
    let _unload = Unload;
    // Twice, with another c: the second replaces the first.
    for c in ["20", "10"] {
        let loaded = run(&["lab", "kernel-cc", "load", "--c", c]);
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(loaded.stdout.contains(&format!("loaded, c = {c}\n")), "{}", loaded.stdout);
    }
    let listed = run(&["lab", "kernel-cc", "list"]);
    assert_eq!(
        (listed.code, listed.stdout.matches(": loaded").count()),
        (Some(0), CONTROLS.len()),
        "{}",
        listed.stdout
    );
    for control in CONTROLS {
        assert_eq!(transfer(control.name), control.name);
    }
    // A socket may outlive its congestion control.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    set_tcp_congestion(&open, "inhaul_fhstcp").unwrap();
    let unloaded = run(&["lab", "kernel-cc", "unload"]);
    assert_eq!((unloaded.code, unloaded.stdout.lines().count()), (Some(0), CONTROLS.len()), "{}", unloaded.stderr);
    assert_eq!(tcp_congestion(&open).unwrap(), "inhaul_fhstcp");
    let again = run(&["lab", "kernel-cc", "unload"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "none was loaded\n"), "{}", again.stderr);
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(set_tcp_congestion(&stream, "inhaul_fhstcp").is_err(), "it is unloaded");
}
