//! `inhaul udt send`, and clients that want all of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use inhaul_base::Span;
use inhaul_hostile_tests::{Running, Scratch, Start, figures, heavy, inhaul, noise, wait_for};
use inhaul_udt4::{Endpoint, Options, Socket, files};

const PATIENCE: Duration = Duration::from_secs(30);
/// A share, and an address that tries to take more.
const SHARE: usize = 32;
const TRIED: usize = 200;

fn offer(directory: &Path) -> Start {
    inhaul(["udt", "send", directory.to_str().unwrap(), "--listen", "0.0.0.0:0"])
}

/// The server, and where it listens.
fn start(start: &Start) -> (Running, SocketAddr) {
    let running = start.start();
    let port = |text: String| text.split_once("Listening on UDP 0.0.0.0:")?.1.split('.').next()?.parse::<u16>().ok();
    wait_for(PATIENCE, || port(running.stderr()).is_some() || !running.is_running());
    let port = port(running.stderr()).unwrap_or_else(|| panic!("it does not listen: {}", running.stderr()));
    (running, ([127, 0, 0, 1], port).into())
}

fn host(last: u8) -> Endpoint {
    let options =
        Options { connections_max: 2000, flow_window: 2, receive_buffer: 2, linger: Span::ZERO, ..Options::default() };
    Endpoint::bind(([127, 0, 0, last], 0).into(), options).unwrap()
}

/// Connections that one address gets; each asks for `name`, if there is one, and then takes nothing.
fn take_all(from: &Endpoint, server: SocketAddr, name: Option<&str>) -> Vec<Socket> {
    let mut taken = Vec::new();
    for _ in 0..TRIED {
        let Ok(socket) = from.connect(server) else { continue };
        if let Some(name) = name {
            socket.write_all(&(name.len() as u32).to_le_bytes()).unwrap();
            socket.write_all(name.as_bytes()).unwrap();
        }
        taken.push(socket);
    }
    taken
}

fn fetch(from: &Endpoint, server: SocketAddr, name: &str) -> Vec<u8> {
    let mut got = Vec::new();
    files::fetch(&from.connect(server).unwrap(), name, |_| Ok(&mut got), &mut |_, _| true).unwrap();
    got
}

fn offered() -> Scratch {
    let offered = Scratch::new();
    offered.file("small", &noise(50_000, 1));
    std::fs::File::create(offered.path().join("huge")).unwrap().set_len(1 << 40).unwrap();
    offered
}

#[test]
fn one_address_takes_its_share_and_others_are_served() {
    let _alone = heavy();
    let offered = offered();
    let (server, address) = start(&offer(offered.path()));
    let (greedy, honest) = (host(2), host(3));
    let before = server.readings();
    let silent = take_all(&greedy, address, None);
    assert_eq!(silent.len(), SHARE);
    assert!(server.readings().threads <= before.threads, "who has not asked has no thread");
    drop(silent);
    let greedy = host(4);
    let taken = take_all(&greedy, address, Some("huge"));
    assert!(fetch(&honest, address, "small") == noise(50_000, 1));
    assert!(wait_for(PATIENCE, || server.readings().threads >= before.threads + SHARE as u64), "all are served");
    let after = server.readings();
    let grown = (after.memory_peak - before.memory) >> 20;
    figures(
        &format!("{TRIED} connections of one address to udt send, each asks for 1 TiB and takes nothing"),
        &format!("{} are taken, {} threads, {grown} MiB more; another address is served", taken.len(), after.threads),
    );
    assert!(taken.len() <= SHARE && after.threads <= before.threads + SHARE as u64 + 1, "{after:?}");
    assert!(grown < 40, "{grown} MiB");
}

#[test]
fn a_client_without_a_thread_is_refused_and_the_server_goes_on() {
    let _alone = heavy();
    let user = 2_000_000 + std::process::id();
    let offered = offered();
    std::fs::set_permissions(offered.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if !rustix::process::geteuid().is_root()
        || inhaul(["--version"]).with_threads(9, user).finish(PATIENCE).code != Some(0)
    {
        println!("skipped: this user may not become another one, or that one may not run the program");
        return;
    }
    // The endpoint's thread, the accepting one, that of signals, and a few clients.
    let (server, address) = start(&offer(offered.path()).with_threads(9, user));
    let greedy = host(2);
    let taken = take_all(&greedy, address, Some("huge"));
    assert!(wait_for(PATIENCE, || server.stderr().contains("cannot start a thread")), "{}", server.stderr());
    drop(taken);
    drop(greedy);
    assert!(server.is_running(), "{}", server.stderr());
    // When those have gone, there is a thread again.
    let served = wait_for(PATIENCE, || {
        let honest = host(3);
        let mut got = Vec::new();
        let Ok(socket) = honest.connect(address) else { return false };
        let fetched = files::fetch(&socket, "small", |_| Ok(&mut got), &mut |_, _| true);
        fetched.is_ok() && got == noise(50_000, 1)
    });
    assert!(served, "{}", server.stderr());
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}
