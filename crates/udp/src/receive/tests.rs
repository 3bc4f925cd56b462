//! The predictive path against what was sent: whatever arrives, every byte that an endpoint places must end where it
//! belongs, and nothing that was placed before may change.

mod sockets;

use std::collections::VecDeque;
use std::net::SocketAddr;

use inhaul_base::{ByteRange, RangeSet, Span};
use inhaul_transport::{CONNECTION_FIELD, ConnectionId, FlowId, Place, RxMessage};
use proptest::prelude::*;

use super::*;
use crate::checksum;
use crate::seal::{FlowSecrets, SECRET_LEN, Sealer, Secret, Suite};

const FLOW: FlowId = FlowId(1);
const OTHER: FlowId = FlowId(2);
/// Length of envelope and head.
const HEAD: usize = 16;
/// What every datagram has as its connection id.
const CONNECTION: u32 = 0xC0FF_EE01;
const BODY: usize = 100;
const SIZE: usize = 20_030;

/// Byte `offset` of the flow's object.
fn pattern(flow: FlowId, offset: u64) -> u8 {
    ((offset * 31 + offset / 251 + u64::from(flow.0) * 101) % 256) as u8
}

/// An envelope and a head, `len` bytes together: the connection id, that length, the flow, and where the body belongs.
/// Control has length 0.
fn head(len: usize, flow: FlowId, offset: u64) -> Vec<u8> {
    let mut head = vec![0; 4];
    head.extend_from_slice(&CONNECTION.to_be_bytes());
    head.extend_from_slice(&[len as u8, flow.0 as u8, 0, 0]);
    head.extend_from_slice(&(offset as u32).to_le_bytes());
    head.resize(len.max(head.len()), 0xEE);
    head
}

fn datagram(head_len: usize, flow: FlowId, body: ByteRange) -> Vec<u8> {
    let mut bytes = head(head_len, flow, body.start);
    bytes.extend((body.start..body.end).map(|offset| pattern(flow, offset)));
    bytes
}

/// The least of an endpoint: places what has the connection id and is not held yet.
#[derive(Default)]
struct Endpoint {
    held: [RangeSet; 3],
}

impl Endpoint {
    fn handle(&mut self, messages: &[RxMessage<'_>]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for (message, shown) in messages.iter().enumerate() {
            // Whether the last place may be made longer by the next datagram.
            let mut open = false;
            for k in 0..shown.datagrams() {
                let head = shown.head(k);
                let data = head.len() >= HEAD && head[8] > 0 && head[CONNECTION_FIELD] == CONNECTION.to_be_bytes();
                let head_len = head.get(8).map_or(0, |&n| usize::from(n));
                if !data || shown.len_of(k) < head_len {
                    open = false;
                    continue;
                }
                let flow = FlowId(u32::from(head[9]));
                let offset = u64::from(u32::from_le_bytes(head[12..16].try_into().unwrap()));
                let body = ByteRange::at(offset, (shown.len_of(k) - head_len) as u64);
                // Of what is new, the first stretch; a body that is new on both sides of a held stretch is rare.
                let held = &mut self.held[flow.0 as usize];
                let Some(&new) = held.gaps(body).first() else {
                    open = false;
                    continue;
                };
                held.insert(new);
                let skip = head_len + (new.start - body.start) as usize;
                match places.last_mut() {
                    Some(last)
                        if open
                            && last.flow == flow
                            && last.range.end == new.start
                            && new.start == body.start
                            && last.head_len == head_len as u32 =>
                    {
                        last.range.end = new.end;
                    }
                    _ => places.push(Place {
                        flow,
                        message: message as u32,
                        first: k as u32,
                        skip: skip as u32,
                        head_len: head_len as u32,
                        range: new,
                    }),
                }
                open = new.end == body.end;
            }
        }
        places
    }
}

/// A message on its way in: equal datagrams, the last may be shorter.
#[derive(Clone, Debug)]
struct Sent {
    segment: usize,
    bytes: Vec<u8>,
}

/// How what is sent is protected.
enum Wire {
    Clear,
    /// What has the connection id is sealed; the next has this packet number.
    Sealed(Box<Sealer>, u64),
}

