//! Ends and stops of processes at random times: files under final names are right, and the same command continues.

use std::path::Path;
use std::time::Duration;

use inhaul_base::RandomStream;
use inhaul_hostile_tests::{
    Running, Scratch, Server, Signal, Start, all, figures, heavy, holds_for, inhaul, noise, put_rate, seed, tree,
    wait_for,
};

/// Bytes of the one large file; at [`RATE`] it takes a second.
const SIZE: usize = 24 << 20;
const RATE: &str = "200M";
const PATIENCE: Duration = Duration::from_secs(90);

/// Rounds of a test: a few, or many.
fn rounds(few: u64) -> u64 {
    if all() { 50 } else { few }
}

/// Waits for a random time up to `most_ms`.
fn wait_up_to(random: &mut RandomStream, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.below(most_ms)));
}

/// Fails when there is a file `name` beneath `to`, under its final name, that is not `bytes`; says whether it is
/// there.
fn is_there(to: &Path, name: &str, bytes: &[u8]) -> bool {
    let Ok(found) = std::fs::read(to.join(name)) else { return false };
    assert!(found == bytes, "wrong bytes under the final name {name}");
    true
}

/// Gives the same command until it has succeeded, and says how often that was.
fn until_it_succeeds(command: &Start) -> u32 {
    for times in 1..=5 {
        let outcome = command.finish(PATIENCE);
        if outcome.code == Some(0) {
            return times;
        }
        assert!(outcome.code.is_some(), "{}", outcome.summary());
    }
    panic!("five of the same command have failed");
}

#[test]
fn killed_receiver() {
    let _alone = heavy();
    let attempt = "kill -9 of get at random times, then the same command";
    let mut random = RandomStream::new(seed(attempt), 0);
    let (from, bytes) = (Scratch::new(), noise(SIZE, 31));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let rounds = rounds(6);
    let (mut complete, mut to) = (0, Scratch::new());
    let get = |to: &Scratch| inhaul(["get", "-q", "--rate", RATE, &server.source("/f")]).arg(to.inside());
    for _ in 0..rounds {
        let mut running = get(&to).start();
        wait_up_to(&mut random, 700);
        running.kill();
        if is_there(to.path(), "f", &bytes) {
            complete += 1;
            to = Scratch::new();
        }
    }
    let times = until_it_succeeds(&get(&to));
    figures(attempt, &format!("{rounds} kills, {complete} times all had come; then {times} command more, bit-exact"));
    assert!(is_there(to.path(), "f", &bytes));
    assert_eq!(tree(to.path()), ["f"]);
    assert_eq!(times, 1);
}

#[test]
fn killed_receiver_of_many_files() {
    let _alone = heavy();
    let attempt = "kill -9 of get of 1500 small files at random times";
    let mut random = RandomStream::new(seed(attempt), 0);
    let from = Scratch::new();
    let files: Vec<(String, Vec<u8>)> = (0..1500)
        .map(|index| (format!("d{:02}/f{index}", index % 40), noise(500 + index * 7 % 6000, index as u64)))
        .collect();
    files.iter().for_each(|(name, bytes)| drop(from.file(&format!("t/{name}"), bytes)));
    let server = Server::offer(from.path());
    let mut to = Scratch::new();
    let get = |to: &Scratch| inhaul(["get", "-q", "--rate", "20M", &server.source("/t")]).arg(to.inside());
    let rounds = rounds(4);
    let mut named = Vec::new();
    for _ in 0..rounds {
        if named.last() == Some(&files.len()) {
            to = Scratch::new();
        }
        let mut running = get(&to).start();
        wait_up_to(&mut random, 700);
        running.kill();
        let there = files.iter().filter(|(name, bytes)| is_there(&to.path().join("t"), name, bytes)).count();
        named.push(there);
    }
    let times = until_it_succeeds(&get(&to));
    figures(
        attempt,
        &format!("{rounds} kills, files that had their names {named:?}; then {times} command more, bit-exact"),
    );
    assert!(files.iter().all(|(name, bytes)| is_there(&to.path().join("t"), name, bytes)));
    let left: Vec<_> = tree(to.path()).into_iter().filter(|name| !name.ends_with('/')).collect();
    assert_eq!(left.len(), files.len(), "{:?}", left.iter().filter(|name| !name.contains("/f")).collect::<Vec<_>>());
}

#[test]
fn killed_sender() {
    let _alone = heavy();
    let attempt = "kill -9 of serve at random times, started again";
    let mut random = RandomStream::new(seed(attempt), 0);
    let (from, bytes) = (Scratch::new(), noise(SIZE, 32));
    from.file("f", &bytes);
    let mut server = Server::offer(from.path());
    let (address, source) = (server.address.to_string(), server.source("/f"));
    let serve = inhaul(["serve", "--grace", "0", "--listen", &address]).arg(from.path());
    let rounds = rounds(3);
    let mut commands = 0;
    for _ in 0..rounds {
        let to = Scratch::new();
        let get =
            inhaul(["get", "-q", "--rate", RATE, &source]).arg(to.inside()).variable("INHAUL_GET_RETRY_FOR", "60s");
        let running = get.start();
        wait_up_to(&mut random, 700);
        server.running.kill();
        is_there(to.path(), "f", &bytes);
        server = serve.serve();
        let outcome = running.finish(PATIENCE);
        assert!(outcome.code.is_some(), "{}", outcome.summary());
        commands += 1;
        if outcome.code != Some(0) {
            is_there(to.path(), "f", &bytes);
            commands += until_it_succeeds(&get);
        }
        assert!(is_there(to.path(), "f", &bytes));
        assert_eq!(tree(to.path()), ["f"]);
    }
    figures(attempt, &format!("{rounds} kills, {commands} commands until all had come, bit-exact"));
    assert_eq!(u64::from(commands), rounds, "the same process goes on when its server is back");
}

