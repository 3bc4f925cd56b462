//! Content that comes with the description of its data set: a client's handling of it, right or wrong.

use std::io::{IoSlice, Read};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inhaul_hostile_tests::{
    Endpoint, Heard, HostileServer, Offer, Outcome, RawFile, RawManifest, Scratch, Server, Session, figures, inhaul,
    noise,
};
use inhaul_mover::frame::{Frame, GroupDigest};
use inhaul_store::{Landing, LandingOptions, Manifest, digest};

const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of content that a client takes with a description.
const EARLY: usize = 32 * 1024;

/// The digests of files that have one group each.
fn digests(files: &[&[u8]]) -> Vec<GroupDigest> {
    files.iter().map(|bytes| digest::group_digest(bytes.len() as u64, 0, bytes)).collect()
}

/// A server of `f`, which sends its `digests` and `content` when it is opened, and serves requests.
fn describing(offer: Offer, digests: Vec<GroupDigest>, content: Vec<u8>) -> HostileServer {
    HostileServer::start(move |session, endpoint| {
        if endpoint.greet(session).is_some() {
            if session.wants_content() {
                endpoint.data_set_with(session, &offer, digests.clone(), &content);
            } else {
                endpoint.data_set(session, &offer.manifest);
            }
            endpoint.attend(session, &offer);
        }
    })
}

fn get(source: &str, to: &Scratch) -> Outcome {
    inhaul(["get", "--json", source]).arg(to.path().join("f")).finish(PATIENCE)
}

/// Reads until the client has closed; whether it did, and did not reset.
fn ends_well(tcp: &TcpStream) -> bool {
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut tcp = tcp;
    matches!(tcp.read(&mut [0; 16]), Ok(0))
}

/// A client's messages after the description, up to its end.
fn after_description(session: &mut Session, endpoint: &Endpoint) -> (Vec<Frame>, bool, usize) {
    let mut heard = Vec::new();
    while let Heard::Frame(frame) = session.receive(PATIENCE) {
        let is_last = matches!(frame, Frame::Finish);
        heard.push(frame);
        if is_last {
            break;
        }
    }
    let ends_well = ends_well(session.tcp());
    let mut datagrams = 0;
    while endpoint.udp.recv(&mut [0; 1 << 16]).is_ok() {
        datagrams += 1;
    }
    (heard, ends_well, datagrams)
}

/// Over the loopback device: packets of 9000, 1500, 1280 and 576 bytes.
const EARLY_PROBES: usize = 4;

#[test]
fn a_small_file_takes_one_answer_and_no_datagram_but_early_probes() {
    for len in [0, 1, 1000, EARLY] {
        let (bytes, to) = (noise(len, 3), Scratch::new());
        let (digests, offer) = (digests(&[&bytes]), Offer::file("f", bytes.clone()));
        let (told, listen) = channel();
        let told = Mutex::new(told);
        let server = HostileServer::start(move |session, endpoint| {
            if endpoint.greet(session).is_some() {
                endpoint.data_set_with(session, &offer, digests.clone(), &offer.bytes);
                told.lock().unwrap().send(after_description(session, endpoint)).unwrap();
            }
        });
        let outcome = get(&server.source("/f"), &to);
        assert_eq!(outcome.code, Some(0), "{len}: {}", outcome.summary());
        assert!(std::fs::read(to.path().join("f")).unwrap() == bytes, "{len}");
        assert_eq!(listen.recv().unwrap(), (vec![Frame::Finish], true, EARLY_PROBES), "{len}");
        let report = outcome.json();
        let source = &report["sources"][0];
        assert_eq!((&report["bytes"], &source["bytes"]), (&len.into(), &len.into()), "{report}");
        assert!(source["rtt_ms"].is_null() && source["status"] == "complete", "{report}");
    }
}

#[test]
fn wrong_content_is_fetched_again_over_the_transport() {
    let (bytes, to) = (noise(5000, 4), Scratch::new());
    let server = describing(Offer::file("f", bytes.clone()), digests(&[&bytes]), noise(5000, 5));
    let outcome = get(&server.source("/f"), &to);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    assert!(outcome.stderr.contains("came in wrong from"), "{}", outcome.stderr);
    assert_eq!(server.sent(), 5000);
    assert!(outcome.json()["sources"][0]["rtt_ms"].is_f64(), "{}", outcome.json());
}