/// The receiving port's secrets, outgoing and incoming.
fn secrets() -> [Secret; 2] {
    [1, 2].map(|byte| Secret::new([byte; SECRET_LEN]))
}

impl Wire {
    /// In the clear or not, and the keys that the receiving port has.
    fn new(sealed: bool) -> (Self, Seals) {
        let mut seals = Seals::default();
        if !sealed {
            return (Self::Clear, seals);
        }
        let [outgoing, incoming] = secrets();
        let secrets = FlowSecrets { suite: Suite::Aes128Gcm, outgoing, incoming };
        seals.insert(FLOW, ConnectionId(CONNECTION), &secrets, false);
        let sealer = Sealer::new(secrets.suite, &secrets.incoming);
        // The epoch changes while the object is sent.
        (Self::Sealed(Box::new(sealer), (1 << 22) - 100), seals)
    }

    fn protect(&mut self, datagram: &[u8]) -> Vec<u8> {
        let mut bytes = datagram.to_vec();
        match self {
            Self::Sealed(sealer, number) if datagram.get(CONNECTION_FIELD) == Some(&CONNECTION.to_be_bytes()) => {
                bytes.resize(datagram.len() + TAG_LEN, 0);
                sealer.seal(*number, ConnectionId(CONNECTION), &mut bytes);
                *number += 1;
            }
            _ => checksum::mask(&mut bytes),
        }
        bytes
    }

    fn sent(&mut self, datagrams: &[Vec<u8>]) -> Sent {
        let protected: Vec<_> = datagrams.iter().map(|datagram| self.protect(datagram)).collect();
        Sent { segment: protected[0].len(), bytes: protected.concat() }
    }
}

/// Does what the kernel does: scatters each message over its slices.
fn scatter(queue: &mut VecDeque<Sent>, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) {
    let mut start = 0;
    for &end in ends {
        let Some(message) = queue.pop_front() else { return };
        let mut rest = &message.bytes[..];
        for slice in &mut slices[start..end] {
            let (now, later) = rest.split_at(rest.len().min(slice.len()));
            slice[..now.len()].copy_from_slice(now);
            rest = later;
        }
        start = end;
        arrivals.push(Arrival {
            from: SocketAddr::from(([192, 0, 2, 1], 7)),
            to: None,
            len: message.bytes.len() - rest.len(),
            segment: message.segment,
            truncated: !rest.is_empty(),
            drops: None,
            waited: Span::ZERO,
            congested: false,
        });
    }
}

/// What the network does with the next part of the run.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next `n` datagrams come as one message.
    Next(usize),
    /// `n` datagrams are lost (and come again at the end).
    Lose(usize),
    /// The next `n` datagrams come as one message, each with a byte changed, the first at `at` (and come again at the
    /// end).
    Change { n: usize, at: usize, by: u8 },
    /// `n` datagrams come again, from `back` datagrams ago.
    Repeat { back: usize, n: usize },
    /// `n` datagrams of an odd body length, over what is next.
    Odd { n: usize, body: usize },
    /// `n` control datagrams of `len` bytes each.
    Control { n: usize, len: usize },
    /// `n` datagrams of another flow, with a longer head and yet the same length.
    Other(usize),
    /// The next `n` datagrams come as one message, and one that has no flow is among them.
    Mixed(usize),
    /// What came `back` messages ago comes again, the very same.
    Again { back: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1usize..64).prop_map(Step::Next),
        2 => Just(Step::Next(44)),
        2 => (1usize..20).prop_map(Step::Lose),
        2 => (1usize..50, 0..HEAD + BODY, 1u8..=255).prop_map(|(n, at, by)| Step::Change { n, at, by }),
        1 => (1usize..50, 1usize..30).prop_map(|(back, n)| Step::Repeat { back, n }),
        1 => (1usize..30, 1usize..180).prop_map(|(n, body)| Step::Odd { n, body }),
        2 => (1usize..5, 1usize..200).prop_map(|(n, len)| Step::Control { n, len }),
        1 => (1usize..30).prop_map(Step::Other),
        1 => (1usize..30).prop_map(Step::Mixed),
        1 => (1usize..4).prop_map(|back| Step::Again { back }),
    ]
}

