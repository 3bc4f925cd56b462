//! Mirrors that are silent, drip, lie or send garbage: the others bring their parts.

use std::time::Duration;

use inhaul_hostile_tests::{
    Endpoint, Heard, HostileServer, Offer, Outcome, RawManifest, RawPut, Scratch, Server, Session, figures, holds_for,
    inhaul, noise, wait_for,
};
use inhaul_mover::frame::Frame;

/// Long enough for hosts that do much else.
const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 48 << 20;

/// An honest mirror of a file `f`, and an empty directory.
struct Honest {
    _from: Scratch,
    to: Scratch,
    bytes: Vec<u8>,
    server: Server,
}

impl Honest {
    fn new() -> Self {
        let (from, to, bytes) = (Scratch::new(), Scratch::new(), noise(BYTES, 9));
        from.file("f", &bytes);
        let server = Server::offer(from.path());
        Self { _from: from, to, bytes, server }
    }

    /// A get from both; the hostile mirror stands first if it `leads`.
    fn get_beside(&self, hostile: &HostileServer, leads: bool) -> Outcome {
        let mut both = [hostile.address, self.server.address];
        if !leads {
            both.reverse();
        }
        let source = format!("inhaul://{},{}/f", both[0], both[1]);
        inhaul(["get", "--json", &source]).arg(self.to.path().join("f")).finish(PATIENCE)
    }

    fn has_come(&self, attempt: &str, outcome: &Outcome) {
        assert_eq!(outcome.code, Some(0), "{attempt}: {}", outcome.summary());
        assert!(std::fs::read(self.to.path().join("f")).unwrap() == self.bytes, "{attempt}");
        figures(attempt, &format!("exit 0 in {:.1} s", outcome.took.as_secs_f64()));
    }
}

/// Sends empty pieces of an answer for as long as somebody reads them.
fn drip(session: &mut Session, endpoint: &Endpoint, piece: &Frame) {
    while !endpoint.stopped() && session.send(piece).is_ok() {
        endpoint.wait(Duration::from_millis(500));
    }
}

fn empty_piece() -> Frame {
    Frame::DataSet { last: false, bytes: Vec::new() }
}

#[test]
fn a_mirror_that_does_not_answer() {
    for leads in [true, false] {
        let honest = Honest::new();
        let silent = HostileServer::start(|_, endpoint| endpoint.wait(PATIENCE * 2));
        let outcome = honest.get_beside(&silent, leads);
        let place = if leads { "first" } else { "second" };
        honest.has_come(&format!("the {place} mirror takes the connection and says nothing"), &outcome);
        // It began before that one's time was up.
        assert!(outcome.stderr.contains("has not answered yet"), "{}", outcome.stderr);
    }
}

#[test]
fn a_mirror_that_drips() {
    let honest = Honest::new();
    let dripping = HostileServer::start(|session, endpoint| {
        if endpoint.greet(session).is_some() {
            drip(session, endpoint, &empty_piece());
        }
    });
    honest.has_come("a mirror that sends empty pieces of its list for ever", &honest.get_beside(&dripping, true));
    let alone = inhaul(["get", &dripping.source("/f")]).arg(honest.to.path().join("g")).finish(PATIENCE);
    assert_eq!(alone.code, Some(7), "{}", alone.summary());
    let planned = inhaul(["plan", &dripping.source("/f")]).arg(honest.to.path().join("g")).finish(PATIENCE);
    assert_eq!(planned.code, Some(7), "{}", planned.summary());
    figures("the same alone, to get and to plan", &format!("exit 7 in {:.1} s", alone.took.as_secs_f64()));
}

#[test]
fn a_listing_that_drips() {
    let honest = Honest::new();
    let dripping = HostileServer::start(|session, endpoint| {
        if endpoint.greet(session).is_some() {
            drip(session, endpoint, &Frame::Listing { last: false, bytes: Vec::new() });
        }
    });
    let both = format!("{},{}/", dripping.address, honest.server.address);
    let outcome = inhaul(["ls", &both]).finish(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.summary());
    assert!(outcome.stdout.contains('f'), "{}", outcome.stdout);
    let alone = inhaul(["ls", &format!("{}/", dripping.address)]).finish(PATIENCE);
    assert_eq!(alone.code, Some(7), "{}", alone.summary());
    figures("ls of a mirror that sends empty pieces for ever", "the next one is listed; alone: exit 7");
}

