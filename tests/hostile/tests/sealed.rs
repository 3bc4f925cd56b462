//! Sealed datagrams: forged, replayed, reordered, cut, changed and read on the way; and who may leave them in the clear.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inhaul_hostile_tests::{GtpClient, Outcome, Relay, Scratch, Server, all, figures, heavy, in_clear, inhaul, noise};
use inhaul_transport::kit::wire::PathDatagram;
use inhaul_transport::{ENVELOPE_LEN, TAG_LEN};

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than an echo takes here.
const SILENCE: Duration = Duration::from_millis(300);

/// The numbers of the probes whose echoes come, until none has come for a while.
fn echoed(client: &GtpClient) -> Vec<u32> {
    let datagrams = std::iter::from_fn(|| client.datagram(SILENCE));
    let numbers = datagrams.filter_map(|datagram| match PathDatagram::parse(&datagram) {
        Some(PathDatagram::Echo { number, .. }) => Some(number),
        _ => None,
    });
    numbers.collect()
}

#[test]
fn only_what_the_peer_has_sealed_counts_and_each_once() {
    let from = Scratch::new();
    from.file("f", &noise(100_000, 71));
    let server = Server::offer(from.path());
    let mut client = GtpClient::open(server.address, "/f");
    let mut stranger = GtpClient::open(server.address, "/f");
    let send = |client: &GtpClient, datagram: &[u8]| client.udp.send_to(datagram, client.server).unwrap();

    let probe = client.probe_datagram(100);
    let bytes = send(&client, &probe);
    assert_eq!(echoed(&client), [1], "a genuine probe is echoed");
    send(&client, &probe);
    assert_eq!(echoed(&client), [0; 0], "replayed");

    let mut attempts = 0;
    for at in [0, 3, 4, ENVELOPE_LEN, ENVELOPE_LEN + 30, bytes - TAG_LEN, bytes - 1] {
        let mut changed = client.probe_datagram(100);
        changed[at] ^= 0x20;
        send(&client, &changed);
        attempts += 1;
    }
    for len in [0, 1, ENVELOPE_LEN, ENVELOPE_LEN + TAG_LEN - 1, ENVELOPE_LEN + TAG_LEN, bytes - 1] {
        let whole = client.probe_datagram(100);
        send(&client, &whole[..len]);
        attempts += 1;
    }
    // Longer, in the clear, and sealed by somebody else's keys.
    let longer = [&client.probe_datagram(100)[..], &[0; 8]].concat();
    send(&client, &longer);
    let probe = PathDatagram::Probe { token: client.token, number: 999, reply_to: inhaul_hostile_tests::OURS }.emit();
    send(&client, &in_clear(client.connection, &probe));
    send(&client, &stranger.seal.seal(client.connection, &probe));
    assert_eq!(echoed(&client), [0; 0]);

    let (first, second) = (client.probe_datagram(0), client.probe_datagram(0));
    send(&client, &second);
    send(&client, &first);
    assert_eq!(echoed(&client).len(), 2, "reordered");
    let probe = stranger.probe_datagram(0);
    send(&stranger, &probe);
    assert_eq!(echoed(&stranger), [1], "its own flow goes on");
    figures(
        "forged, replayed, changed and cut datagrams of a flow",
        &format!("{} tried, none counts; reordered ones do", attempts + 4),
    );
}

/// The visible part of a file on the way, with these arguments of server and client: the number of datagrams with its
/// bytes in the clear, of all datagrams, and of those that follow the one before by their packet number; and the get's
/// result.
fn read_on_the_way(server: &[&str], client: &[&str]) -> (u64, u64, u64, Outcome) {
    const WORDS: &[u8] = b"no host on the way may read this. ";
    let (from, to) = (Scratch::new(), Scratch::new());
    let bytes: Vec<u8> = WORDS.iter().copied().cycle().take(2 << 20).collect();
    from.file("f", &bytes);
    let server = Server::offer_with(from.path(), server);
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let (shown, mut last) = (Arc::clone(&counts), None);
    let relay = Relay::start(server.address, move |_, datagram| {
        let number = datagram.first_chunk().map(|number| u32::from_be_bytes(*number));
        let follows = last.zip(number).is_some_and(|(last, number): (u32, u32)| last.wrapping_add(1) == number);
        last = number;
        let readable = datagram.windows(WORDS.len()).any(|window| window == WORDS);
        for (count, add) in shown.iter().zip([readable, true, follows]) {
            count.fetch_add(u64::from(add), Ordering::Relaxed);
        }
        vec![datagram]
    });
    let get = inhaul(["get", "--json", "--quiet", "--mtu", "1500"]).args(client).arg(relay.source("/f"));
    let outcome = get.arg(to.inside()).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    let [readable, all, follow] = [0, 1, 2].map(|k| counts[k].load(Ordering::Relaxed));
    (readable, all, follow, outcome)
}

#[test]
fn data_is_in_the_clear_only_if_both_ends_say_so() {
    let flag = &["--plaintext"][..];
    for (server, client, is_clear) in
        [(&[][..], &[][..], false), (flag, &[], false), (&[], flag, false), (flag, flag, true)]
    {
        let (readable, all, follow, outcome) = read_on_the_way(server, client);
        let attempt = format!("server {server:?}, client {client:?}");
        figures(
            &format!("reading a file on the way: {attempt}"),
            &format!("{readable} of {all} datagrams can be read"),
        );
        assert!(all > 1_000, "{attempt}: {all} datagrams");
        assert_eq!(readable > 0, is_clear, "{attempt}");
        assert_eq!(outcome.json()["sources"][0]["plaintext"], is_clear, "{attempt}");
        // Masked numbers follow each other by chance, once in 2^32.
        assert_eq!(follow > all / 2, is_clear, "{attempt}: {follow} of {all} numbers follow the one before");
    }
}

/// 2^22 packets and more, so that the keys change in both a real sender and a real receiver.
#[test]
fn keys_change_in_mid_transfer() {
    if !all() {
        println!("skipped: INHAUL_HOSTILE=all runs it");
        return;
    }
    let _alone = heavy();
    let server = inhaul(["bench", "--server", "--listen", "127.0.0.1:0"]).serve();
    let bench = inhaul(["bench", "--json", "--mtu", "576", "--bytes", "2600M", "--accept-new"]);
    let outcome = bench.arg(server.address.to_string()).finish(Duration::from_secs(300));
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    let report = outcome.json();
    let gbps = report["goodput_bps"].as_f64().unwrap() / 1e9;
    figures("the keys change in mid-transfer", &format!("2.6 GB in packets of 576 bytes, {gbps:.2} Gbit/s"));
    assert_eq!(report["bytes"], 2_600_000_000u64);
}
