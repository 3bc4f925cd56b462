//! An outside for tests: sockets and connections in memory, in virtual time.
//!
//! Time passes only while the engine waits: a microsecond for every wait, so that a loop that does not sleep is seen
//! to be awake, and up to the next thing that happens if nothing is ready. What happens beside the engine, and when,
//! a test says with [`World::at`]. Readiness is level-triggered and errors are the kernel's, with the kernel's odd
//! combinations: a socket whose datagrams are refused with ENOBUFS counts as writable.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_udp::watch::Forecast;
use inhaul_udp::{Arrival, DatagramSocket, Event, Interest, MESSAGES_MAX, Outgoing, Poller, Waker, checksum};
use rustix::io::Errno;

use super::outside::{Outside, Source, TellNews, Watchable, Wire};
use inhaul_session::session::control_stream::ControlStream;

/// What a wait takes at least.
const WAIT: Span = Span::from_micros(1);
/// How long a datagram is under way.
const LATENCY: Span = Span::from_millis(5);
/// Most events that one wait reports, as the kernel's poller.
const EVENTS_MAX: usize = 64;
/// Bytes that a connection holds for an end that does not read.
const WIRE_BYTES: usize = 64 * 1024;

/// What becomes of the datagrams that are sent over a socket.
#[derive(Clone, Copy, Debug)]
pub(super) enum WayOut {
    /// They leave at once.
    Open,
    /// The buffer is full: EAGAIN, and the socket is not writable.
    Full,
    /// The system has no memory for them: ENOBUFS, and the socket is writable all the same.
    NoMemory,
    /// They leave a buffer of so many bytes at this rate. It is empty at `empty_at`, and counts as writable when half
    /// of it is.
    Buffer { bytes: u64, rate: Bitrate, empty_at: Time },
}

/// A datagram that a socket has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

struct SocketState {
    address: SocketAddr,
    inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    way_out: WayOut,
    sent: Vec<Sent>,
    tries: u64,
}

/// One end of a connection.
#[derive(Default)]
struct End {
    incoming: VecDeque<u8>,
    closed: bool,
    reads: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Socket(usize),
    Wire(usize),
}

/// Something that happens; it says when it happens again.
type Step = Box<dyn FnMut(&mut World) -> Option<Time>>;

/// All that is around an engine.
#[derive(Default)]
pub(super) struct World {
    now: Time,
    waits: u64,
    sockets: Vec<SocketState>,
    /// Both ends of a connection, one behind the other.
    ends: Vec<End>,
    watched: BTreeMap<Id, (u64, Interest)>,
    /// What was reported last, when not all could be.
    reported: Option<Id>,
    steps: BTreeMap<(Time, usize), Step>,
    step_number: usize,
    forecast: Option<Forecast>,
}

impl World {
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// How often the engine has waited: its turns.
    pub(super) fn waits(&self) -> u64 {
        self.waits
    }

    /// The watcher of the engine's thread foresees this now.
    pub(super) fn foresee(&mut self, forecast: Forecast) {
        self.forecast = Some(forecast);
    }

    /// Has something happen at a time, and whenever it says then.
    pub(super) fn at(&mut self, time: Time, step: impl FnMut(&mut Self) -> Option<Time> + 'static) {
        self.step_number += 1;
        self.steps.insert((time, self.step_number), Box::new(step));
    }

    /// From `time` on this becomes of what a socket sends.
    pub(super) fn set_way_out(&mut self, time: Time, socket: usize, way_out: WayOut) {
        if time <= self.now {
            self.sockets[socket].way_out = way_out;
            return;
        }
        self.at(time, move |world| {
            world.sockets[socket].way_out = way_out;
            None
        });
    }

    /// The datagrams that have left a socket.
    pub(super) fn sent(&self, socket: usize) -> &[Sent] {
        &self.sockets[socket].sent
    }

    /// How often it was tried to send over a socket.
    pub(super) fn tries(&self, socket: usize) -> u64 {
        self.sockets[socket].tries
    }

    /// How often an end of a connection was read.
    pub(super) fn reads(&self, wire: usize) -> u64 {
        self.ends[wire].reads
    }

