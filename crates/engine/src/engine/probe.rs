//! Probes: datagrams with which `inhaul doctor` tries the path to a server's UDP port, and by which a client that
//! brings data shows where its datagrams come from, without any transport protocol.
//!
//! ```text
//! probe = "inhaul?\n" token(8) number(4) echo_len(2)
//! echo  = "inhaul!\n" token(8) number(4), and zeros until it is echo_len bytes long
//! ```
//! Numbers are big-endian. The echo may be longer than the probe, because data comes from the server: it is the way
//! back that has to carry large packets. So that nobody can have a server flood a third party, a server answers only
//! probes with a token that it gave over TCP, from the address that it gave it to, and a limited number of them.
//! Both carry the checksum of every datagram ([`checksum`]), in bytes 4 to 7 of what is written here.
//!
//! Datagrams are echoed where they come in, before endpoints see them. So `doctor` needs no data set, and it can
//! diagnose a path that no protocol gets through.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_base::Span;
use inhaul_transport::{Expected, Place, RxMessage};
use inhaul_udp::seal::Seals;
use inhaul_udp::{Arrival, Clock, Interest, Poller, Socket, checksum};

use crate::engine::Sink;
use crate::engine::early_echoes::EarlyEchoes;
use crate::engine::port::{Discard, Port, Show};
use inhaul_session::api::error::MoveError;
use inhaul_session::system::process;
use inhaul_session::system::sockets::{Answer, send};

const PROBE_MAGIC: &[u8; 8] = b"inhaul?\n";
const ECHO_MAGIC: &[u8; 8] = b"inhaul!\n";
/// Bytes of a probe.
pub const PROBE_LEN: usize = 22;
/// Bytes of an echo without its padding.
pub const ECHO_LEN_MIN: usize = 20;
/// Longest datagram that UDP over IPv4 carries.
const ECHO_LEN_MAX: usize = 65_507;
/// Echoes that a grant is good for.
pub(crate) const ECHOES_MAX: u32 = 512;

/// How long an echo is waited for before the next probe is sent.
const KNOCK_GAP: Span = Span::from_millis(200);

/// Asks for an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub token: u64,
    /// Tells probes apart.
    pub number: u32,
    /// Length of the datagram that is to come back, in bytes.
    pub echo_len: u16,
}

impl Probe {
    pub fn encode(&self) -> [u8; PROBE_LEN] {
        let mut bytes = [0; PROBE_LEN];
        bytes[..8].copy_from_slice(PROBE_MAGIC);
        bytes[8..16].copy_from_slice(&self.token.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_be_bytes());
        bytes[20..].copy_from_slice(&self.echo_len.to_be_bytes());
        bytes
    }

    /// The probe that a datagram begins with, if it is one.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let (token, number, rest) = after_magic(datagram, PROBE_MAGIC)?;
        let echo_len = u16::from_be_bytes(*rest.first_chunk()?);
        let legal = (ECHO_LEN_MIN..=ECHO_LEN_MAX).contains(&usize::from(echo_len));
        legal.then_some(Self { token, number, echo_len })
    }

    pub fn echo(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(usize::from(self.echo_len));
        bytes.extend_from_slice(ECHO_MAGIC);
        bytes.extend_from_slice(&self.token.to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.resize(usize::from(self.echo_len), 0);
        bytes
    }
}

/// The numbers of the probes with this token that a message, which lies at the start of `memory`, echoes.
pub fn echoes(memory: &mut [u8], arrival: &Arrival, token: u64) -> Vec<u32> {
    let message = &mut memory[..arrival.len];
    checksum::mask_each(message, arrival.segment);
    message.chunks(arrival.segment.max(1)).filter_map(|datagram| echoed(datagram, token)).collect()
}

/// The number of the probe that a datagram echoes, if it does, with this token.
pub fn echoed(datagram: &[u8], token: u64) -> Option<u32> {
    let (theirs, number, _) = after_magic(datagram, ECHO_MAGIC)?;
    (theirs == token).then_some(number)
}

fn after_magic<'d>(datagram: &'d [u8], magic: &[u8; 8]) -> Option<(u64, u32, &'d [u8])> {
    let rest = datagram.strip_prefix(magic)?;
    let (token, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*token), u32::from_be_bytes(*number), rest))
}

/// Who may probe a server.
#[derive(Debug, Default)]
pub struct ProbeDesk {
    /// How many grants there are: while there are none, which is nearly always, datagrams are not looked at.
    open: AtomicUsize,
    grants: Mutex<BTreeMap<u64, Grant>>,
}

#[derive(Debug)]
struct Grant {
    client: IpAddr,
    echoes_left: u32,
    seen: Option<Seen>,
}

/// How a client's last probe came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From where, as far as NATs on the way let us see.
    pub from: SocketAddr,
    /// To which address of this host, if it has several.
    pub to: Option<IpAddr>,
}

/// Leave to probe, until it is dropped.
#[derive(Debug)]
pub struct Admission {
    desk: Arc<ProbeDesk>,
    pub token: u64,
}