#[test]
fn wrong_content_never_lands() {
    let (bytes, to) = (noise(5000, 4), Scratch::new());
    let server = describing(Offer::file("f", noise(5000, 5)), digests(&[&bytes]), noise(5000, 5));
    let outcome = get(&server.source("/f"), &to);
    assert_eq!(outcome.code, Some(10), "{}", outcome.summary());
    assert!(!to.path().join("f").exists());
    // Of an empty file only the digest can be wrong.
    let to = Scratch::new();
    let server = describing(Offer::file("f", Vec::new()), vec![[7; 32]], Vec::new());
    let outcome = get(&server.source("/f"), &to);
    assert_eq!(outcome.code, Some(10), "{}", outcome.summary());
    assert!(!to.path().join("f").exists());
}

#[test]
fn content_that_is_too_much_too_little_or_unasked_is_out_of_turn() {
    let bytes = noise(5000, 4);
    let honest = Scratch::new();
    honest.file("f", &bytes);
    let honest = Server::offer(honest.path());
    let right = || digests(&[&bytes]);
    let attempts = [
        ("a byte too many", right(), noise(5001, 4)),
        ("a megabyte too many", right(), vec![7; (1 << 20) - 64]),
        ("a byte too few", right(), noise(4999, 4)),
        ("no content behind the digests", right(), Vec::new()),
        ("content without digests", Vec::new(), bytes.clone()),
        ("too many digests", [right(), right()].concat(), bytes.clone()),
    ];
    for (attempt, digests, content) in attempts {
        let server = describing(Offer::file("f", bytes.clone()), digests, content);
        let to = Scratch::new();
        let outcome = get(&server.source("/f"), &to);
        assert_eq!(outcome.code, Some(7), "{attempt}: {}", outcome.summary());
        assert!(outcome.stderr.contains("out of turn"), "{attempt}: {}", outcome.stderr);
        let outcome = get(&format!("inhaul://{},{}/f", server.address, honest.address), &to);
        assert_eq!(outcome.code, Some(0), "{attempt} beside an honest mirror: {}", outcome.summary());
        assert!(std::fs::read(to.path().join("f")).unwrap() == bytes, "{attempt}");
        figures(&format!("content with the description: {attempt}"), "exit 7; 0 beside an honest mirror");
    }
    // For a file larger than requested: all of it, more than requested, and digests.
    let large = noise(EARLY + 2, 6);
    let all = || digests(&[&large]);
    for (digests, content) in [(Vec::new(), EARLY + 2), (Vec::new(), EARLY + 1), (all(), EARLY)] {
        let server = describing(Offer::file("f", large.clone()), digests, large[..content].to_vec());
        let outcome = get(&server.source("/f"), &Scratch::new());
        assert_eq!(outcome.code, Some(7), "{content}: {}", outcome.summary());
    }
}

#[test]
fn the_first_bytes_of_a_larger_file_come_with_its_description() {
    let bytes = noise(3 << 20, 8);
    for (attempt, first, brought, again) in [
        ("as many as were asked for", bytes[..EARLY].to_vec(), bytes.len() - EARLY, false),
        ("fewer", bytes[..1000].to_vec(), bytes.len() - 1000, false),
        ("none", Vec::new(), bytes.len(), false),
        ("wrong ones", noise(EARLY, 9), bytes.len() - EARLY + (1 << 20), true),
    ] {
        let to = Scratch::new();
        let server = describing(Offer::file("f", bytes.clone()), Vec::new(), first);
        let outcome = get(&server.source("/f"), &to);
        assert_eq!(outcome.code, Some(0), "{attempt}: {}", outcome.summary());
        assert!(std::fs::read(to.path().join("f")).unwrap() == bytes, "{attempt}");
        // Received data is not requested; a wrong group is requested whole.
        let sent = server.sent() as usize;
        assert!(sent >= brought && sent < brought + EARLY / 2, "{attempt}: {sent} and not {brought}");
        assert_eq!(outcome.stderr.contains("came in wrong"), again, "{attempt}: {}", outcome.stderr);
        assert!(outcome.json()["first_byte_seconds"].as_f64().unwrap() > 0.0, "{}", outcome.json());
    }
}

