//! What anonymous clients cost a server, and whether it serves others meanwhile: places, descriptors, memory,
//! restarts.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use inhaul_hostile_tests::{
    Heard, HostileServer, Running, Scratch, Server, Session, Signal, all, figures, heavy, holds_for, inhaul, noise,
    wait_for,
};
use inhaul_mover::frame::{Frame, RefusalCode, SessionRole};

const PATIENCE: Duration = Duration::from_secs(60);

fn serve(directory: &Path, args: &[&str]) -> Server {
    inhaul(["serve"]).arg(directory).arg("-v").args(args).serve()
}

/// Lets this process have many connections open.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A session that has asked for the data set at `path`, and reads nothing.
fn open_and_read_nothing(server: SocketAddr, path: &str) -> Session {
    let mut session = Session::connect(server).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.send(&Frame::Open { path: path.to_owned(), owner: false, attributes: false, early: 0 }).unwrap();
    session
}

/// Waits until a server does nothing any more; the processor time that it has used by then.
fn settled(server: &Server) -> Duration {
    let mut last = (Instant::now(), server.readings().cpu);
    wait_for(PATIENCE, || {
        if last.0.elapsed() < Duration::from_millis(300) {
            return false;
        }
        let cpu = server.readings().cpu;
        let used = cpu.saturating_sub(std::mem::replace(&mut last, (Instant::now(), cpu)).1);
        used < Duration::from_millis(20)
    });
    server.readings().cpu
}

#[test]
fn sessions_that_read_nothing_share_one_list() {
    let _alone = heavy();
    // In memory, if there is room: disks take minutes for this many files.
    let from = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let entries = if all() { 300_000 } else { 40_000 };
    for directory in 0..entries / 1000 {
        let directory = from.path().join(format!("{directory:03}"));
        std::fs::create_dir(&directory).unwrap();
        (0..1000).for_each(|k| drop(std::fs::File::create(directory.join(format!("file-with-name-{k:06}"))).unwrap()));
    }
    let server = serve(from.path(), &["--listen", "127.0.0.1:0"]);
    let mut first = Session::connect(server.address).unwrap();
    first.hello(SessionRole::Fetch, "gtp");
    let length = first.open("/").unwrap().len();
    let cpu_of_one = settled(&server);
    let memory_of_one = server.readings().memory;
    let idle: Vec<Session> = (0..20).map(|_| open_and_read_nothing(server.address, "/")).collect();
    let cpu_of_all = settled(&server) - cpu_of_one;
    let more = server.readings().memory.saturating_sub(memory_of_one);
    let to = Scratch::new();
    let honest = server.get("/000/file-with-name-000001", &to.path().join("f"), PATIENCE);
    figures(
        &format!("20 sessions that read nothing of {entries} entries"),
        &format!(
            "{} MiB more than one ({} MiB), {:.1} s of processor time (one: {:.1} s)",
            more >> 20,
            memory_of_one >> 20,
            cpu_of_all.as_secs_f64(),
            cpu_of_one.as_secs_f64()
        ),
    );
    assert_eq!(honest.code, Some(0), "{}", honest.summary());
    // One more list may be read and dropped meanwhile, as the tree was read anew; twenty are far more.
    let list = memory_of_one;
    assert!(more < list + (8 << 20), "{more} bytes more, and one session with a list of {length} bytes takes {list}");
    drop(idle);
}

#[test]
fn one_address_does_not_take_all_places() {
    let _alone = heavy();
    allow_many_files();
    let from = Scratch::new();
    from.file("small", &noise(1024, 1));
    let Ok(_) = std::net::TcpListener::bind("[::1]:0") else {
        println!("skipped: there is no IPv6 here");
        return;
    };
    let server = serve(from.path(), &["--listen", "[::]:0"]);
    let [v4, v6] = ["127.0.0.1", "::1"].map(|ip| SocketAddr::new(ip.parse().unwrap(), server.address.port()));
    let began = Instant::now();
    let mut held: Vec<Session> = (0..1024).map(|_| Session::connect(v6).unwrap()).collect();
    let to = Scratch::new();
    let honest = inhaul(["get", "-q", &format!("inhaul://{v4}/small")]).arg(to.path().join("small")).finish(PATIENCE);
    let meanwhile = began.elapsed();
    // The oldest had to make way for the newest.
    let refused = held.first_mut().unwrap().receive(PATIENCE);
    let threads = server.readings().threads;
    figures(
        "1,024 connections from one address, and a get from another",
        &format!("the get takes {:.1} s; {threads} threads", honest.took.as_secs_f64()),
    );
    assert_eq!(honest.code, Some(0), "{} after {meanwhile:?}", honest.summary());
    assert!(meanwhile < Duration::from_secs(10), "silent ones have lost their places by now: {meanwhile:?}");
    assert_eq!(refused, Heard::End);
    // Silent ones lose their places, and their address has room again.
    let again = || {
        let mut session = Session::connect(v6).unwrap();
        let version = inhaul_hostile_tests::session_version();
        let hello = Frame::Hello { version, role: SessionRole::Fetch, transport: "gtp".to_owned(), parameters: vec![] };
        session.send(&hello).is_ok() && matches!(session.receive(PATIENCE), Heard::Frame(Frame::Welcome { .. }))
    };
    assert!(wait_for(Duration::from_secs(30), again));
}