    /// A datagram comes to a socket now, as intact as its sender made it.
    pub(super) fn deliver(&mut self, socket: usize, from: SocketAddr, datagram: &[u8]) {
        let mut bytes = datagram.to_vec();
        checksum::mask(&mut bytes);
        self.sockets[socket].inbox.push_back((from, bytes));
    }

    /// Takes up to `max` bytes from an end of a connection.
    pub(super) fn read(&mut self, wire: usize, max: usize) -> Vec<u8> {
        let incoming = &mut self.ends[wire].incoming;
        incoming.drain(..max.min(incoming.len())).collect()
    }

    /// Gives an end of a connection bytes for the other, whether there is room or not.
    pub(super) fn write(&mut self, wire: usize, bytes: &[u8]) {
        self.ends[wire ^ 1].incoming.extend(bytes);
    }

    /// Closes an end of a connection.
    pub(super) fn close(&mut self, wire: usize) {
        self.ends[wire].closed = true;
    }

    /// Whether an end of a connection has been closed.
    pub(super) fn is_closed(&self, wire: usize) -> bool {
        self.ends[wire].closed
    }

    fn room(&self, wire: usize) -> usize {
        WIRE_BYTES.saturating_sub(self.ends[wire ^ 1].incoming.len())
    }

    fn is_readable(&self, id: Id) -> bool {
        match id {
            Id::Socket(socket) => !self.sockets[socket].inbox.is_empty(),
            Id::Wire(wire) => !self.ends[wire].incoming.is_empty() || self.ends[wire ^ 1].closed,
        }
    }

    /// From when on it is writable; `FAR_FUTURE` where somebody else must do something for it.
    fn writable_from(&self, id: Id) -> Time {
        let is_writable = match id {
            Id::Socket(socket) => match self.sockets[socket].way_out {
                WayOut::Open | WayOut::NoMemory => true,
                WayOut::Full => false,
                WayOut::Buffer { bytes, rate, empty_at } => {
                    return Time::ZERO + empty_at.since(Time::ZERO + rate.time_for(bytes / 2));
                }
            },
            Id::Wire(wire) => self.room(wire) > 0 || self.ends[wire ^ 1].closed,
        };
        if is_writable { Time::ZERO } else { Time::FAR_FUTURE }
    }

    /// Does what is due, and says when the next thing is.
    fn happen(&mut self) -> Time {
        while let Some(entry) = self.steps.first_entry() {
            if entry.key().0 > self.now {
                return entry.key().0;
            }
            let mut step = entry.remove();
            if let Some(again) = step(self) {
                assert!(again > self.now, "a step must let time pass");
                self.step_number += 1;
                self.steps.insert((again, self.step_number), step);
            }
        }
        Time::FAR_FUTURE
    }

    /// Appends what is ready, and says when something that is waited for will be by itself.
    fn look(&mut self, ready: &mut Vec<Event>) -> Time {
        let mut next = Time::FAR_FUTURE;
        let mut found = Vec::new();
        for (&id, &(token, interest)) in &self.watched {
            let readable = interest != Interest::Write && self.is_readable(id);
            let mut writable = false;
            if interest != Interest::Read {
                let from = self.writable_from(id);
                writable = from <= self.now;
                next = if writable { next } else { next.min(from) };
            }
            if readable || writable {
                found.push((id, Event { token, readable, writable }));
            }
        }
        if found.len() > EVENTS_MAX {
            let first = found.iter().position(|(id, _)| Some(*id) > self.reported).unwrap_or(0);
            found.rotate_left(first);
            found.truncate(EVENTS_MAX);
        }
        self.reported = found.last().map(|(id, _)| *id);
        ready.extend(found.into_iter().map(|(_, event)| event));
        next
    }