impl ProbeDesk {
    /// Lets `client` probe.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Admission, MoveError> {
        Ok(self.admit_as(process::random_u64()?, client))
    }

    /// The same, with a token that the client knows already.
    pub(crate) fn admit_as(self: &Arc<Self>, token: u64, client: IpAddr) -> Admission {
        let mut grants = self.lock();
        grants.insert(token, Grant { client: client.to_canonical(), echoes_left: ECHOES_MAX, seen: None });
        self.open.store(grants.len(), Ordering::Relaxed);
        Admission { desk: Arc::clone(self), token }
    }

    /// The echo of a datagram that is a probe and may have one.
    fn answer(&self, seen: Seen, datagram: &[u8]) -> Option<Answer> {
        if !self.is_open() {
            return None;
        }
        let probe = Probe::parse(datagram)?;
        let mut grants = self.lock();
        let grant = grants.get_mut(&probe.token).filter(|grant| grant.client == seen.from.ip().to_canonical())?;
        grant.echoes_left = grant.echoes_left.checked_sub(1)?;
        grant.seen = Some(seen);
        Some(Answer { to: seen.from, asked: seen.to, bytes: probe.echo() })
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission {
    /// How the client's last probe came.
    pub fn seen(&self) -> Option<Seen> {
        self.desk.lock().get(&self.token)?.seen
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut grants = self.desk.lock();
        grants.remove(&self.token);
        self.desk.open.store(grants.len(), Ordering::Relaxed);
    }
}

/// A server's way in: probes are echoed, bodies dropped; a server of files is sent none.
pub struct Echoing {
    desk: Arc<ProbeDesk>,
    /// For those who probe before they have a flow.
    pub early: EarlyEchoes,
    echoes: Vec<Answer>,
}

impl Echoing {
    pub fn new(desk: Arc<ProbeDesk>, early: EarlyEchoes) -> Self {
        Self { desk, early, echoes: Vec::new() }
    }
}

impl Sink for Echoing {
    fn receive(
        &mut self,
        port: &mut Port,
        seals: &mut Seals,
        expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        if !self.desk.is_open() && !self.early.is_open() {
            return Discard.receive(port, seals, expected, show, places);
        }
        let Self { desk, early, echoes } = self;
        let mut show_all = |messages: &[RxMessage<'_>], places: &mut Vec<Place>| {
            for message in messages {
                let seen = Seen { from: message.from, to: message.to };
                echoes.extend((0..message.datagrams()).filter_map(|k| desk.answer(seen, message.head(k))));
                early.answer(message, echoes);
            }
            show(messages, places);
        };
        let received = port.receive(seals, &mut show_all, places)?.is_some();
        for echo in self.echoes.drain(..) {
            // One that cannot be sent, because it is too long for the interface for one, is an answer too.
            let _ = echo.send(&port.socket);
        }
        Ok(received)
    }
}

/// Sends probes with `token` over a socket that is connected to a server until one is echoed; false when none is in
/// time. Probes and echoes are `len` bytes long, or as short as can be if that is less.
pub fn knock(socket: &Socket, peer: SocketAddr, token: u64, patience: Span, len: u16) -> std::io::Result<bool> {
    let echo_len = len.max(ECHO_LEN_MIN as u16);
    let (clock, mut poller) = (Clock::start(), Poller::new()?);
    poller.add(socket, 0, Interest::Read)?;
    let deadline = clock.now() + patience;
    let (mut memory, mut arrivals, mut ready) = (vec![0; usize::from(u16::MAX)], Vec::new(), Vec::new());
    for number in 0.. {
        let mut probe = Probe { token, number, echo_len }.encode().to_vec();
        probe.resize(usize::from(len).max(PROBE_LEN), 0);
        // One that cannot leave just now is as good as lost.
        let _ = send(socket, peer, &[&probe], None);
        let next = (clock.now() + KNOCK_GAP).min(deadline);
        while clock.now() < next {
            socket.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals)?;
            let came = arrivals.drain(..).flat_map(|arrival| echoes(&mut memory, &arrival, token)).count();
            if came > 0 {
                return Ok(true);
            }
            poller.sleep_until(clock, next, &mut ready)?;
        }
        if next == deadline {
            break;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_gives_back_what_encode_wrote(token: u64, number: u32, echo_len in 20u16..=65_507) {
            let probe = Probe { token, number, echo_len };
            prop_assert_eq!(Probe::parse(&probe.encode()), Some(probe));
            let echo = probe.echo();
            prop_assert_eq!(echo.len(), usize::from(echo_len));
            prop_assert_eq!(echoed(&echo, token), Some(number));
            prop_assert_eq!(echoed(&echo, !token), None);
            prop_assert_eq!(Probe::parse(&echo), None);
        }

        #[test]
        fn parse_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40), magic: bool) {
            let datagram = if magic { [&PROBE_MAGIC[..], &bytes].concat() } else { bytes };
            if let Some(probe) = Probe::parse(&datagram) {
                prop_assert_eq!(&probe.encode()[..], &datagram[..PROBE_LEN]);
            }
        }
    }

    #[test]
    fn answer_is_for_those_who_were_admitted_and_has_an_end() {
        let desk = Arc::new(ProbeDesk::default());
        let came = |from: &str| Seen { from: from.parse().unwrap(), to: Some("192.0.2.99".parse().unwrap()) };
        let (friend, stranger) = (came("192.0.2.1:7"), came("192.0.2.2:7"));
        assert!(!desk.is_open());
        let admission = desk.admit(friend.from.ip()).unwrap();
        let probe = Probe { token: admission.token, number: 1, echo_len: 100 }.encode();
        assert!(desk.is_open());
        assert!(desk.answer(stranger, &probe).is_none());
        let foreign = Probe { token: !admission.token, number: 1, echo_len: 100 }.encode();
        assert!(desk.answer(friend, &foreign).is_none());
        assert_eq!(admission.seen(), None);
        let answer = desk.answer(friend, &probe).unwrap();
        assert_eq!((answer.to, answer.asked), (friend.from, friend.to));
        assert_eq!(admission.seen(), Some(friend));
        let answered = (0..2 * ECHOES_MAX).filter(|_| desk.answer(friend, &probe).is_some()).count();
        assert_eq!(answered, ECHOES_MAX as usize - 1);
        drop(admission);
        assert!(!desk.is_open() && desk.answer(friend, &probe).is_none());
    }
}
