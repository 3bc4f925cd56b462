//! Networks that duplicate, reorder, lose, cut and invent datagrams, and flip bits of the session's TCP.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inhaul_base::RandomStream;
use inhaul_hostile_tests::{
    Direction, Relay, Scratch, Server, all, figures, heavy, holds_for, inhaul, noise, seed, tree,
};

/// Bytes fetched through a relay.
const SIZE: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// Allowed results of some of these: an end that names its cause, and no wrong byte.
const CLEAR_ENDS: [i32; 7] = [5, 6, 7, 10, 11, 16, 17];

/// Bytes of a session that are not sealed, at most: the first message of each side (RFC 8446 4.1), with a key of
/// ML-KEM-768 in it.
const UNSEALED_MAX: u64 = 1700;

/// A damage that depends on chance.
type Damage = fn(&mut RandomStream, Direction, Vec<u8>, &mut Vec<Vec<u8>>) -> Vec<Vec<u8>>;

/// One in this many.
fn one_in(random: &mut RandomStream, count: u64) -> bool {
    random.below(count) == 0
}

/// Fetches a file through a relay that does this damage; it must come, and be right.
fn comes_through(attempt: &str, damage: Damage) {
    comes_through_with(attempt, |_| {}, damage);
}

/// The same through a relay that is set up like this.
fn comes_through_with(attempt: &str, set_up: impl FnOnce(&Relay), damage: Damage) {
    let _alone = heavy();
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, 11));
    from.file("f", &bytes);
    let server = Server::offer_with(from.path(), &["--mtu", "1500"]);
    let mut random = RandomStream::new(seed(attempt), 0);
    // A datagram that a damage holds back, for later.
    let mut kept = Vec::new();
    let relay = Relay::start(server.address, move |way, datagram| damage(&mut random, way, datagram, &mut kept));
    set_up(&relay);
    let get = inhaul(["get", "-q", "--mtu", "1500", "--rate", "300M", &relay.source("/f")]).arg(to.inside());
    let outcome = get.finish(PATIENCE);
    let seconds = outcome.took.as_secs_f64();
    let rate = SIZE as f64 * 8e-6 / seconds;
    figures(attempt, &format!("{}, {seconds:.1} s, {rate:.0} Mbit/s", outcome.summary()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes, "wrong bytes under the final name");
    assert_eq!(tree(to.path()), ["f"]);
}

#[test]
fn duplicated_datagrams() {
    comes_through("30 % of datagrams come twice", |random, _, datagram, _| {
        if random.below(100) < 30 { vec![datagram.clone(), datagram] } else { vec![datagram] }
    });
}

#[test]
fn reordered_datagrams() {
    let slow_and_fast = |relay: &Relay| relay.jitter(Duration::from_millis(2));
    comes_through_with("each datagram is late by 0 to 2 ms: all are reordered", slow_and_fast, |_, _, datagram, _| {
        vec![datagram]
    });
}

#[test]
fn late_datagrams() {
    comes_through("2 % of datagrams come 30 others late", |random, way, datagram, kept| {
        if way == Direction::ToClient && random.below(100) < 2 {
            kept.push(datagram);
            return Vec::new();
        }
        let late = if kept.len() > 30 || one_in(random, 200) { kept.pop() } else { None };
        std::iter::once(datagram).chain(late).collect()
    });
}

#[test]
fn replayed_datagrams() {
    comes_through("old datagrams are replayed, 10 after one in 20", |random, way, datagram, kept| {
        if way == Direction::ToServer {
            return vec![datagram];
        }
        kept.push(datagram.clone());
        let mut out = vec![datagram];
        if one_in(random, 20) {
            out.extend((0..10).map(|_| kept[random.below(kept.len() as u64) as usize].clone()));
        }
        out
    });
}

#[test]
fn lost_datagrams() {
    comes_through("1 % of datagrams are lost, both ways", |random, _, datagram, _| {
        if one_in(random, 100) { Vec::new() } else { vec![datagram] }
    });
}

#[test]
fn many_lost_datagrams() {
    if !all() {
        println!("skipped: a long variant");
        return;
    }
    comes_through("20 % of datagrams are lost, both ways", |random, _, datagram, _| {
        if random.below(100) < 20 { Vec::new() } else { vec![datagram] }
    });
}

#[test]
fn truncated_datagrams() {
    comes_through("1 % of datagrams are cut short", |random, _, mut datagram, _| {
        if random.below(100) == 0 {
            datagram.truncate(random.below(datagram.len() as u64) as usize);
        }
        vec![datagram]
    });
}

#[test]
fn extended_datagrams() {
    comes_through("1 % of datagrams are made longer", |random, _, mut datagram, _| {
        if random.below(100) == 0 {
            datagram.resize(datagram.len() + 1 + random.below(100) as usize, 0x55);
        }
        vec![datagram]
    });
}

#[test]
fn invented_datagrams() {
    comes_through("random datagrams among one in five", |random, _, datagram, _| {
        if !one_in(random, 5) {
            return vec![datagram];
        }
        let len = random.below(1500);
        let invented = (0..len).map(|_| random.next_u64() as u8).collect();
        vec![datagram, invented]
    });
}

