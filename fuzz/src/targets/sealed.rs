//! Incoming sealed datagrams: with any input, only datagrams that the peer has sealed are shown, and each once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use inhaul_base::{ByteRange, Span};
use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Expected, FlowId, RxMessage, TAG_LEN};
use inhaul_udp::seal::{FlowSecrets, SECRET_LEN, Sealer, Seals, Secret, Suite};
use inhaul_udp::{Arrival, DatagramSocket, Outgoing, Receiver, Window, checksum};

const FLOW: FlowId = FlowId(1);
const CONNECTION: ConnectionId = ConnectionId(0xC0FF_EE01);
const SUITES: [Suite; 3] = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];
/// Envelope and head of a genuine datagram, and its body.
const HEAD: usize = ENVELOPE_LEN + 4;
const BODY: usize = 24;
const DATAGRAM: usize = HEAD + BODY + TAG_LEN;
/// Most steps of a script, and datagrams of a step.
const STEPS_MAX: usize = 64;
const TOGETHER_MAX: usize = 8;

/// A socket with waiting messages.
#[derive(Default)]
struct Inbox(RefCell<VecDeque<(usize, Vec<u8>)>>);

impl DatagramSocket for Inbox {
    fn local_address(&self) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 7))
    }

    fn segments(&self) -> bool {
        false
    }

    fn aggregates(&self) -> bool {
        true
    }

    fn receive_buffer_bytes(&self) -> usize {
        1 << 16
    }

    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        Outgoing { to: Some(peer), from: None, bytes, segment, reads_marks: false, v6: false }
    }

    fn send<'m>(&self, _messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        let mut start = 0;
        for &end in ends {
            let Some((segment, bytes)) = self.0.borrow_mut().pop_front() else { return Ok(()) };
            let mut rest = &bytes[..];
            for slice in &mut slices[start..end] {
                let (now, later) = rest.split_at(rest.len().min(slice.len()));
                slice[..now.len()].copy_from_slice(now);
                rest = later;
            }
            start = end;
            let (len, truncated) = (bytes.len() - rest.len(), !rest.is_empty());
            let from = self.local_address();
            arrivals.push(Arrival {
                from,
                to: None,
                len,
                segment,
                truncated,
                drops: None,
                waited: Span::ZERO,
                congested: false,
            });
        }
        Ok(())
    }
}

/// The peer, and what it has sealed.
struct Peer {
    sealer: Sealer,
    next: u64,
    /// All of it, as it went over the network.
    sealed: Vec<Vec<u8>>,
    /// Datagrams that were not shown yet: number and plaintext.
    unseen: Vec<(u64, Vec<u8>)>,
}

impl Peer {
    /// Seals the next `count` datagrams.
    fn seal(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        for _ in 0..count {
            let mut datagram = vec![0; DATAGRAM];
            let word = (self.next as u32).to_be_bytes();
            datagram[ENVELOPE_LEN..HEAD].copy_from_slice(&word);
            datagram[HEAD..HEAD + BODY].chunks_mut(4).for_each(|chunk| chunk.copy_from_slice(&word));
            self.unseen.push((self.next, datagram[ENVELOPE_LEN..HEAD + BODY].to_vec()));
            self.sealer.seal(self.next, CONNECTION, &mut datagram);
            self.sealed.push(datagram.clone());
            datagrams.push(datagram);
            self.next += 1;
        }
        datagrams
    }
}