#[test]
fn killed_putter() {
    let _alone = heavy();
    let attempt = "kill -9 of put at random times, then the same command";
    let mut random = RandomStream::new(seed(attempt), 0);
    let (from, inbox, empty, bytes) = (Scratch::new(), Scratch::new(), Scratch::new(), noise(SIZE, 33));
    let file = from.file("f", &bytes);
    let server = Server::offer_with(empty.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
    let rounds = rounds(4);
    let put = inhaul(["put", "-q", put_rate(), RATE]).arg(&file).arg(server.source("/"));
    for _ in 0..rounds {
        let mut running = put.start();
        wait_up_to(&mut random, 700);
        running.kill();
        if is_there(inbox.path(), "f", &bytes) {
            std::fs::remove_file(inbox.path().join("f")).unwrap();
        }
    }
    let times = until_it_succeeds(&put);
    figures(attempt, &format!("{rounds} kills, then {times} commands more, bit-exact in the inbox"));
    assert!(is_there(inbox.path(), "f", &bytes));
    assert_eq!(tree(inbox.path()), ["f"]);
}

/// Stops a process for `stop` in the middle of a transfer, then lets it go on; the transfer must come to its end.
fn stopped(attempt: &str, stop: Duration, victim: impl FnOnce(&Running, &Server) -> u32) {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, 34));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let get = inhaul(["get", "-q", "--rate", RATE, &server.source("/f")]).arg(to.inside());
    let get = get.variable("INHAUL_GET_RETRY_FOR", "60s").start();
    let partial = to.path().join("f.partial");
    assert!(wait_for(PATIENCE, || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 0)), "no data");
    let victim = rustix::process::Pid::from_raw(victim(&get, &server) as i32).unwrap();
    rustix::process::kill_process(victim, Signal::STOP).unwrap();
    assert!(holds_for(stop, || get.is_running()), "it gave up: {}", get.stderr());
    rustix::process::kill_process(victim, Signal::CONT).unwrap();
    let outcome = get.finish(PATIENCE);
    let seconds = outcome.took.as_secs_f64();
    figures(attempt, &format!("{}, {seconds:.1} s in all", outcome.summary()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(is_there(to.path(), "f", &bytes));
}

#[test]
fn stopped_receiver() {
    stopped("SIGSTOP of get for 4 s", Duration::from_secs(4), |get, _| get.pid());
}

#[test]
fn stopped_sender() {
    stopped("SIGSTOP of serve for 4 s", Duration::from_secs(4), |_, server| server.running.pid());
}

#[test]
fn receiver_stopped_for_long() {
    if !all() {
        println!("skipped: a long variant");
        return;
    }
    stopped("SIGSTOP of get for 30 s", Duration::from_secs(30), |get, _| get.pid());
}

#[test]
fn sender_stopped_for_long() {
    if !all() {
        println!("skipped: a long variant");
        return;
    }
    stopped("SIGSTOP of serve for 30 s", Duration::from_secs(30), |_, server| server.running.pid());
}

#[test]
fn a_destination_that_is_held_a_moment_longer_is_waited_for() {
    let attempt = "the same get while a killed one still holds its destination";
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(100_000, 8));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    // As the kernel holds the lock of a process that it has not taken apart yet.
    let path = to.path().join("f.inhaul");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let journal = std::fs::File::open(&path).unwrap();
    journal.lock().unwrap();
    let get = inhaul(["get", "-q", &server.source("/f")]).arg(to.inside());
    let waiting = get.start();
    assert!(holds_for(Duration::from_millis(700), || waiting.is_running()), "{}", waiting.stderr());
    journal.unlock().unwrap();
    let ended = waiting.finish(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.summary());
    assert!(is_there(to.path(), "f", &bytes));
    // Another transfer that goes on is not waited for.
    let other = Scratch::new();
    std::fs::write(other.path().join("f.inhaul"), "").unwrap();
    let journal = std::fs::File::open(other.path().join("f.inhaul")).unwrap();
    journal.lock().unwrap();
    let refused = inhaul(["get", "-q", &server.source("/f")]).arg(other.inside()).finish(PATIENCE);
    assert_eq!(refused.code, Some(9), "{}", refused.summary());
    assert!(refused.stderr.contains("another transfer is bringing"), "{}", refused.summary());
    figures(attempt, &format!("exit 0; one that is held for good: exit 9 after {:.1} s", refused.took.as_secs_f64()));
}

#[test]
fn the_same_get_right_after_a_kill_goes_on() {
    let _alone = heavy();
    let attempt = "the same get at once after kill -9, before the killed one is gone";
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, 37));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let get = inhaul(["get", "-q", "--rate", RATE, &server.source("/f")]).arg(to.inside());
    let rounds = rounds(4);
    let mut before = get.start();
    for _ in 0..rounds {
        assert!(wait_for(PATIENCE, || to.path().join("f.inhaul").exists() || !before.is_running()));
        before.signal(Signal::KILL);
        // The one before is not waited for.
        let next = get.start();
        wait_for(Duration::from_millis(300), || !next.is_running());
        assert!(!next.stderr().contains("another transfer"), "{}", next.stderr());
        before = next;
    }
    let ended = before.finish(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.summary());
    assert!(is_there(to.path(), "f", &bytes));
    figures(attempt, &format!("{rounds} kills, none is told that another transfer is under way"));
}
