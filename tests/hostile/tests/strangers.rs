//! Attacks on a server by a client without a right, or with a small one: meaningless frames, frames without an end,
//! threads, tables, lines of a log. And attacks of a server on a client.

use std::fs::{Permissions, metadata, set_permissions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    Heard, HostileServer, RawManifest, RawPut, Scratch, Server, Session, Start, figures, heavy, holds_for, inhaul,
    noise, session_version, wait_for,
};
use inhaul_mover::frame::{Frame, Memory, RefusalCode, SessionRole, framed};

const PATIENCE: Duration = Duration::from_secs(60);
/// A kind that no release has.
const OPTIONAL: u8 = 200;
/// Kind of a transport's message.
const PROTOCOL: u8 = 7;

fn offered() -> Scratch {
    let from = Scratch::new();
    from.file("f", &noise(300_000, 3));
    from
}

/// An honest client gets the requested data.
fn serves(server: &Server) {
    let to = Scratch::new();
    let get = server.get("/f", &to.inside(), PATIENCE);
    assert_eq!(get.code, Some(0), "{}: {}", get.summary(), server.running.stderr());
}

/// A server that admits only clients with a right, with a state of its own.
fn closed(words: &[&str], state: &Path) -> Start {
    let start = inhaul(words).variable("INHAUL_STATE", state);
    ["INHAUL_SERVE_PUBLIC", "INHAUL_SERVE_PUBLIC_PUTS", "INHAUL_SERVE_PUBLIC_COPIES"]
        .into_iter()
        .fold(start, |start, name| start.variable(name, "false"))
}

#[test]
fn frames_that_may_be_ignored_end_their_session_and_nothing_else() {
    let from = offered();
    let server = Server::offer(from.path());
    let before = server.readings();
    let flood = framed(OPTIONAL, &[]).repeat(1000);
    let began = Instant::now();
    let mut sent = 0;
    for _ in 0..4 {
        let mut session = Session::connect(server.address).unwrap();
        session.hello(SessionRole::Fetch, "gtp");
        session.open("/f").unwrap();
        // 3.6 MB, unless the server has had enough.
        sent += (0..400).take_while(|_| session.send_bytes(&flood).is_ok()).count() * flood.len();
        let end = loop {
            match session.receive(PATIENCE) {
                Heard::Frame(Frame::Protocol { .. }) => {}
                heard => break heard,
            }
        };
        let is_told = matches!(&end, Heard::Frame(Frame::Refused { code: RefusalCode::Malformed, .. }));
        assert!(is_told || end == Heard::End, "{end:?}");
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), (server.readings().cpu - before.cpu).as_secs_f64());
    figures(
        "frames that may be ignored, without an end, to a server",
        &format!("{sent} bytes of 4 sessions in {took:.1} s, {cpu:.2} s of CPU; the server serves on"),
    );
    assert!(server.running.is_running(), "{}", server.running.stderr());
    serves(&server);
}

#[test]
fn frames_that_may_be_ignored_end_a_client_s_session_and_not_the_client() {
    let hostile = HostileServer::start(|session, endpoint| {
        if endpoint.greet(session).is_some() {
            endpoint.data_set(session, &RawManifest::file("f", 3_000_000).encode());
            let flood = framed(OPTIONAL, &[]).repeat(1000);
            while !endpoint.stopped() && session.send_bytes(&flood).is_ok() {}
        }
    });
    let to = Scratch::new();
    let get = inhaul(["get", "-q", &hostile.source("/f")]).arg(to.inside()).finish(PATIENCE);
    figures("frames that may be ignored, without an end, to a get", &get.summary());
    assert!(get.code.is_some_and(|code| code != 0 && code != 101), "{}", get.summary());
}

