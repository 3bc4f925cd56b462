//! For the fuzzers alone: what hostile bytes reach and no user of this crate does. Each function takes any bytes, says
//! whether they were taken for what they should be, and panics where something does not hold that must.

mod stream;

pub use self::stream::{Flood, flood, session_stream, session_streams};

use std::collections::BTreeSet;
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_store::{Contents, Entry, Kind, Manifest};
use inhaul_transport::FlowId;

use inhaul_delegate::Order;
use inhaul_engine::engine::probe::{Probe, echoed};
use inhaul_haul::haul::digest_plan::DigestPlan;
use inhaul_haul::haul::tally::Tally;
use inhaul_session::session::groups::Groups;
pub use inhaul_session::session::proxy::{Answer, http_answer, socks_answer, socks_method, socks_welcome};

/// A datagram that may be a probe of the path, or its echo.
pub fn probe(data: &[u8]) -> bool {
    let Some(probe) = Probe::parse(data) else { return data.get(8..16).is_some_and(|token| is_echo(data, token)) };
    let echo = probe.echo();
    assert_eq!(echo.len(), usize::from(probe.echo_len));
    assert_eq!(echoed(&echo, probe.token), Some(probe.number));
    assert_eq!(probe.encode(), data[..probe.encode().len()]);
    true
}

fn is_echo(data: &[u8], token: &[u8]) -> bool {
    token.first_chunk().is_some_and(|token| echoed(data, u64::from_be_bytes(*token)).is_some())
}

/// Samples for [`probe`].
pub fn probes() -> Vec<Vec<u8>> {
    let probe = Probe { token: 7, number: 1, echo_len: 1472 };
    vec![probe.encode().to_vec(), probe.echo()]
}

/// What a proxy may answer: the first byte says to what. More bytes never turn a whole answer into another.
pub fn proxy(data: &[u8]) -> bool {
    let Some((which, bytes)) = data.split_first() else { return false };
    let read = match which % 5 {
        0 => http_answer,
        1 => |bytes: &[u8]| socks_method(bytes, 0),
        2 => |bytes: &[u8]| socks_method(bytes, 2),
        3 => socks_welcome,
        _ => socks_answer,
    };
    let answer = read(bytes);
    if let Answer::No(why) = &answer {
        assert!(!why.contains(char::is_control), "{why:?}");
    }
    let Answer::Yes(len) = answer else { return false };
    assert!(len <= bytes.len());
    assert_eq!(read(&bytes[..len]), Answer::Yes(len));
    assert!(matches!(read(&bytes[..len - 1]), Answer::Part), "it is read byte by byte");
    true
}

/// Samples for [`proxy`].
pub fn proxies() -> Vec<Vec<u8>> {
    let http = b"\0HTTP/1.1 200 Connection established\r\nVia: 1.1 x\r\n\r\n".to_vec();
    let socks = [vec![1, 5, 0], vec![2, 5, 2], vec![3, 1, 0]];
    let answers = [vec![4, 5, 0, 0, 1, 1, 2, 3, 4, 0, 9], vec![4, 5, 0, 0, 3, 2, b'a', b'b', 0, 9]];
    [vec![http], socks.to_vec(), answers.to_vec()].concat()
}

/// An order, with the filter that its rules make: both are read, and the filter is asked about a few files.
pub fn order_filter(data: &[u8]) -> bool {
    let Ok(order) = Order::parse(data) else { return false };
    let Ok(filter) = order.filter() else { return false };
    let files = ["!x", "a", "b.tmp", "c*"].map(|path| Entry { path: path.into(), ..Entry::default() });
    let contents = Contents { files: files.into(), ..Contents::default() };
    let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).expect("it obeys the rules");
    assert!(filter.unmatched(&manifest).len() <= order.rules.len());
    true
}

/// What a receiver keeps of a data set whose manifest is legal: its groups, which of them have come, and whose digests
/// are asked for. `data` is a manifest's length (two bytes), the manifest, and pieces that arrive (an offset of eight
/// bytes, a length of two).
pub fn bookkeeping(data: &[u8]) -> bool {
    let Some((len, rest)) = data.split_first_chunk() else { return false };
    let Some((manifest, mut pieces)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len))) else {
        return false;
    };
    let Ok(manifest) = Manifest::decode(manifest) else { return false };
    let groups = Groups::new(Arc::new(manifest));
    let manifest = groups.manifest();
    let data_groups: u64 = (0..manifest.entries().len()).map(|file| groups.data_groups(file)).sum();
    let plan = DigestPlan::new(&groups, |_| true, &BTreeSet::new());
    assert_eq!(plan.count(), data_groups, "digests are asked for of all groups but those in holes");
    let mut tally = Tally::new(manifest.holes());
    while let Some((piece, rest)) = pieces.split_first_chunk::<10>() {
        pieces = rest;
        let number = piece.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
        let start = number % manifest.size().max(1);
        let end = start.saturating_add(u64::from(u16::from_be_bytes([piece[8], piece[9]]))).min(manifest.size());
        tally.place(&groups, ByteRange::new(start, end), FlowId(1), |number| {
            assert!(
                groups
                    .place(number)
                    .is_some_and(|place| !place.range.intersection(ByteRange::new(start, end)).is_empty())
            );
        });
        for (number, bytes) in groups.touched(ByteRange::new(start, end)) {
            let place = groups.place(number).expect("a group that was touched is there");
            assert!(bytes <= place.range.len() && groups.of_file(place.file).contains(&number));
            assert_eq!(plan.position(number).is_none(), groups.holes().contains(ByteRange::at(number, 1)));
            if bytes % 2 == 0 {
                tally.forget(&groups, number);
            } else {
                tally.settle(number);
            }
        }
    }
    true
}