/// Turns steps into messages; everything that was lost or left out follows at the end, so that the object is complete.
fn messages(steps: &[Step], wire: &mut Wire) -> Vec<Sent> {
    let datagrams = |start: u64, n: usize, body: usize| -> Vec<Vec<u8>> {
        let bodies = (0..n as u64).map(|k| ByteRange::at(start + k * body as u64, body as u64));
        let bodies = bodies.map(|b| b.intersection(ByteRange::new(0, SIZE as u64))).filter(|b| !b.is_empty());
        bodies.map(|b| datagram(HEAD, FLOW, b)).collect()
    };
    let (mut all, mut at, mut other) = (Vec::<Sent>::new(), 0u64, 0u64);
    for &step in steps {
        let mut run = |start: u64, n: usize, body: usize| -> Option<Sent> {
            let datagrams = datagrams(start, n, body);
            (!datagrams.is_empty()).then(|| wire.sent(&datagrams))
        };
        match step {
            Step::Next(n) => {
                all.extend(run(at, n, BODY));
                at += (n * BODY) as u64;
            }
            Step::Lose(n) => at += (n * BODY) as u64,
            Step::Change { n, at: first, by } => {
                let mut message = run(at, n, BODY);
                for (k, datagram) in message.iter_mut().flat_map(|m| m.bytes.chunks_mut(m.segment)).enumerate() {
                    let len = datagram.len();
                    datagram[(first + 7 * k) % len] ^= by;
                }
                all.extend(message);
                at += (n * BODY) as u64;
            }
            Step::Repeat { back, n } => all.extend(run(at.saturating_sub((back * BODY) as u64), n, BODY)),
            Step::Odd { n, body } => all.extend(run(at, n, body)),
            Step::Control { n, len } => {
                let datagram: Vec<u8> = std::iter::once(0).chain((1..len).map(|k| k as u8)).collect();
                all.push(Wire::Clear.sent(&vec![datagram; n]));
            }
            Step::Other(n) => {
                let bodies = (0..n as u64).map(|k| ByteRange::at(other + k * 96, 96));
                all.push(wire.sent(&bodies.map(|body| datagram(HEAD + 4, OTHER, body)).collect::<Vec<_>>()));
                other += n as u64 * 96;
            }
            Step::Mixed(n) => {
                let mut message = run(at, n, BODY);
                for message in message.iter_mut().filter(|message| message.bytes.len() > message.segment) {
                    let stranger = Wire::Clear.protect(&vec![7; message.segment]);
                    let middle = (n / 2).min(message.bytes.len() / message.segment) * message.segment;
                    message.bytes.splice(middle..middle, stranger);
                }
                all.extend(message);
                at += (n * BODY) as u64;
            }
            Step::Again { back } => all.extend(all.iter().rev().nth(back).cloned()),
        }
    }
    let rest = (0..SIZE as u64).step_by(40 * BODY).map(|start| datagrams(start, 40, BODY));
    all.extend(rest.map(|datagrams| wire.sent(&datagrams)));
    all
}

/// Where the next bytes of the object are missing: a stretch of at most `len`.
fn next_gap(held: &RangeSet, len: usize) -> Option<ByteRange> {
    let gap = *held.gaps(ByteRange::new(0, SIZE as u64)).first()?;
    Some(ByteRange::new(gap.start, gap.end.min(gap.start + len as u64)))
}