#[test]
fn very_many_legal_frames_of_a_session_are_taken_within_bounds() {
    let frames: usize = std::env::var("INHAUL_FLOOD_FRAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let _alone = heavy();
    let from = offered();
    let start = inhaul(["serve", "--listen", "127.0.0.1:0", "--grace", "0"]).arg(from.path());
    // Small stacks: the main thread's, and those of all others.
    let server = start.limit("-s 512").variable("RUST_MIN_STACK", "262144").serve();
    let mut session = Session::connect(server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.open("/f").unwrap();
    let before = server.readings();
    let mut batch = Vec::new();
    (0..999).for_each(|_| Frame::TryDatagrams.encode(&mut batch));
    let batches = frames.div_ceil(1000);
    let began = Instant::now();
    for n in 0..batches {
        session.send_bytes(&batch).unwrap();
        if n % 10 == 0 {
            session.send_bytes(&framed(OPTIONAL, b"of a later release")).unwrap();
        }
    }
    session.send(&Frame::Finish).unwrap();
    let last = loop {
        match session.receive(PATIENCE) {
            Heard::Frame(Frame::Protocol { .. }) => {}
            heard => break heard,
        }
    };
    assert_eq!(last, Heard::Frame(Frame::Bye));
    let after = server.readings();
    let grown = after.memory_peak.saturating_sub(before.memory_peak);
    figures(
        "legal frames of one session, with stacks of 256 KiB",
        &format!(
            "{frames} in {:.1} s, {:.1} s of CPU, {} KiB more",
            began.elapsed().as_secs_f64(),
            (after.cpu - before.cpu).as_secs_f64(),
            grown >> 10
        ),
    );
    assert!(grown < 16 << 20, "{grown}");
    serves(&server);
}

/// For everybody: a process of another user works in it.
fn open_to_all(directory: &Path, mode: u32) {
    set_permissions(directory, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_server_that_can_start_few_threads_outlives_half_open_connections() {
    /// No other test has this number.
    const USER: &str = "61234";
    if !rustix::process::getuid().is_root() {
        println!("skipped: the limit of threads is another user's, which takes root");
        return;
    }
    let _alone = heavy();
    let (from, state) = (offered(), Scratch::new());
    open_to_all(from.path(), 0o755);
    open_to_all(state.path(), 0o777);
    let user = format!("exec setpriv --reuid {USER} --regid {USER} --clear-groups \"$0\" \"$@\"");
    let start = |threads: u32| {
        let start = inhaul(["serve", "--listen", "127.0.0.1:0", "--grace", "0"]).arg(from.path());
        start.variable("INHAUL_STATE", state.path()).by(["bash", "-c", &format!("ulimit -u {threads}; {user}")])
    };
    for threads in [24, 100] {
        let server = start(threads).serve();
        let held: Vec<TcpStream> = (0..300).filter_map(|_| TcpStream::connect(server.address).ok()).collect();
        let lives = holds_for(Duration::from_secs(3), || server.running.is_running());
        assert!(lives, "{threads} threads: the server has ended: {}", server.running.stderr());
        let used = server.readings().threads;
        // Others get in meanwhile.
        let (to, own) = (Scratch::new(), Scratch::new());
        let get = inhaul(["get", "-q", "--retry-for", "40s", &server.source("/f")]);
        // It knows no other server, of another key, that has had this port.
        let get = get.variable("INHAUL_STATE", own.path()).arg(to.inside()).finish(PATIENCE);
        figures(
            &format!("{} half-open connections where {threads} threads may be", held.len()),
            &format!(
                "the server lives, with {used} threads; a get then: {} in {:.1} s",
                get.summary(),
                get.took.as_secs_f64()
            ),
        );
        assert_eq!(get.code, Some(0), "{}: {}", get.summary(), server.running.stderr());
        assert!(used <= u64::from(threads), "{used}");
        assert!(server.running.is_running());
    }
}

/// Requests a bench of this size, with this parameter, and returns the server's answer.
fn bench(server: SocketAddr, role: SessionRole, segment: usize, size: u64) -> Heard {
    let mut session = Session::connect(server).unwrap();
    let parameters = vec![("segment".to_owned(), segment.to_string())];
    session.send(&Frame::Hello { version: session_version(), role, transport: "reno".into(), parameters }).unwrap();
    assert!(matches!(session.expect(), Frame::Welcome { .. }));
    session.send(&Frame::Bench { size, memory: Memory::Hot }).unwrap();
    session.receive(PATIENCE)
}

#[test]
fn a_bench_server_outlives_clients_with_any_parameters_and_sizes() {
    let server = inhaul(["bench", "--server", "--listen", "127.0.0.1:0"]).serve();
    for n in 0..100 {
        let heard = bench(server.address, SessionRole::BenchPush, 256 + n, 1000);
        assert!(matches!(heard, Heard::Frame(Frame::DataSet { .. })), "client {n}: {heard:?}");
    }
    // More than any protocol can carry.
    for role in [SessionRole::BenchPush, SessionRole::BenchFetch] {
        let heard = bench(server.address, role, 256, u64::MAX);
        assert!(matches!(heard, Heard::Frame(_) | Heard::End), "{heard:?}");
    }
    assert!(holds_for(Duration::from_secs(1), || server.running.is_running()), "{}", server.running.stderr());
    let outcome = inhaul(["bench", "--json", "--bytes", "1M", "--accept-new"]).arg(server.address.to_string());
    let outcome = outcome.finish(PATIENCE);
    figures(
        "100 clients of a bench server with as many sets of parameters",
        &format!("a bench then: {}", outcome.summary()),
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
}

/// An order by hand, with a destination of this many bytes.
fn order(bytes: usize) -> Vec<u8> {
    let mut order = RawPut::order_to("x");
    // As JSON, each takes six bytes.
    order["destination"] = "\u{1}".repeat(bytes / 6).into();
    order.to_string().into_bytes()
}

#[test]
fn refused_orders_are_short_lines_of_the_audit_log() {
    let (from, inbox, state) = (offered(), Scratch::new(), Scratch::new());
    let words = ["serve", "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts"];
    let server = closed(&words, state.path()).arg(inbox.path()).arg(from.path()).serve();
    let mut sent = 0;
    for n in 0..90 {
        let order = order(if n % 3 == 0 { 1_000_000 } else { 15_000 });
        sent += order.len();
        let mut session = Session::connect(server.address).unwrap();
        session.hello(SessionRole::Delegate, "gtp");
        // It may be refused before all of it is there.
        let _ = session.send(&Frame::Delegate { order });
        let heard = session.receive(PATIENCE);
        let is_refused = matches!(&heard, Heard::Frame(Frame::Refused { code: RefusalCode::NoRight, .. }));
        assert!(is_refused, "{n}: {heard:?}");
    }
    let bytes: u64 = ["audit.log", "audit.log.1"]
        .iter()
        .filter_map(|name| metadata(state.path().join(name)).ok())
        .map(|file| file.len())
        .sum();
    figures("90 refused orders with long paths", &format!("{sent} bytes sent, {bytes} in the audit log"));
    assert!((1000..200_000).contains(&bytes), "{bytes}");
}

#[test]
fn streams_that_belong_to_nothing_get_no_place_and_are_written_down() {
    let (from, inbox, state) = (offered(), Scratch::new(), Scratch::new());
    let words = ["serve", "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts"];
    let server = closed(&words, state.path()).arg(inbox.path()).arg(from.path()).serve();
    for (role, frame) in [
        (SessionRole::Attach, Frame::Attach { token: 7, source: 0 }),
        (SessionRole::Tunnel, Frame::AttachTunnel { token: 7 }),
    ] {
        let mut session = Session::connect(server.address).unwrap();
        session.hello(role, "gtp");
        session.send(&frame).unwrap();
        let heard = session.receive(PATIENCE);
        let is_refused = matches!(&heard, Heard::Frame(Frame::Refused { code: RefusalCode::NotAllowed, .. }));
        assert!(is_refused, "{role:?}: {heard:?}");
    }
    let log = || std::fs::read_to_string(state.path().join("audit.log")).unwrap_or_default();
    let is_written = wait_for(PATIENCE, || log().lines().filter(|line| line.contains("\"no-session\"")).count() == 2);
    assert!(is_written, "{}", log());
    assert!(log().contains("no put waits for this session") && log().contains("there is no such session"), "{}", log());
}

#[test]
fn unfinished_frames_hold_little_memory() {
    let _alone = heavy();
    let from = offered();
    let server = Server::offer(from.path());
    let before = server.readings();
    let begun = |length: usize, bytes: usize| {
        let mut session = Session::connect(server.address).unwrap();
        session.hello(SessionRole::Fetch, "gtp");
        session.open("/f").unwrap();
        let mut frame = (length as u32).to_be_bytes().to_vec();
        frame.push(PROTOCOL);
        frame.resize(bytes, 0);
        // A frame that is too long is cut off.
        let _ = session.send_bytes(&frame);
        session
    };
    let held: Vec<Session> =
        (0..200).map(|n| if n % 2 == 0 { begun(1 << 20, 1_000_000) } else { begun(80 << 10, 70_000) }).collect();
    let grown = server.readings().memory_peak.saturating_sub(before.memory_peak);
    figures("200 sessions with unfinished frames of 1 MB and 70 kB", &format!("{} MiB more", grown >> 20));
    assert!(grown < 48 << 20, "{} MiB", grown >> 20);
    serves(&server);
    drop(held);
}

#[test]
fn a_list_of_files_without_an_end_ends_the_get() {
    let _alone = heavy();
    let hostile = HostileServer::start(|session, endpoint| {
        if endpoint.greet(session).is_none() {
            return;
        }
        let manifest = RawManifest::file("f", 3_000_000).encode();
        let mut piece = Frame::DataSet { last: false, bytes: manifest };
        while session.send(&piece).is_ok() {
            piece = Frame::DataSet { last: false, bytes: vec![1; 1_000_000] };
        }
    });
    let to = Scratch::new();
    let get = inhaul(["get", "-q", &hostile.source("/f")]).arg(to.inside()).finish(PATIENCE);
    let peak = get.readings.memory_peak >> 20;
    figures(
        "a list of files without an end",
        &format!("{peak} MiB at the client in {:.1} s; {}", get.took.as_secs_f64(), get.summary()),
    );
    assert!(get.code.is_some_and(|code| code != 0) && get.stderr.contains("longer than 256 MiB"), "{}", get.summary());
    assert!(peak < 400, "{peak} MiB");
}

#[test]
fn memory_of_a_put_of_many_files_goes_back() {
    let _alone = heavy();
    let source = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let inbox = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for directory in 0..50 {
        let directory = source.path().join(format!("{directory:03}"));
        std::fs::create_dir(&directory).unwrap();
        (0..1000).for_each(|k| drop(std::fs::File::create(directory.join(format!("file-{k:06}"))).unwrap()));
    }
    let from = offered();
    let server = Server::offer_with(from.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
    serves(&server);
    let before = server.readings().memory;
    let put = inhaul(["put", "-q"]).arg(source.path()).arg(server.source("/")).finish(4 * PATIENCE);
    assert_eq!(put.code, Some(0), "{}", put.summary());
    let more = || server.readings().memory.saturating_sub(before);
    let most = more();
    let went_back = wait_for(Duration::from_secs(15), || more() < 10 << 20);
    figures(
        "a put of 50,000 empty files",
        &format!("{} MiB more at its end, {} MiB a while after", most >> 20, more() >> 20),
    );
    assert!(went_back, "{} MiB", more() >> 20);
}
