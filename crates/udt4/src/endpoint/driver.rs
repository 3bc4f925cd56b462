//! The thread that moves the packets of an endpoint.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use inhaul_base::{Span, Time};
use inhaul_udp::{Arrival, Interest, MESSAGES_MAX, Poller, Socket, Waker};
use rustix::io::Errno;

use super::batch::Batch;
use super::held::Shared;

const SOCKET: u64 = 0;
const WAKER: u64 = 1;

/// Room for a message of joined datagrams: what UDP carries, and no less.
const MESSAGE_BYTES: usize = 1 << 16;
/// Messages that one call takes in when datagrams come joined: half a megabyte at most.
const AGGREGATES: usize = 8;

/// If this many datagrams move ...
const BRISK_DATAGRAMS: usize = 32;
/// ... in this time, more will come soon ...
const BRISK_SPAN: Span = Span::from_millis(1);
/// ... then the thread rests for this long before it looks again: one wake-up serves all datagrams that came meanwhile.
/// It is far less than UDT's interval of 10 ms, and less than the time for which packets may leave at once.
const REST: Span = Span::from_micros(100);

/// If the system has no memory for a datagram, try again after this time.
const NO_MEMORY: Span = Span::from_millis(1);

pub(super) struct Driver {
    shared: Arc<Shared>,
    socket: Socket,
    poller: Poller,
    /// Waits for time only.
    rest: Poller,
    traffic: Traffic,
    waker: Waker,
    incoming: Incoming,
    batch: Batch,
    /// Whether the kernel cuts messages into datagrams.
    segmentation: Segmentation,
    /// The socket's buffer is full: wait until it can be written.
    blocked: bool,
}

/// How much moves.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    since: Time,
    datagrams: usize,
    brisk: bool,
}

impl Traffic {
    const NONE: Self = Self { since: Time::ZERO, datagrams: 0, brisk: false };

    /// Counts moved datagrams. Returns whether more are likely soon.
    fn moved(&mut self, now: Time, datagrams: usize) -> bool {
        self.datagrams += datagrams;
        let enough = self.datagrams >= BRISK_DATAGRAMS;
        if now >= self.since + BRISK_SPAN {
            *self = Self { since: now, datagrams: 0, brisk: enough };
        }
        datagrams > 0 && (self.brisk || enough)
    }
}

/// Where messages arrive.
struct Incoming {
    /// Room for [`MESSAGES_MAX`] messages of `message_len` bytes. Pages that were never used take no memory.
    memory: Vec<u8>,
    message_len: usize,
    /// Longest datagram.
    mss: usize,
    /// Messages to make room for: twice as many as came the last time.
    depth: usize,
    arrivals: Vec<Arrival>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segmentation {
    On,
    /// A message was refused, maybe because the interface cannot cut it: its datagrams, one by one, will tell.
    Doubted,
    Off,
}

/// The result of a round.
struct Round {
    deadline: Time,
    finished: bool,
    /// There may be more to receive or to send.
    busy: bool,
    /// Datagrams that came or left.
    moved: usize,
}

impl Incoming {
    fn new(socket: &Socket, mss: u16) -> Self {
        let mss = usize::from(mss);
        // One byte more shows which datagrams are too long.
        let message_len = if socket.aggregates() { MESSAGE_BYTES } else { mss + 1 };
        let (memory, arrivals) = (vec![0; MESSAGES_MAX * message_len], Vec::with_capacity(MESSAGES_MAX));
        Self { memory, message_len, mss, depth: 1, arrivals }
    }

    /// Takes in received datagrams. Returns whether there may be more.
    fn receive(&mut self, socket: &Socket) -> io::Result<bool> {
        self.arrivals.clear();
        let mut slices: Vec<_> =
            self.memory.chunks_mut(self.message_len).take(self.depth).map(IoSliceMut::new).collect();
        let mut ends = [0; MESSAGES_MAX];
        for (end, number) in ends.iter_mut().zip(1..) {
            *end = number;
        }
        socket.receive(&mut slices, ends.get(..self.depth).unwrap_or_default(), &mut self.arrivals)?;
        let full = self.arrivals.len() >= self.depth;
        let joined = self.arrivals.iter().any(|arrival| arrival.len > arrival.segment);
        self.depth = (self.arrivals.len() * 2).clamp(1, if joined { AGGREGATES } else { MESSAGES_MAX });
        Ok(full)
    }

    /// How many datagrams have come.
    fn datagrams(&self) -> usize {
        self.arrivals.iter().map(|arrival| arrival.len.div_ceil(arrival.segment.max(1))).sum()
    }

