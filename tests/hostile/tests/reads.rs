//! Servers that lie to readers of parts of their files: no wrong byte is ever handed out.

use std::time::{Duration, Instant};

use inhaul::{Buffers, Client, DataSet, Error, ErrorKind};
use inhaul_hostile_tests::{HostileServer, Offer, figures, honest_proofs, noise};
use inhaul_mover::frame::Frame;

const BYTES: usize = 3_000_000;
/// No attempt takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(server: &HostileServer, pinned: Option<&[u8]>) -> DataSet {
    let client = Client::builder().accept_new().retry_for(Duration::from_secs(3)).build().unwrap();
    let pins = pinned.map(|bytes| ("", hash(bytes)));
    client.open_pinned(&server.source("/f"), pins).unwrap()
}

fn hash(bytes: &[u8]) -> inhaul_store::digest::Hash {
    let len = bytes.len() as u64;
    let groups: Vec<_> = (0..inhaul_store::digest::group_count(len))
        .map(|group| {
            let range = inhaul_store::digest::group_range(len, group);
            inhaul_store::digest::group_digest(len, group, &bytes[range.start as usize..range.end as usize])
        })
        .collect();
    inhaul_store::digest::root(len, &groups).unwrap()
}

/// Reads a part, which must end in time; the result is the right data, or an error.
fn read(attempt: &str, set: &DataSet, right: &[u8]) -> Result<(), Error> {
    let began = Instant::now();
    let range = 1_040_000..1_060_000usize;
    let buffers = Buffers(vec![vec![0; range.len()]]);
    let handle = set.read_ranges(&[("", range.start as u64..range.end as u64)], buffers).unwrap();
    assert!(handle.wait(PATIENCE), "{attempt}: {:?}", set.stats());
    let outcome = handle.join();
    let words = outcome.as_ref().map_or_else(ToString::to_string, |_| "the right bytes".to_owned());
    figures(attempt, &format!("{words}, after {:.1} s", began.elapsed().as_secs_f64()));
    let Buffers(bytes) = outcome?;
    assert!(bytes[0] == right[range], "{attempt}: wrong bytes were handed out");
    Ok(())
}

#[test]
fn an_honest_server_is_read_from() {
    let bytes = noise(BYTES, 3);
    let server = HostileServer::offer(Offer::file("f", bytes.clone()));
    read("a read from a server that is honest", &open(&server, None), &bytes).unwrap();
    read("a read of a pinned file", &open(&server, Some(&bytes)), &bytes).unwrap();
}

#[test]
fn wrong_bytes_are_never_handed_out() {
    let bytes = noise(BYTES, 3);
    let mut other = bytes.clone();
    other.iter_mut().for_each(|byte| *byte ^= 0x20);
    // Its data is wrong, and its proofs are right, or fit the wrong data.
    for (attempt, proofs, pin) in [
        ("wrong data, the right proofs", &bytes, false),
        ("wrong data, the right proofs, a pinned file", &bytes, true),
        ("wrong data and its own proofs, a pinned file", &other, true),
    ] {
        let mut offer = Offer::file("f", other.clone());
        offer.proof = Box::new(honest_proofs(proofs.clone()));
        let server = HostileServer::offer(offer);
        let error = read(attempt, &open(&server, pin.then_some(&bytes)), &bytes).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Unreachable), "{attempt}: {error}");
    }
}

#[test]
fn proofs_that_are_none_end_a_read_in_bounded_time() {
    let bytes = noise(BYTES, 3);
    type Lie = fn(Frame) -> Option<Frame>;
    let lies: [(&str, Lie); 4] = [
        ("proofs that are too short", |frame| match frame {
            Frame::Proof { part, digest, .. } => {
                Some(Frame::Proof { part, digest, inside: Vec::new(), path: Vec::new() })
            }
            other => Some(other),
        }),
        ("proofs of other parts", |frame| match frame {
            Frame::Proof { mut part, digest, inside, path } => {
                part.group = u64::MAX;
                Some(Frame::Proof { part, digest, inside, path })
            }
            other => Some(other),
        }),
        ("the end instead of a proof", |_| Some(Frame::Bye)),
        ("frames that have no place", |_| Some(Frame::Probe)),
    ];
    for (attempt, lie) in lies {
        let mut offer = Offer::file("f", bytes.clone());
        let honest = honest_proofs(bytes.clone());
        offer.proof = Box::new(move |part| honest(part).and_then(lie));
        let server = HostileServer::offer(offer);
        read(attempt, &open(&server, None), &bytes).unwrap_err();
    }
}

#[test]
fn a_server_that_sends_no_proofs_is_given_up() {
    let bytes = noise(BYTES, 3);
    let mut offer = Offer::file("f", bytes.clone());
    offer.proof = Box::new(|_| None);
    let server = HostileServer::offer(offer);
    read("no proofs at all", &open(&server, None), &bytes).unwrap_err();
}