#[test]
fn a_mirror_that_sends_garbage() {
    // With and without digests of its own; each mirror's digests count first if it leads.
    for (attempt, leads, has_digests) in [
        ("garbage and no digests, second mirror", false, false),
        ("garbage and no digests, first mirror", true, false),
        ("garbage and the right digests, second mirror", false, true),
        ("garbage and the right digests, first mirror", true, true),
    ] {
        let honest = Honest::new();
        let mut offer = Offer::file("f", honest.bytes.clone());
        // It sends missing data as zeros.
        offer.bytes = vec![0; BYTES];
        if !has_digests {
            offer.digest = Box::new(|_| None);
        }
        let outcome = honest.get_beside(&HostileServer::offer(offer), leads);
        honest.has_come(attempt, &outcome);
        assert!(outcome.stderr.contains("going on"), "{attempt}: {}", outcome.stderr);
    }
}

#[test]
fn a_mirror_that_breaks_the_protocol() {
    let honest = Honest::new();
    let manifest = RawManifest::file("f", BYTES as u64).encode();
    let garbled = HostileServer::start(move |session, endpoint| {
        if endpoint.greet(session).is_some() {
            endpoint.data_set(session, &manifest);
            let _ = session.receive(Duration::from_secs(5));
            let _ = session.send(&Frame::Protocol { message: vec![0xff; 50] });
            endpoint.wait(PATIENCE);
        }
    });
    honest.has_come("a mirror that sends control messages of no kind", &honest.get_beside(&garbled, false));
    assert_eq!(garbled.sessions(), 1, "it is not asked again");
}

#[test]
fn a_mirror_that_answers_late_joins() {
    let honest = Honest::new();
    let offer = Offer::file("f", honest.bytes.clone());
    let late = HostileServer::start(move |session, endpoint| {
        if endpoint.greet(session).is_some() {
            endpoint.wait(Duration::from_secs(2));
            endpoint.serve(session, &offer);
        }
    });
    let source = format!("inhaul://{},{}/f", late.address, honest.server.address);
    let outcome =
        inhaul(["get", "--json", "--rate", "80Mbit/s", &source]).arg(honest.to.path().join("f")).finish(PATIENCE);
    honest.has_come("a mirror that answers after 2 s joins", &outcome);
    let report = outcome.json();
    let sources = report["sources"].as_array().unwrap();
    let of_late: Vec<_> = sources.iter().filter(|s| s["address"] == late.address.to_string()).collect();
    assert_eq!(of_late.len(), 1, "{report}");
    assert!(of_late[0]["bytes"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn eight_puts_that_drip() {
    let (offered, inbox) = (Scratch::new(), Scratch::new());
    let file = offered.file("small", b"a small file");
    let server = Server::offer_with(offered.path(), &["--accept-puts", inbox.path().to_str().unwrap()]);
    let mut dripping = Vec::new();
    for k in 0..8 {
        let put = RawPut::begin(server.address, &RawPut::order_to(&format!("drip{k}"))).unwrap();
        let session = put.attach(0).unwrap();
        dripping.push((put, session));
    }
    let put = || inhaul(["put", "-q"]).arg(&file).arg(server.source("/")).finish(PATIENCE);
    let while_dripping = put();
    assert_eq!(while_dripping.code, Some(7), "{}", while_dripping.summary());
    for _ in 0..6 {
        for (_, session) in &mut dripping {
            let _ = session.send(&empty_piece());
        }
        assert!(holds_for(Duration::from_millis(200), || server.running.is_running()));
    }
    let has_ended = |session: &mut Session| matches!(session.receive(Duration::ZERO), Heard::End | Heard::Frame(_));
    let all_ended = || dripping.iter_mut().all(|(_, session)| has_ended(session));
    assert!(wait_for(PATIENCE, all_ended), "the server still waits for them");
    let mut after = put();
    wait_for(PATIENCE, || {
        after = put();
        after.code == Some(0)
    });
    assert_eq!(after.code, Some(0), "{}", after.summary());
    figures("eight puts that send empty pieces of their lists", "their slots are free again; the next put: exit 0");
}