    /// One datagram on its way.
    fn send(&mut self, socket: usize, to: SocketAddr, bytes: &[u8]) {
        let (now, state) = (self.now, &mut self.sockets[socket]);
        let mut left = now;
        if let WayOut::Buffer { rate, empty_at, .. } = &mut state.way_out {
            *empty_at = (*empty_at).max(now) + rate.time_for(bytes.len() as u64);
            left = *empty_at;
        }
        let from = state.address;
        let mut plain = bytes.to_vec();
        checksum::mask(&mut plain);
        state.sent.push(Sent { at: now, to, bytes: plain });
        let Some(receiver) = self.sockets.iter().position(|other| other.address == to) else { return };
        let bytes = bytes.to_vec();
        self.at(left + LATENCY, move |world| {
            world.sockets[receiver].inbox.push_back((from, bytes.clone()));
            None
        });
    }

    /// Whether a socket takes another message, or why not.
    fn takes(&self, socket: usize) -> Result<(), Errno> {
        match self.sockets[socket].way_out {
            WayOut::Open => Ok(()),
            WayOut::Full => Err(Errno::AGAIN),
            WayOut::NoMemory => Err(Errno::NOBUFS),
            WayOut::Buffer { bytes, rate, empty_at } => {
                // As in the kernel, whatever the length, if there is any room.
                if rate.bytes_in(empty_at.since(self.now)) < bytes { Ok(()) } else { Err(Errno::AGAIN) }
            }
        }
    }
}

/// The outside, as the engine has it; clones are the same.
#[derive(Clone)]
pub(super) struct Fake {
    world: Rc<RefCell<World>>,
    /// Wakers are real, though no thread is needed here: what they wake is looked at without waiting.
    wakers: Rc<RefCell<Poller>>,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self { world: Rc::default(), wakers: Rc::new(RefCell::new(Poller::new().unwrap())) }
    }

    /// What is around the engine. Not to be held while the engine runs.
    pub(super) fn world(&self) -> std::cell::RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// A socket, connected to `peer` or open to all.
    pub(super) fn socket(&self, address: SocketAddr, peer: Option<SocketAddr>) -> FakeSocket {
        let mut world = self.world();
        let way_out = WayOut::Open;
        world.sockets.push(SocketState { address, inbox: VecDeque::new(), way_out, sent: Vec::new(), tries: 0 });
        FakeSocket { world: Rc::clone(&self.world), number: world.sockets.len() - 1, address, peer }
    }

    /// A connection: a stream, and its other end.
    pub(super) fn connection(&self) -> (ControlStream<FakeWire>, FakeWire) {
        let mut world = self.world();
        let number = world.ends.len();
        world.ends.extend([End::default(), End::default()]);
        let end = |number| FakeWire { world: Rc::clone(&self.world), number };
        let address = SocketAddr::from(([192, 0, 2, 1], 9));
        (ControlStream::over(end(number), address, address), end(number + 1))
    }
}

impl Outside for Fake {
    type Socket = FakeSocket;
    type Wire = FakeWire;

    fn now(&self) -> Time {
        self.world.borrow().now
    }

    fn wait_until(&mut self, deadline: Time, ready: &mut Vec<Event>) -> io::Result<()> {
        self.wakers.borrow_mut().look(ready)?;
        let mut world = self.world.borrow_mut();
        world.waits += 1;
        world.now += WAIT;
        loop {
            let next = world.happen();
            let next = next.min(world.look(ready)).min(deadline);
            if !ready.is_empty() || deadline <= world.now {
                return Ok(());
            }
            assert!(next < Time::FAR_FUTURE, "nothing will ever happen");
            world.now = next;
        }
    }