#[test]
fn one_mirror_brings_all_of_a_small_file_and_one_its_first_bytes() {
    let (bytes, from) = (noise(5000, 10), Scratch::new());
    from.file("f", &bytes);
    // Content sent outside the transport is limited to the rate's bytes in 100 ms: 1,000 bytes.
    let (slow, fast) = (Server::offer_with(from.path(), &["--send-rate", "80k"]), Server::offer(from.path()));
    for [first, second] in [[&slow, &fast], [&fast, &slow]] {
        let to = Scratch::new();
        let outcome = get(&format!("inhaul://{},{}/f", first.address, second.address), &to);
        assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
        assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    }
}

#[test]
fn content_once_more_later_is_out_of_turn() {
    let bytes = noise(5000, 4);
    let server = HostileServer::start(move |session, endpoint| {
        if endpoint.greet(session).is_some() {
            endpoint.data_set(session, &RawManifest::file("f", 5000).encode());
            let _ = session.send(&Frame::Content { bytes: bytes.clone() });
            endpoint.wait(PATIENCE);
        }
    });
    let outcome = get(&server.source("/f"), &Scratch::new());
    assert_ne!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(outcome.stderr.contains("a frame that has no place here"), "{}", outcome.stderr);
}

/// Sends control messages of a transport before everything else, and then honest messages.
fn talkative(count: usize, len: usize) -> (HostileServer, Vec<u8>) {
    let bytes = noise(5000, 4);
    let offer = Offer::file("f", bytes.clone());
    let digests = digests(&[&bytes]);
    let server = HostileServer::start(move |session, endpoint| {
        if endpoint.greet(session).is_some() {
            for _ in 0..count {
                let _ = session.send(&Frame::Protocol { message: vec![9; len] });
            }
            endpoint.data_set_with(session, &offer, digests.clone(), &offer.bytes);
            endpoint.attend(session, &offer);
        }
    });
    (server, bytes)
}

#[test]
fn control_messages_before_the_description_wait_for_a_flow_and_are_few() {
    let to = Scratch::new();
    let (server, bytes) = talkative(3, 100);
    let outcome = get(&server.source("/f"), &to);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(std::fs::read(to.path().join("f")).unwrap() == bytes);
    for (count, len, why) in [(1000, 1, "has not begun"), (1, 50_000, "has not begun"), (1, 100_000, "is not legal")] {
        let (server, _) = talkative(count, len);
        let outcome = get(&server.source("/f"), &Scratch::new());
        assert_eq!(outcome.code, Some(7), "{count} of {len}: {}", outcome.summary());
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
}

#[test]
fn what_an_earlier_transfer_has_left_of_small_files_is_kept_and_read_back() {
    let files = [noise(700, 1), noise(900, 2)];
    let raw = [RawFile::new("a", 700), RawFile::new("b", 900)].to_vec();
    let manifest = RawManifest::directory("set", raw).encode();
    let digests = digests(&[&files[0], &files[1]]);
    let content = files.concat();
    for (attempt, left, resumed) in [("as it was", files[0].clone(), 700), ("damaged", noise(700, 9), 0)] {
        let to = Scratch::new();
        let shape = Arc::new(Manifest::decode(&manifest).unwrap());
        let landing = Landing::create(to.path(), shape, LandingOptions::default()).unwrap();
        landing.write(0, &[IoSlice::new(&left)]).unwrap();
        landing.record_verified(0, 0, digests[0]).unwrap();
        assert_eq!(landing.suspend(), 700);
        drop(landing);
        let offer =
            Offer { manifest: manifest.clone(), size: 1600, bytes: content.clone(), ..Offer::file("", Vec::new()) };
        let server = describing(offer, digests.clone(), content.clone());
        let outcome = inhaul(["get", "--json", &server.source("/set")]).arg(to.path().join("set")).finish(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{attempt}: {}", outcome.summary());
        for (name, bytes) in ["a", "b"].iter().zip(&files) {
            assert!(std::fs::read(to.path().join("set").join(name)).unwrap() == *bytes, "{attempt}: {name}");
        }
        let report = outcome.json();
        assert_eq!(
            (&report["resumed_bytes"], &report["bytes"]),
            (&resumed.into(), &1600.into()),
            "{attempt}: {report}"
        );
        // Missing content comes over the transport.
        assert_eq!(report["sources"][0]["bytes"], 1600 - resumed, "{attempt}: {report}");
        assert_eq!(server.sent(), 700 - resumed, "{attempt}");
    }
}