#[test]
fn descriptors_that_run_out_cost_no_processor() {
    let _alone = heavy();
    let from = Scratch::new();
    from.file("small", &noise(1024, 2));
    from.file("empty", b"");
    let server = inhaul(["serve", "-v", "--listen", "127.0.0.1:0"]).arg(from.path()).limit("-n 64").serve();
    let held: Vec<Session> = (0..120).map(|_| Session::connect(server.address).unwrap()).collect();
    settled(&server);
    let (before, began) = (server.readings().cpu, Instant::now());
    assert!(holds_for(Duration::from_secs(2), || server.running.is_running()));
    let share = (server.readings().cpu - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let log = server.running.stderr();
    drop(held);
    let to = Scratch::new();
    let mut last = None;
    let served = wait_for(Duration::from_secs(20), || {
        let outcome = server.get("/small", &to.path().join("small"), PATIENCE);
        last = Some(outcome.summary());
        outcome.code == Some(0)
    });
    figures("120 connections to a server with 64 descriptors", &format!("{:.1} % of a core", share * 100.0));
    assert!(served, "{last:?}");
    assert!(share < 0.1, "{share}");
    assert!(log.contains("no session"), "the oldest had to make way: {log}");
}

#[test]
fn opened_empty_file_is_ended() {
    if !all() {
        println!("skipped: it takes half a minute (--all); `serving::tests` has it with another clock");
        return;
    }
    let from = Scratch::new();
    from.file("empty", b"");
    let server = serve(from.path(), &["--listen", "127.0.0.1:0"]);
    let mut session = Session::connect(server.address).unwrap();
    session.hello(SessionRole::Fetch, "gtp");
    session.open("/empty").unwrap();
    let began = Instant::now();
    while session.receive(PATIENCE) != Heard::End {
        assert!(began.elapsed() < PATIENCE);
    }
    figures("an empty file, opened and left", &format!("ended after {:.0} s", began.elapsed().as_secs_f64()));
}

/// Gets that take some seconds.
fn slow_gets(server: SocketAddr, to: &Scratch) -> Vec<Running> {
    let get = |index: usize| {
        let source = format!("inhaul://{server}/big");
        inhaul(["get", "--json", "-q", "--rate", "30M", &source]).arg(to.path().join(index.to_string())).start()
    };
    (0..3).map(get).collect()
}

#[test]
fn restart_in_place_loses_nothing() {
    let _alone = heavy();
    let from = Scratch::new();
    from.file("big", &noise(12 << 20, 3));
    from.file("small", &noise(1024, 4));
    let to = Scratch::new();
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let old = serve(from.path(), &["--listen", listen]);
        let address = SocketAddr::new("127.0.0.1".parse().unwrap(), old.address.port());
        let under_way = slow_gets(address, &to);
        let sent = |log: &str| log.matches("fetches /big").count() == 3;
        assert!(wait_for(PATIENCE, || sent(&old.running.stderr())), "{}", old.running.stderr());
        let has_data = |index: &usize| to.path().join(format!("{index}.partial")).exists();
        assert!(wait_for(PATIENCE, || (0..3).all(|index| has_data(&index))), "{}", old.running.stderr());
        old.running.signal(Signal::HUP);
        old.running.signal(Signal::USR1);
        let heard = |log: &str| log.contains("has been opened anew") && log.contains("sessions are open");
        assert!(wait_for(PATIENCE, || heard(&old.running.stderr())), "{}", old.running.stderr());
        old.running.signal(Signal::TERM);
        let new = serve(from.path(), &["--listen", &old.address.to_string()]);
        let second = inhaul(["serve", "--listen", &old.address.to_string()]).arg(from.path()).finish(PATIENCE);
        assert_eq!(second.code, Some(5), "two that are live refuse each other: {}", second.summary());
        for index in 0..5 {
            let small = to.path().join(format!("small-{index}"));
            let outcome = new.get("/small", &small, PATIENCE);
            assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        }
        let outcomes: Vec<_> = under_way.into_iter().map(|get| get.finish(PATIENCE)).collect();
        let old_end = old.running.finish(PATIENCE);
        let slowest = outcomes.iter().map(|outcome| outcome.took).max().unwrap_or_default();
        figures(
            &format!("restart in place of a server at {listen} with 3 gets under way"),
            &format!("all complete, slowest {:.1} s", slowest.as_secs_f64()),
        );
        for (index, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
            let json = outcome.json();
            assert_eq!(json["warnings"].as_array().map(Vec::len), Some(0), "{json}");
            let landed = to.path().join(index.to_string());
            assert!(std::fs::read(&landed).unwrap() == std::fs::read(from.path().join("big")).unwrap());
            std::fs::remove_file(landed).unwrap();
        }
        assert_eq!(old_end.code, Some(0), "{}", old_end.summary());
        let done = old_end.stderr.lines().filter(|line| line.contains("/big: sent ") && line.ends_with(", done"));
        assert_eq!(done.count(), 3, "{}", old_end.stderr);
        assert!(old_end.stderr.contains("opened anew") && old_end.stderr.contains("so far"), "{}", old_end.stderr);
    }
}

#[test]
fn refusal_reaches_no_terminal_raw() {
    let server = HostileServer::start(|session, _| {
        let evil = "\u{1b}]0;pwned\u{7}\u{1b}[2J\r\nfake line \u{202e}gpj".to_owned();
        let _ = session.receive(PATIENCE);
        let _ = session.send(&Frame::Refused { code: RefusalCode::Malformed, text: evil });
    });
    let to = Scratch::new();
    let source = format!("inhaul://{}/f", server.address);
    let outcome = inhaul(["get", "-vv", &source]).arg(to.inside()).finish(PATIENCE);
    assert!(outcome.stderr.contains("fake line"), "{}", outcome.summary());
    let raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!outcome.stderr.contains(raw), "{:?}", outcome.stderr);
    assert!(!outcome.stderr.lines().any(|line| line.starts_with("fake")), "{:?}", outcome.stderr);
}