/// A script for a network. The first byte chooses suite and window. Then each step has a byte for the action, and two
/// parameters.
pub fn sealed(data: &[u8]) -> bool {
    let Some((&setting, script)) = data.split_first() else { return false };
    let secret = Secret::new([7; SECRET_LEN]);
    let suite = SUITES[usize::from(setting & 3) % SUITES.len()];
    let mut seals = Seals::default();
    let secrets = FlowSecrets { suite, outgoing: secret.clone(), incoming: secret.clone() };
    seals.insert(FLOW, CONNECTION, &secrets, setting & 4 > 0);
    let mut peer = Peer { sealer: Sealer::new(suite, &secret), next: 0, sealed: Vec::new(), unseen: Vec::new() };
    let (inbox, mut shown, mut harmless) = (Inbox::default(), 0, true);
    let mut receiver = Receiver::new(&inbox, DATAGRAM);
    for step in script.chunks_exact(3).take(STEPS_MAX) {
        let (mut datagrams, is_harmless) = arrivals(step, script, &mut peer);
        harmless &= is_harmless;
        datagrams.retain(|datagram| !datagram.is_empty());
        let Some(segment) = datagrams.first().map(Vec::len) else { continue };
        inbox.0.borrow_mut().push_back((segment, datagrams.concat()));
        let mut memory = vec![0; 4 * BODY * TOGETHER_MAX];
        let range = ByteRange::new(0, memory.len() as u64);
        let expected = Expected { head_len: HEAD, body_len: BODY, range };
        let window =
            Window { flow: FLOW, expected, memory: &mut memory[..range.end as usize - usize::from(step[2]) % BODY] };
        let batch = if setting & 8 > 0 {
            receiver.receive_into(&inbox, &mut seals, window)
        } else {
            receiver.receive(&inbox, &mut seals)
        };
        let Ok(batch) = batch else { continue };
        for message in batch.messages() {
            shown += look_at(message, &mut peer);
        }
    }
    if harmless {
        assert!(peer.unseen.is_empty(), "{} genuine datagrams did not show", peer.unseen.len());
    }
    shown > 0
}

/// The datagrams that arrive in one step, and whether all that the peer has sealed arrive.
fn arrivals(step: &[u8], script: &[u8], peer: &mut Peer) -> (Vec<Vec<u8>>, bool) {
    let (a, b) = (usize::from(step[1]), usize::from(step[2]));
    let count = 1 + a % TOGETHER_MAX;
    match step[0] % 8 {
        0 | 1 => (peer.seal(count), true),
        2 => {
            let mut datagrams = peer.seal(count);
            datagrams[b % count][a % DATAGRAM] ^= 1 << (b % 8);
            (datagrams, false)
        }
        3 => (peer.sealed.get(a * 256 + b).or(peer.sealed.last()).cloned().into_iter().collect(), true),
        4 => {
            // A gap of lost datagrams, up to many epochs.
            peer.next += (a as u64) << (b % 20);
            (peer.seal(1), false)
        }
        5 => {
            let mut datagrams = peer.seal(count);
            // No echo: some of those may come in the clear.
            let mut clear = vec![b as u8 | 8; DATAGRAM];
            clear[4..8].copy_from_slice(&CONNECTION.0.to_be_bytes());
            checksum::mask(&mut clear);
            datagrams.insert(b % (count + 1), clear);
            (datagrams, true)
        }
        6 => (vec![script.iter().copied().cycle().skip(a).take(b).collect()], false),
        _ => {
            let mut datagrams = peer.seal(count);
            let last = datagrams.len() - 1;
            datagrams[last].truncate(b % DATAGRAM);
            (datagrams, false)
        }
    }
}

/// Checks each datagram with the flow's connection id, and returns their number.
fn look_at(message: &RxMessage<'_>, peer: &mut Peer) -> usize {
    let mut shown = 0;
    for k in 0..message.datagrams() {
        let own = message.of_flow(FLOW, CONNECTION);
        let Some(number) = own.number(k) else { continue };
        let head = own.head(k);
        let at = peer.unseen.iter().position(|(unseen, plain)| {
            *unseen as u32 == number && plain.len() == own.len_of(k) && plain[..4] == head[..4.min(head.len())]
        });
        let at = at.unwrap_or_else(|| panic!("number {number} was not sealed, or has come before: {head:?}"));
        peer.unseen.swap_remove(at);
        shown += 1;
    }
    shown
}

/// Scripts in which some datagrams are shown.
pub(super) fn scripts() -> Vec<Vec<u8>> {
    (0..16u8)
        .map(|setting| {
            (0..8u8).flat_map(|step| [step, 3, 17]).fold(vec![setting, 0, 7, 0], |mut script, byte| {
                script.push(byte);
                script
            })
        })
        .collect()
}
