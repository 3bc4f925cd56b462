//! The thread that moves the packets of an endpoint.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use inhaul_base::{Span, Time};
use inhaul_udp::{Arrival, Interest, Poller, Socket, Waker};

use super::batch::Batch;
use super::held::Shared;

const SOCKET: u64 = 0;
const WAKER: u64 = 1;

/// Datagrams that one call takes in.
const ARRIVALS: usize = 32;

/// If the system has no memory for a datagram, try again after this time.
const NO_MEMORY: Span = Span::from_millis(1);

pub(super) struct Driver {
    shared: Arc<Shared>,
    socket: Socket,
    poller: Poller,
    waker: Waker,
    /// Room for [`ARRIVALS`] datagrams of `datagram_len` bytes.
    memory: Vec<u8>,
    datagram_len: usize,
    arrivals: Vec<Arrival>,
    batch: Batch,
    /// The socket's buffer is full: wait until it can be written.
    blocked: bool,
}

/// What a round came to.
struct Round {
    deadline: Time,
    finished: bool,
    /// There may be more to receive or to send.
    busy: bool,
}

impl Driver {
    /// A driver, and what wakes it.
    pub(super) fn new(shared: Arc<Shared>, socket: Socket, mss: u16) -> io::Result<(Self, Waker)> {
        let poller = Poller::new()?;
        let waker = poller.waker(WAKER)?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        // One byte more shows which datagrams are too long.
        let datagram_len = usize::from(mss) + 1;
        let memory = vec![0; ARRIVALS * datagram_len];
        let (arrivals, batch) = (Vec::with_capacity(ARRIVALS), Batch::default());
        let wakes = waker.clone();
        Ok((Self { shared, socket, poller, waker, memory, datagram_len, arrivals, batch, blocked: false }, wakes))
    }

    /// Moves packets until nobody needs it any more.
    pub(super) fn run(mut self) {
        if let Err(error) = self.run_until_finished() {
            self.shared.lock().fail(error.to_string());
        }
    }

    fn run_until_finished(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            let Round { deadline, finished, busy } = self.round()?;
            if finished {
                return Ok(());
            }
            let now = self.shared.clock.now();
            if !busy && deadline > now {
                self.poller.sleep_until(self.shared.clock, deadline, &mut events)?;
                self.waker.reset();
            }
        }
    }

    /// Receives, lets the connections work, sends.
    fn round(&mut self) -> io::Result<Round> {
        self.receive()?;
        let now = self.shared.clock.now();
        let mut state = self.shared.lock();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            let start = at * self.datagram_len;
            if !arrival.truncated
                && let Some(bytes) = self.memory.get(start..start + arrival.len)
            {
                state.handle(arrival.from, bytes, now - arrival.waited);
            }
        }
        if self.batch.is_empty() {
            self.batch.clear();
            state.poll_transmit(now, &mut self.batch);
        }
        let (mut deadline, finished) = (state.deadline(), state.is_finished());
        drop(state);
        let full = self.batch.is_full();
        let no_memory = self.send()?;
        if no_memory {
            deadline = now + NO_MEMORY;
        } else if self.blocked {
            deadline = Time::FAR_FUTURE;
        }
        let busy = self.arrivals.len() == ARRIVALS || full && !self.blocked && !no_memory;
        Ok(Round { deadline, finished: finished && self.batch.is_empty(), busy })
    }

    fn receive(&mut self) -> io::Result<()> {
        self.arrivals.clear();
        let mut slices: Vec<_> = self.memory.chunks_mut(self.datagram_len).map(IoSliceMut::new).collect();
        let mut ends = [0; ARRIVALS];
        for (end, number) in ends.iter_mut().zip(1..) {
            *end = number;
        }
        self.socket.receive(&mut slices, &ends, &mut self.arrivals)
    }

    /// Sends what is in the batch. Says whether the system had no memory for it.
    fn send(&mut self) -> io::Result<bool> {
        while !self.batch.is_empty() {
            match self.socket.send(self.batch.rest().map(|(to, bytes)| self.socket.outgoing(to, bytes, None))) {
                Ok(count) => self.batch.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.set_blocked(true)?;
                    return Ok(false);
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    return Ok(true);
                }
                // ICMP reports of earlier datagrams, which reading them takes away.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // No route, or too long for the interface: it is as good as lost.
                Err(_) => self.batch.advance(1),
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