    fn add(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()> {
        let before = self.world().watched.insert(id(&source), (token, interest));
        if before.is_some() { Err(Errno::EXIST.into()) } else { Ok(()) }
    }

    fn modify(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()> {
        let before = self.world().watched.insert(id(&source), (token, interest));
        if before.is_none() { Err(Errno::NOENT.into()) } else { Ok(()) }
    }

    fn remove(&mut self, source: Source<'_, Self>) -> io::Result<()> {
        let before = self.world().watched.remove(&id(&source));
        if before.is_none() { Err(Errno::NOENT.into()) } else { Ok(()) }
    }

    fn waker(&self, token: u64) -> io::Result<Waker> {
        self.wakers.borrow().waker(token)
    }

    fn watch_thread(&self, _subject: Watchable) -> Option<TellNews> {
        let world = Rc::clone(&self.world);
        Some(Box::new(move || (world.borrow_mut().forecast.take(), None)))
    }

    fn rest_until(&mut self, deadline: Time) {
        let mut world = self.world.borrow_mut();
        while let Some(next) = Some(world.happen()).filter(|next| *next < deadline) {
            world.now = next;
        }
        world.now = world.now.max(deadline);
    }

    fn shorten_turns(&mut self) {}
}

fn id(source: &Source<'_, Fake>) -> Id {
    match source {
        Source::Socket(socket) => Id::Socket(socket.number),
        Source::Wire(wire) => Id::Wire(wire.number),
        Source::Listener(_) => panic!("nobody connects here: a test gives the engine its connections"),
    }
}

/// A socket of a [`World`].
pub(super) struct FakeSocket {
    world: Rc<RefCell<World>>,
    number: usize,
    address: SocketAddr,
    peer: Option<SocketAddr>,
}

impl FakeSocket {
    /// Which of its world's sockets it is.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl DatagramSocket for FakeSocket {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn segments(&self) -> bool {
        true
    }

    fn aggregates(&self) -> bool {
        false
    }

    fn receive_buffer_bytes(&self) -> usize {
        4 << 20
    }

    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        Outgoing { to: Some(peer), from: None, bytes, segment, reads_marks: false, v6: peer.is_ipv6() }
    }

    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        let mut world = self.world.borrow_mut();
        world.sockets[self.number].tries += 1;
        let mut count = 0;
        for message in messages.into_iter().take(MESSAGES_MAX) {
            match world.takes(self.number) {
                Err(errno) if count == 0 => return Err(errno.into()),
                Err(_) => break,
                Ok(()) => count += 1,
            }
            let to = message.to.or(self.peer).unwrap();
            let segment = message.segment.map_or(message.bytes.len(), usize::from).max(1);
            message.bytes.chunks(segment).for_each(|datagram| world.send(self.number, to, datagram));
        }
        Ok(count)
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        let mut start = 0;
        for &end in ends {
            let Some((from, bytes)) = world.sockets[self.number].inbox.pop_front() else { return Ok(()) };
            let mut rest = &bytes[..];
            for slice in &mut slices[start..end] {
                let (now, later) = rest.split_at(rest.len().min(slice.len()));
                slice[..now.len()].copy_from_slice(now);
                rest = later;
            }
            start = end;
            let (len, truncated) = (bytes.len() - rest.len(), !rest.is_empty());
            let segment = len.max(1);
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

impl Drop for FakeSocket {
    fn drop(&mut self) {
        self.world.borrow_mut().watched.remove(&Id::Socket(self.number));
    }
}

/// One end of a connection of a [`World`].
pub(super) struct FakeWire {
    world: Rc<RefCell<World>>,
    number: usize,
}

impl FakeWire {
    /// Which of its world's ends it is.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Wire for FakeWire {
    fn set_polled(&self) -> io::Result<()> {
        Ok(())
    }

    fn end_writing(&self) -> io::Result<()> {
        self.world.borrow_mut().close(self.number);
        Ok(())
    }
}

impl Read for FakeWire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut world = self.world.borrow_mut();
        world.ends[self.number].reads += 1;
        let bytes = world.read(self.number, buffer.len());
        if bytes.is_empty() && !world.ends[self.number ^ 1].closed {
            return Err(Errno::AGAIN.into());
        }
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Write for FakeWire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.world.borrow_mut();
        if world.ends[self.number ^ 1].closed {
            return Err(Errno::PIPE.into());
        }
        match world.room(self.number).min(bytes.len()) {
            0 => Err(Errno::AGAIN.into()),
            count => {
                world.write(self.number, &bytes[..count]);
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FakeWire {
    fn drop(&mut self) {
        let mut world = self.world.borrow_mut();
        world.close(self.number);
        world.watched.remove(&Id::Wire(self.number));
    }
}