fn check(object: &[u8], flow: FlowId, held: &RangeSet) -> Result<(), TestCaseError> {
    for range in held.iter() {
        for offset in range.start..range.end {
            prop_assert_eq!(object[offset as usize], pattern(flow, offset), "flow {} byte {}", flow.0, offset);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn receive_into_and_deliver_bring_every_byte_to_its_place(
        steps in prop::collection::vec(step(), 1..40),
        depth in 1usize..9,
        calls in prop::collection::vec((1usize..9, 1usize..16_000, any::<bool>()), 1..12),
        sealed in any::<bool>(),
    ) {
        let (mut wire, mut seals) = Wire::new(sealed);
        let mut receiver = Receiver::with_memory(depth, MESSAGE_BYTES);
        let mut endpoint = Endpoint::default();
        let mut objects = [vec![0; 0], vec![0; SIZE + 64], vec![0; 1 << 18]];
        let mut queue: VecDeque<Sent> = messages(&steps, &mut wire).into();
        let mut calls = calls.iter().cycle();
        while !queue.is_empty() {
            let &(at_once, window_len, predict) = calls.next().unwrap();
            let gap = next_gap(&endpoint.held[1], window_len).filter(|_| predict);
            let mut memory = gap.map(|gap| objects[1][gap.start as usize..gap.end as usize].to_vec());
            let window = gap.zip(memory.as_mut()).map(|(range, memory)| Window {
                flow: FLOW,
                expected: Expected { head_len: HEAD, body_len: BODY, range },
                memory,
            });
            let batch = receiver
                .receive_by(window, &mut seals, |slices, ends, arrivals| {
                    scatter(&mut queue, slices, &ends[..ends.len().min(at_once)], arrivals);
                    Ok(())
                })
                .unwrap();
            let places = endpoint.handle(batch.messages());
            let mut writes = Vec::new();
            batch
                .deliver(&places, |delivery| {
                    let bytes: Vec<u8> = delivery.bodies.iter().flat_map(|body| body.iter().copied()).collect();
                    writes.push((delivery.flow, delivery.range, bytes));
                    Ok::<(), ()>(())
                })
                .unwrap();
            if let Some((gap, memory)) = gap.zip(memory) {
                objects[1][gap.start as usize..gap.end as usize].copy_from_slice(&memory);
            }
            for (flow, range, bytes) in writes {
                prop_assert_eq!(range.len(), bytes.len() as u64);
                prop_assert!(flow != FLOW || gap.is_none_or(|gap| gap.intersection(range).is_empty()));
                objects[flow.0 as usize][range.start as usize..range.end as usize].copy_from_slice(&bytes);
            }
            check(&objects[1], FLOW, &endpoint.held[1])?;
        }
        prop_assert_eq!(endpoint.held[1].covered(), SIZE as u64);
        check(&objects[2], OTHER, &endpoint.held[2])?;
    }
}

#[test]
fn receive_into_moves_nothing_when_the_guess_is_right() {
    for sealed in [false, true] {
        let (wire, seals) = Wire::new(sealed);
        receive_what_was_guessed(wire, seals);
    }
}

fn receive_what_was_guessed(mut wire: Wire, mut seals: Seals) {
    let mut receiver = Receiver::with_memory(4, MESSAGE_BYTES);
    let mut endpoint = Endpoint::default();
    let mut object = vec![0; SIZE];
    // Five messages of 41 datagrams; the last ends with the short end of the object.
    let mut queue: VecDeque<Sent> = messages(&[Step::Next(41); 5], &mut wire).into();
    while let Some(gap) = next_gap(&endpoint.held[1], SIZE) {
        let memory = &mut object[gap.start as usize..];
        let window = Window { flow: FLOW, expected: Expected { head_len: HEAD, body_len: BODY, range: gap }, memory };
        let fill = |slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>| {
            scatter(&mut queue, slices, ends, arrivals);
            Ok(())
        };
        let batch = receiver.receive_by(Some(window), &mut seals, fill).unwrap();
        let places = endpoint.handle(batch.messages());
        batch.deliver(&places, |_| Err(())).unwrap();
        assert!(receiver.work.is_idle(), "bytes were moved");
    }
    check(&object, FLOW, &endpoint.held[1]).unwrap();
}

#[test]
fn receive_by_drops_what_was_truncated() {
    let mut receiver = Receiver::with_memory(2, 10);
    let mut wire = Wire::Clear;
    let long = wire.sent(&[datagram(HEAD, FLOW, ByteRange::new(0, 3))]);
    let mut queue = VecDeque::from([long.clone(), wire.sent(&[vec![0, 1, 2]])]);
    for expected in [&[][..], &[3]] {
        let fill = |slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>| {
            scatter(&mut queue, slices, &ends[..1], arrivals);
            Ok(())
        };
        let batch = receiver.receive_by(None, &mut Seals::default(), fill).unwrap();
        assert_eq!(batch.messages().iter().map(|m| m.total_len).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn learn_counts_drops_across_the_wrap_of_the_kernels_counter() {
    let mut receiver = Receiver::with_memory(2, 10);
    for drops in [u32::MAX - 1, 3] {
        receiver.arrivals = vec![Arrival {
            from: SocketAddr::from(([192, 0, 2, 1], 7)),
            to: None,
            len: 1,
            segment: 1,
            truncated: false,
            drops: Some(drops),
            waited: Span::ZERO,
            congested: false,
        }];
        receiver.learn(None);
    }
    assert_eq!(receiver.kernel_drops(), u64::from(u32::MAX) + 4);
}

#[test]
fn a_datagram_that_is_too_short_to_be_sealed_is_no_flow_s() {
    for len in ENVELOPE_LEN..=ENVELOPE_LEN + TAG_LEN {
        let (_, mut seals) = Wire::new(true);
        let mut datagram = vec![7; len];
        datagram[CONNECTION_FIELD].copy_from_slice(&CONNECTION.to_be_bytes());
        let mut queue = VecDeque::from([Sent { segment: len, bytes: datagram.repeat(3) }]);
        let fill = |slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>| {
            scatter(&mut queue, slices, ends, arrivals);
            Ok(())
        };
        let mut receiver = Receiver::with_memory(1, MESSAGE_BYTES);
        let batch = receiver.receive_by(None, &mut seals, fill).unwrap();
        let ids = batch.messages().iter().flat_map(|message| (0..message.datagrams()).map(|k| message.envelope(k)));
        assert!(ids.flatten().all(|envelope| envelope.connection == ConnectionId::NONE), "{len}");
        assert_eq!(seals.refused(), 3, "{len}");
    }
}

#[test]
fn a_sealed_datagram_that_was_changed_cut_replayed_or_made_by_a_stranger_harms_no_other() {
    let (mut wire, mut seals) = Wire::new(true);
    let run: Vec<_> = (0..9).map(|k| datagram(HEAD, FLOW, ByteRange::at(k * BODY as u64, BODY as u64))).collect();
    let genuine = wire.sent(&run);
    let mut attacked = genuine.clone();
    let segment = attacked.segment;
    let at = |k: usize| k * segment..(k + 1) * segment;
    // Of each datagram one part is changed: number, id, head, body, tag; one is another's copy; one is in the clear.
    for (k, byte) in [(0, 1), (1, 5), (2, 9), (3, HEAD + 50), (4, segment - 1)] {
        attacked.bytes[at(k)][byte] ^= 0x40;
    }
    attacked.bytes.copy_within(at(5), at(6).start);
    let mut clear = run[7].clone();
    clear.resize(segment, 0);
    attacked.bytes[at(7)].copy_from_slice(&Wire::Clear.protect(&clear));
    attacked.bytes.truncate(9 * segment - 3);
    let shown = |message: &Sent, seals: &mut Seals| {
        let mut receiver = Receiver::with_memory(1, MESSAGE_BYTES);
        let mut queue = VecDeque::from([message.clone()]);
        let fill = |slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>| {
            scatter(&mut queue, slices, ends, arrivals);
            Ok(())
        };
        let batch = receiver.receive_by(None, seals, fill).unwrap();
        let shown = |message: &RxMessage<'_>| {
            (0..message.datagrams()).map(|k| message.head(k)[..message.len_of(k)].to_vec()).collect::<Vec<_>>()
        };
        let of_flow = |datagram: &Vec<u8>| datagram.get(CONNECTION_FIELD) == Some(&CONNECTION.to_be_bytes());
        batch
            .messages()
            .iter()
            .flat_map(shown)
            .filter(of_flow)
            .map(|datagram| datagram[8..].to_vec())
            .collect::<Vec<_>>()
    };
    let plain = |k: usize| run[k][8..].to_vec();
    assert_eq!(shown(&attacked, &mut seals), [plain(5)]);
    assert_eq!(seals.refused(), 7, "what has another id is no flow's");
    // What was spoilt may come again as it was; what came does not count twice.
    assert_eq!(shown(&genuine, &mut seals), [0, 1, 2, 3, 4, 6, 7, 8].map(plain));
    assert_eq!(shown(&genuine, &mut seals), [[0u8; 0]; 0]);
}
