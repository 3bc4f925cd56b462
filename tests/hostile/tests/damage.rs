//! Networks that damage datagrams, and files that have changed.

use std::time::Duration;

use inhaul_hostile_tests::{
    Direction, GtpClient, Outcome, Relay, Scratch, Server, SmallDisk, figures, heavy, inhaul, noise, seed,
    session_version, wait_for,
};
use inhaul_protocols::gtp::wire::{DataHeader, HEADER_LEN};
use inhaul_transport::kit::receiver::DataHead;

const PATIENCE: Duration = Duration::from_secs(60);
/// The fetched file: 11,651 datagrams at an MTU of 1500.
const BYTES: usize = 16 << 20;
/// A receiver's limit, in bit/s: a rate that a relay in user space carries without loss of its own. 1.4 s for all.
const RATE: &str = "100M";

/// The damage to a datagram on its way, by a random number.
type Damage = fn(&mut Vec<u8>, usize);

const ONE_BYTE: Damage = |datagram, random| {
    let at = random % datagram.len();
    datagram[at] ^= 1 + (random >> 20) as u8 % 255;
};
const HEADER: Damage = |datagram, random| {
    let at = random % datagram.len().min(32);
    datagram[at] ^= 1 << (random >> 20 & 7);
};
const CUT: Damage = |datagram, random| datagram.truncate(random % datagram.len());
const LOST: Damage = |datagram, _| datagram.clear();
const LONGER: Damage = |datagram, random| datagram.resize(datagram.len() + 1 + random % 100, b'x');

/// Fetches by way of a relay that damages one of this many datagrams to the client (0: none), and checks every byte.
fn fetch(server: &Server, bytes: &[u8], transport: &str, one_in: usize, damage: Damage, seed: u64) -> Outcome {
    let to = Scratch::new();
    let mut random = seed | 1;
    let relay = Relay::start(server.address, move |way, mut datagram| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if one_in > 0
            && way == Direction::ToClient
            && ((random >> 32) as usize).is_multiple_of(one_in)
            && !datagram.is_empty()
        {
            damage(&mut datagram, random as u32 as usize);
        }
        if datagram.is_empty() { Vec::new() } else { vec![datagram] }
    });
    let options = ["--quiet", "--json", "--mtu", "1500", "--receive-rate", RATE, "--transport", transport];
    let get = inhaul(["get"]).arg(relay.source("/f")).arg(to.path().join("f"));
    let outcome = get.args(options).finish(PATIENCE);
    if outcome.code == Some(0) {
        assert!(std::fs::read(to.path().join("f")).unwrap() == bytes, "wrong bytes under the final name");
    }
    outcome
}

/// Damages one of this many datagrams, and returns the time of the fetch, which must succeed.
fn seconds(server: &Server, bytes: &[u8], kind: &str, one_in: usize, damage: Damage, seed: u64) -> f64 {
    let outcome = fetch(server, bytes, "gtp", one_in, damage, seed);
    assert_eq!(outcome.code, Some(0), "{kind}: {}", outcome.summary());
    assert!(!outcome.stderr.contains("came in wrong"), "{kind}: {}", outcome.stderr);
    outcome.took.as_secs_f64()
}

#[test]
fn a_damaged_datagram_in_a_thousand_costs_less_than_half_of_the_rate() {
    let _heavy = heavy();
    let (from, bytes) = (Scratch::new(), noise(BYTES, 1));
    from.file("f", &bytes);
    let server = Server::offer_with(from.path(), &["--mtu", "1500"]);
    let seed = seed("a damaged datagram in a thousand");
    let (mut clean, mut damaged) = (0.0, 0.0);
    // In turns, because the machine's other load changes.
    for round in 0..2 {
        clean += seconds(&server, &bytes, "undamaged", 0, ONE_BYTE, seed);
        damaged += seconds(&server, &bytes, "0.1 %", 1_000, ONE_BYTE, seed + round);
    }
    figures("0.1 % with a byte changed (gtp)", &format!("exit 0, {damaged:.1} s, undamaged {clean:.1} s"));
    assert!(damaged < 2.0 * clean, "{damaged:.1} s instead of {clean:.1} s");
}