    /// Received messages, each with its addresses.
    fn messages(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        let messages = self.arrivals.iter().zip(self.memory.chunks(self.message_len));
        // A datagram with unexpected extra headers is not ours.
        let whole = messages.filter(|(arrival, _)| !arrival.truncated && arrival.segment <= self.mss);
        whole.filter_map(|(arrival, memory)| Some((arrival, memory.get(..arrival.len)?)))
    }
}

impl Driver {
    /// A driver, and what wakes it.
    pub(super) fn new(shared: Arc<Shared>, socket: Socket, mss: u16) -> io::Result<(Self, Waker)> {
        let poller = Poller::new()?;
        let waker = poller.waker(WAKER)?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        let segmentation = if socket.segments() { Segmentation::On } else { Segmentation::Off };
        let (incoming, batch) = (Incoming::new(&socket, mss), Batch::default());
        let wakes = waker.clone();
        let rest = Poller::new()?;
        let traffic = Traffic::NONE;
        Ok((
            Self { shared, socket, poller, rest, traffic, waker, incoming, batch, segmentation, blocked: false },
            wakes,
        ))
    }

    /// Moves packets until no endpoint or socket needs it.
    pub(super) fn run(mut self) {
        if let Err(error) = self.run_until_finished() {
            self.shared.lock().fail(error.to_string());
        }
    }

    fn run_until_finished(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            let Round { deadline, finished, busy, moved } = self.round()?;
            if finished {
                return Ok(());
            }
            let now = self.shared.clock.now();
            let brisk = self.traffic.moved(now, moved);
            if busy {
                continue;
            }
            if brisk {
                self.rest.sleep_until(self.shared.clock, now + REST, &mut events)?;
            } else if deadline > now {
                self.poller.sleep_until(self.shared.clock, deadline, &mut events)?;
                if events.iter().any(|event| event.token == WAKER) {
                    self.waker.reset();
                }
            }
        }
    }

    /// Receives, lets the connections work, sends.
    fn round(&mut self) -> io::Result<Round> {
        let more = self.incoming.receive(&self.socket)?;
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        for (arrival, bytes) in self.incoming.messages() {
            state.come_to(arrival.to);
            state.handle_message(arrival.from, bytes, arrival.segment, now - arrival.waited);
        }
        state.settle(now);
        if self.batch.is_empty() {
            self.batch.clear();
            self.batch.set_segments(self.segmentation == Segmentation::On);
            state.poll_transmit(now, &mut self.batch);
        }
        let (mut deadline, finished) = (state.deadline(), state.is_finished());
        let ready = state.take_ready();
        drop(state);
        // A thread woken while the state is locked would only wait for it.
        ready.iter().for_each(|ready| ready.notify_all());
        let full = self.batch.is_full();
        let moved = self.incoming.datagrams() + self.batch.datagrams();
        let no_memory = self.send()?;
        if no_memory {
            deadline = now + NO_MEMORY;
        } else if self.blocked {
            deadline = Time::FAR_FUTURE;
        }
        let busy = more || full && !self.blocked && !no_memory;
        Ok(Round { deadline, finished: finished && self.batch.is_empty(), busy, moved })
    }

    /// Sends the batch. Returns whether the system had no memory for it.
    fn send(&mut self) -> io::Result<bool> {
        while !self.batch.is_empty() {
            let error = match self.socket.send(self.batch.outgoing(&self.socket)) {
                Ok(count) => {
                    self.batch.advance(count);
                    if self.segmentation == Segmentation::Doubted && count > 0 {
                        self.segmentation = Segmentation::Off;
                    }
                    continue;
                }
                Err(error) => error,
            };
            match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => {
                    self.set_blocked(true)?;
                    return Ok(false);
                }
                Some(Errno::NOBUFS) => return Ok(true),
                // ICMP reports of earlier datagrams, which reading them takes away.
                Some(Errno::CONNREFUSED | Errno::INTR) => {}
                Some(Errno::IO | Errno::INVAL) if self.batch.is_segmented() => {
                    self.segmentation = Segmentation::Doubted;
                    self.batch.split();
                }
                // No route, or too long for the interface: it is as good as lost.
                _ => {
                    self.batch.advance(1);
                    if self.segmentation == Segmentation::Doubted {
                        // One datagram alone fails just so: the kernel's cutting is not to blame.
                        self.segmentation = Segmentation::On;
                    }
                }
            }
        }
        self.set_blocked(false)?;
        Ok(false)
    }

    fn set_blocked(&mut self, blocked: bool) -> io::Result<()> {
        if self.blocked != blocked {
            self.blocked = blocked;
            let interest = if blocked { Interest::ReadWrite } else { Interest::Read };
            self.poller.modify(&self.socket, SOCKET, interest)?;
        }
        Ok(())
    }
}