#[test]
fn damaged_probes() {
    comes_through("30 % of the client's datagrams are damaged", |random, way, mut datagram, _| {
        if way == Direction::ToServer && random.below(100) < 30 {
            let at = random.below(datagram.len() as u64) as usize;
            datagram[at] ^= 0xff;
        }
        vec![datagram]
    });
}

#[test]
fn a_changed_port_behind_a_nat() {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, 12));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let relay = Relay::honest(server.address);
    let get = inhaul(["get", "-q", "--rate", "50M", &relay.source("/f")]).arg(to.inside()).start();
    assert!(inhaul_hostile_tests::wait_for(PATIENCE, || relay.passed() > 300), "no data");
    relay.rebind();
    let outcome = get.finish(PATIENCE);
    figures("a NAT forgets the client's port", &format!("{}, {:.1} s", outcome.summary(), outcome.took.as_secs_f64()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
}

#[test]
fn datagrams_blocked_for_three_seconds() {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(SIZE, 13));
    from.file("f", &bytes);
    let server = Server::offer(from.path());
    let relay = Relay::honest(server.address);
    let get =
        inhaul(["get", "-q", "--fallback", "never", "--rate", "50M", &relay.source("/f")]).arg(to.inside()).start();
    assert!(inhaul_hostile_tests::wait_for(PATIENCE, || relay.passed() > 300), "no data");
    relay.block_udp(true);
    assert!(holds_for(Duration::from_secs(3), || get.is_running()), "it gave up: {}", get.stderr());
    relay.block_udp(false);
    let outcome = get.finish(PATIENCE);
    let seconds = outcome.took.as_secs_f64();
    figures("no datagram passes for 3 s", &format!("{}, {seconds:.1} s in all", outcome.summary()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
}

/// The content of a tree at the source.
fn small_tree() -> (Scratch, Vec<(String, Vec<u8>)>) {
    let from = Scratch::new();
    let mut files = vec![("t/big".to_owned(), noise(3_000_000, 20))];
    files.extend(
        (0..40).map(|index| (format!("t/d{}/file-{index}", index % 4), noise(1000 + index * 37, index as u64))),
    );
    for (name, bytes) in &files {
        from.file(name, bytes);
    }
    (from, files)
}

/// The first file beneath `to` that is not one of `files`, or not as it is there.
fn wrong_file(to: &Path, files: &[(String, Vec<u8>)]) -> Option<String> {
    let finished = |name: &String| !name.ends_with('/') && !name.ends_with(".partial") && !name.ends_with(".inhaul");
    tree(to).into_iter().filter(finished).find(|name| {
        let expected = files.iter().find(|(path, _)| path == name);
        expected.is_none_or(|(_, bytes)| std::fs::read(to.join(name)).unwrap_or_default() != *bytes)
    })
}

/// Flips one bit of the session's TCP somewhere, again and again: each time the command must come to a clear end or go
/// on, and a file under a final name must never be wrong.
#[test]
fn flipped_bits_of_tcp() {
    let _alone = heavy();
    let attempt = "one bit of the session's TCP is flipped";
    let rounds = if all() { 150 } else { 10 };
    let (from, files) = small_tree();
    let server = Server::offer(from.path());
    let seed = seed(attempt);
    let (mut completed, mut ended, mut slowest) = (0, 0, Duration::ZERO);
    let mut problems = Vec::new();
    for round in 0..rounds {
        let to = Scratch::new();
        let mut random = RandomStream::new(seed, round);
        // The session is some 3 kB long; half of it is the manifest.
        let victim = random.below(3000);
        let victim_way = if random.below(4) == 0 { Direction::ToServer } else { Direction::ToClient };
        let flipped = Arc::new(AtomicU64::new(0));
        let mut passed = 0;
        let note = Arc::clone(&flipped);
        let relay = Relay::with_stream(
            server.address,
            |_, datagram| vec![datagram],
            move |way, bytes| {
                if way != victim_way {
                    return;
                }
                if (passed..passed + bytes.len() as u64).contains(&victim) {
                    bytes[(victim - passed) as usize] ^= 1 << random.below(8);
                    note.fetch_add(1, Ordering::Relaxed);
                }
                passed += bytes.len() as u64;
            },
        );
        let get = inhaul(["get", "-q", &relay.source("/t")]).arg(to.inside()).variable("INHAUL_GET_RETRY_FOR", "20s");
        let outcome = get.finish(Duration::from_secs(75));
        slowest = slowest.max(outcome.took);
        // Damaged sealed data is like a broken connection, which is tried again.
        let may_end = victim < UNSEALED_MAX && outcome.code.is_some_and(|code| CLEAR_ENDS.contains(&code));
        let is_clear = outcome.code == Some(0) || may_end;
        if outcome.code == Some(0) {
            completed += 1;
        } else {
            ended += 1;
        }
        let wrong = wrong_file(to.path(), &files);
        if !is_clear || wrong.is_some() {
            problems.push(format!("round {round}, {victim_way:?} byte {victim}: {}, {wrong:?}", outcome.summary()));
        }
    }
    let slowest = slowest.as_secs_f64();
    figures(
        attempt,
        &format!("{rounds} rounds: {completed} complete, {ended} ended with a cause; slowest {slowest:.1} s"),
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