#[test]
fn a_damaged_datagram_in_a_hundred_is_lost_and_no_more() {
    let _heavy = heavy();
    let (from, bytes) = (Scratch::new(), noise(BYTES / 4, 1));
    from.file("f", &bytes);
    let server = Server::offer_with(from.path(), &["--mtu", "1500"]);
    let seed = seed("a damaged datagram in a hundred");
    // Its cost is GTP's reaction to a loss of 1 %, so that is printed beside it.
    let kinds: [(&str, Damage); 5] = [
        ("1 % lost", LOST),
        ("1 % with a byte changed", ONE_BYTE),
        ("1 % with a bit of the header flipped", HEADER),
        ("1 % cut short", CUT),
        ("1 % made longer", LONGER),
    ];
    for (kind, damage) in kinds {
        let took = seconds(&server, &bytes, kind, 100, damage, seed);
        figures(&format!("{kind} (gtp)"), &format!("exit 0, {took:.1} s"));
    }
}

#[test]
fn damaged_datagrams_do_not_end_a_transfer_over_tcps_laws() {
    let _heavy = heavy();
    let (from, bytes) = (Scratch::new(), noise(BYTES / 4, 2));
    from.file("f", &bytes);
    let server = Server::offer_with(from.path(), &["--mtu", "1500"]);
    let outcome = fetch(&server, &bytes, "cubic", 100, ONE_BYTE, seed("damaged segments"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(!outcome.stderr.contains("came in wrong"), "{}", outcome.stderr);
    figures("1 % with a byte changed (cubic)", &format!("exit 0, {:.1} s", outcome.took.as_secs_f64()));
}

#[test]
fn a_server_of_a_file_of_exbibytes_needs_memory_for_what_it_sends() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let size = 7 << 60;
    std::fs::File::create(disk.path().join("f")).unwrap().set_len(size).unwrap();
    let server = Server::offer(disk.path());
    let mut client = GtpClient::open_with_mtu(server.address, "/f", 1500);
    assert_eq!(client.size, size);
    client.open_path();
    client.rate(1, 10_000_000, 9000);
    // At both ends of the file.
    client.request(1424, &[(0, 14_240), (size - 14_240, 14_240)]);
    for _ in 0..20 {
        let datagram = std::iter::from_fn(|| client.datagram(PATIENCE))
            .find(|datagram| DataHeader::parse(datagram).is_some())
            .unwrap_or_else(|| panic!("no data: {}", server.running.stderr()));
        assert_eq!(datagram[HEADER_LEN..], [0; 1424]);
    }
    let memory = server.readings().memory;
    assert!(memory < 64 << 20, "{memory} bytes");
    figures("a sparse file of 7 EiB is asked for", &format!("data comes, {} MB of memory", memory / 1_000_000));
}

#[test]
fn a_file_that_is_truncated_while_it_is_sent_does_not_end_the_server() {
    let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(8 << 20, 3));
    let path = from.file("f", &bytes);
    from.file("g", &bytes);
    let server = Server::offer_with(from.path(), &["--send-rate", "40M"]);
    let get = inhaul(["get", "--quiet", &server.source("/f")]).arg(to.path().join("f")).start();
    let partial = to.path().join("f.partial");
    assert!(wait_for(PATIENCE, || std::fs::metadata(&partial).is_ok_and(|found| found.len() > 0)), "no data");
    std::fs::File::options().write(true).open(path).unwrap().set_len(1 << 20).unwrap();
    let outcome = get.finish(PATIENCE);
    assert!(outcome.code.is_some_and(|code| code > 0), "{}", outcome.summary());
    assert!(!to.path().join("f").exists());
    let outcome = server.get("/g", &to.path().join("g"), PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    figures(
        "a file is truncated while it is sent",
        &format!("that get ends, the next is served (session {})", session_version()),
    );
}
