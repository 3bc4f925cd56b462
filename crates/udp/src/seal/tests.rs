//! Sealer and opener against each other, and against PROTOCOL.md.

use inhaul_transport::{CONNECTION_FIELD, ConnectionId, ENVELOPE_LEN, Envelope, FlowId};

use super::epoch::epoch_start;
use super::*;

const CONNECTION: ConnectionId = ConnectionId(0xC0FF_EE01);
const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

fn secret() -> Secret {
    Secret::new(std::array::from_fn(|k| k as u8))
}

fn sealed(sealer: &mut Sealer, number: u64, text: &[u8]) -> Vec<u8> {
    let mut datagram = [&[0; ENVELOPE_LEN][..], text, &[0; TAG_LEN]].concat();
    sealer.seal(number, CONNECTION, &mut datagram);
    datagram
}

fn opened(opener: &mut Opener, datagram: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut bytes = datagram.to_vec();
    opener.open(&mut bytes);
    let envelope = Envelope::parse(&bytes)?;
    let text = bytes[ENVELOPE_LEN..].len().checked_sub(TAG_LEN)?;
    (envelope.connection == CONNECTION).then(|| (envelope.number, bytes[ENVELOPE_LEN..][..text].to_vec()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The examples of PROTOCOL.md 6, which were computed by other means too.
#[test]
fn seal_gives_the_examples_of_the_specification() {
    let text = b"The quick brown fox jumps over the lazy dog.";
    let protocol = include_str!("PROTOCOL.md");
    for (suite, name) in SUITES.into_iter().zip(["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"]) {
        for number in [7, 0x0000_0001_0040_0005] {
            let mut sealer = Sealer::new(suite, &secret());
            let datagram = hex(&sealed(&mut sealer, number, text));
            let row = format!("| {name} | {number} | `{datagram}` |");
            assert!(protocol.contains(&row), "PROTOCOL.md lacks this row:\n{row}");
        }
    }
}

/// Whatever the lengths: a body may begin and end anywhere in the cipher's blocks of 16 bytes.
#[test]
fn seal_with_gives_what_seal_gives() {
    let text: Vec<u8> = (0..1448u32).map(|n| (n * 7) as u8).collect();
    for (suite, head_len) in SUITES.into_iter().flat_map(|suite| [0, 1, 12, 16, 33].map(|head_len| (suite, head_len))) {
        for len in [head_len, head_len + 1, 47, 64, 299, 1448] {
            let (head, body) = text[..len].split_at(head_len);
            let mut datagram = [&[0; ENVELOPE_LEN][..], head, &vec![9; body.len()], &[0; TAG_LEN]].concat();
            Sealer::new(suite, &secret()).seal_with(5, CONNECTION, &mut datagram, body);
            assert_eq!(
                datagram,
                sealed(&mut Sealer::new(suite, &secret()), 5, &text[..len]),
                "{suite:?} {head_len} {len}"
            );
        }
    }
}

#[test]
fn what_is_sealed_opens_once_and_shows_no_number() {
    for suite in SUITES {
        let (mut sealer, mut opener) = (Sealer::new(suite, &secret()), Opener::new(suite, &secret(), false));
        let datagrams: Vec<_> = (0..200u64).map(|number| sealed(&mut sealer, number, &[number as u8; 40])).collect();
        // On the way every number looks like any other.
        let mut shown: Vec<_> = datagrams.iter().map(|datagram| &datagram[..4]).collect();
        shown.sort_unstable();
        shown.dedup();
        assert!(shown.len() > 195 && shown.iter().any(|number| number[0] != 0), "{}", shown.len());
        assert!(datagrams.iter().all(|datagram| datagram[CONNECTION_FIELD] == CONNECTION.0.to_be_bytes()));
        // In any order.
        for k in (0..200).map(|k| (k * 77) % 200) {
            assert_eq!(opened(&mut opener, &datagrams[k]), Some((k as u32, vec![k as u8; 40])));
            assert_eq!(opened(&mut opener, &datagrams[k]), None, "it has come");
        }
        assert_eq!(opener.refused(), 200);
    }
}

#[test]
fn open_to_gives_what_open_gives() {
    let suite = Suite::Aes128Gcm;
    let (mut sealer, mut opener) = (Sealer::new(suite, &secret()), Opener::new(suite, &secret(), false));
    let datagram = sealed(&mut sealer, 3, b"head and body");
    let mut out = [0; 13];
    let envelope = opener.open_to(&datagram, &mut out).unwrap();
    assert_eq!((Envelope::parse(&envelope).unwrap().number, &out), (3, b"head and body"));
    assert_eq!(opener.open_to(&datagram, &mut out), None);
    assert_eq!(opener.open_to(&datagram[..ENVELOPE_LEN + TAG_LEN - 1], &mut []), None);
    assert_eq!(opener.refused(), 2);
}

/// RFC 9001 6, without its signals: whatever is lost and reordered around the change of keys.
#[test]
fn keys_change_by_the_number_alone_under_loss_and_reordering() {
    for suite in SUITES {
        let (mut sealer, mut opener) = (Sealer::new(suite, &secret()), Opener::new(suite, &secret(), false));
        let start = |epoch: u64| epoch_start(epoch);
        for epoch in 1..4u64 {
            let numbers = (start(epoch) - 20..start(epoch) + 20).filter(|number| number % 3 != 0);
            let mut datagrams: Vec<_> = numbers.map(|n| (n, sealed(&mut sealer, n, &n.to_be_bytes()))).collect();
            datagrams.sort_by_key(|(number, _)| number % 7);
            for (number, datagram) in &datagrams {
                let expected = (*number as u32, number.to_be_bytes().to_vec());
                assert_eq!(opened(&mut opener, datagram), Some(expected), "{suite:?} {number}");
            }
        }
        // The keys of what cannot count any more are gone.
        let late = sealed(&mut Sealer::new(suite, &secret()), 5, b"late");
        let next = sealed(&mut sealer, start(3) + (1 << 18), b"on");
        assert!(opened(&mut opener, &next).is_some());
        assert_eq!(opened(&mut opener, &late), None);
        // Two epochs ahead is nobody's but an attacker's.
        let ahead = sealed(&mut sealer, start(6), b"ahead");
        assert_eq!(opened(&mut opener, &ahead), None);
    }
}

#[test]
fn other_keys_open_nothing() {
    let mut sealer = Sealer::new(Suite::Aes256Gcm, &secret());
    let datagram = sealed(&mut sealer, 0, b"text");
    let other = Secret::new([9; SECRET_LEN]);
    for (suite, secret) in
        [(Suite::Aes256Gcm, &other), (Suite::Aes128Gcm, &secret()), (Suite::ChaCha20Poly1305, &secret())]
    {
        assert_eq!(opened(&mut Opener::new(suite, secret, false), &datagram), None);
    }
}

#[test]
fn seals_know_a_flow_by_its_connection_until_it_is_removed() {
    let mut seals = Seals::default();
    let secrets = FlowSecrets { suite: Suite::Aes128Gcm, outgoing: secret(), incoming: secret() };
    seals.insert(FlowId(1), CONNECTION, &secrets, false);
    assert!(seals.is_sealed(FlowId(1)) && seals.sealer(FlowId(1)).is_some() && seals.opener(CONNECTION).is_some());
    assert!(!seals.is_sealed(FlowId(2)) && seals.opener(ConnectionId(5)).is_none());
    seals.opener(CONNECTION).unwrap().open(&mut [0; 30]);
    seals.remove(FlowId(1));
    assert!(seals.sealer(FlowId(1)).is_none() && seals.opener(CONNECTION).is_none());
    assert_eq!(seals.refused(), 1);
    assert!(!format!("{secrets:?}").contains("31"), "secrets are not printed");
}
