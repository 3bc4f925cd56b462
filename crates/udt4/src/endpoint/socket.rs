//! One end of a connection, as blocking calls.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_base::{Span, Time};

use super::held::Held;
use super::state::{Phase, State, Want};
use crate::connection::{Connection, End, Statistics};
use crate::error::UdtError;
use crate::wire::{Kind, SocketId};

/// One end of a connection.
///
/// Several threads may use it at once. When it is dropped, written data is still sent, for at most [`Options::linger`]:
/// [`close`](Self::close) waits for it.
///
/// [`Options::linger`]: crate::Options::linger
#[derive(Debug)]
pub struct Socket {
    held: Arc<Held>,
    id: SocketId,
    peer: SocketAddr,
    timeouts: Mutex<Timeouts>,
}

/// How long calls wait at most; `None`: as long as it takes.
#[derive(Clone, Copy, Debug, Default)]
struct Timeouts {
    read: Option<Span>,
    write: Option<Span>,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOptions {
    /// After this time it is no longer sent, and the peer does not wait for its missing packets. `None`: until it has
    /// arrived.
    pub lifetime: Option<Span>,
    /// It may be read before messages that were sent earlier.
    pub unordered: bool,
}

impl Socket {
    pub(super) fn new(held: Arc<Held>, id: SocketId) -> Self {
        let peer = match held.lock().entry(id).map(|entry| &entry.phase) {
            Some(Phase::Open(connection)) => connection.peer(),
            Some(Phase::Connecting(connecting)) => connecting.peer(),
            _ => SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        Self { held, id, peer, timeouts: Mutex::default() }
    }

    /// The address of the other side.
    pub const fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// The address of this side.
    pub fn local_address(&self) -> SocketAddr {
        self.held.local_address()
    }

    /// How long a read or receive waits; `None`: until there is something.
    pub fn set_read_timeout(&self, timeout: Option<Span>) {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner).read = timeout;
    }

    /// How long a write, a send or a flush waits; `None`: as long as it takes.
    pub fn set_write_timeout(&self, timeout: Option<Span>) {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner).write = timeout;
    }

    /// When a call that begins now has waited long enough.
    fn deadline(&self, of: impl FnOnce(Timeouts) -> Option<Span>) -> Time {
        let timeouts = *self.timeouts.lock().unwrap_or_else(PoisonError::into_inner);
        of(timeouts).map_or(Time::FAR_FUTURE, |timeout| self.held.now() + timeout)
    }

    /// Reads bytes of the stream; waits for at least one. 0 means that the other side has closed, and all was read.
    ///
    /// # Errors
    /// When the connection broke, is closed here, or carries messages, or the time-out has passed.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, UdtError> {
        if into.is_empty() {
            return Ok(0);
        }
        self.receive(Kind::Stream, "send and receive messages over it", |connection| {
            Some(connection.read(into)).filter(|count| *count > 0)
        })
        .map(|count| count.unwrap_or(0))
    }

    /// Reads until `into` is full.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`End::ByPeer`] if the stream ends before.
    pub fn read_exact(&self, into: &mut [u8]) -> Result<(), UdtError> {
        let mut rest = into;
        while !rest.is_empty() {
            match self.read(rest)? {
                0 => return Err(End::ByPeer.into()),
                count => rest = &mut rest[count..],
            }
        }
        Ok(())
    }

    /// The next message; waits for it. `None`: the other side has closed, and all messages were received.
    ///
    /// # Errors
    /// When the connection broke, is closed here, or carries a stream, or the time-out has passed.
    pub fn receive_message(&self) -> Result<Option<Vec<u8>>, UdtError> {
        self.receive(Kind::Message, "read and write it", Connection::take_message)
    }

    /// Takes what `take` finds. `None`: the other side has closed.
    fn receive<T>(
        &self,
        kind: Kind,
        instead: &'static str,
        mut take: impl FnMut(&mut Connection) -> Option<T>,
    ) -> Result<Option<T>, UdtError> {
        let deadline = self.deadline(|timeouts| timeouts.read);
        self.wait(deadline, Want { data: true, ..Want::default() }, |connection| {
            if connection.kind() != kind {
                return Some(Err(UdtError::Kind(instead)));
            }
            match (take(connection), connection.end()) {
                (Some(taken), _) => Some(Ok(Some(taken))),
                (None, Some(End::ByPeer)) => Some(Ok(None)),
                (None, Some(end)) => Some(Err(end.into())),
                (None, None) => None,
            }
        })
    }

    /// Takes bytes of the stream; waits until there is room for some. Returns how many.
    ///
    /// # Errors
    /// When the connection has ended or carries messages, the application at the other side reported an error, or the
    /// time-out has passed.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, UdtError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let want = Want { room: Some(usize::MAX), ..Want::default() };
        self.wait(self.deadline(|timeouts| timeouts.write), want, |connection| {
            if connection.kind() != Kind::Stream {
                return Some(Err(UdtError::Kind("send and receive messages over it")));
            }
            if connection.take_complaint().is_some() {
                return Some(Err(UdtError::Peer));
            }
            match connection.write(bytes) {
                Ok(0) => None,
                Ok(count) => Some(Ok(count)),
                Err(end) => Some(Err(end.into())),
            }
        })
    }

    /// Takes all bytes; waits for room.
    ///
    /// # Errors
    /// As for [`write`](Self::write). Some bytes may have been taken then.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), UdtError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = self.write(rest)?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Takes a message; waits until there is room for all of it.
    ///
    /// # Errors
    /// When the connection has ended or carries a stream, the message can never fit, or the time-out has passed.
    pub fn send_message(&self, message: &[u8], options: MessageOptions) -> Result<(), UdtError> {
        if message.is_empty() {
            return Err(UdtError::EmptyMessage);
        }
        let now = self.held.now();
        let want = Want { room: Some(1), ..Want::default() };
        self.wait(self.deadline(|timeouts| timeouts.write), want, |connection| {
            if connection.kind() != Kind::Message {
                return Some(Err(UdtError::Kind("read and write it")));
            }
            let most = connection.message_max();
            if message.len() > most {
                return Some(Err(UdtError::MessageTooLong { bytes: message.len(), most }));
            }
            match connection.send_message(message, options.lifetime, !options.unordered, now) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(end) => Some(Err(end.into())),
            }
        })
    }

    /// Waits until the other side has all written data.
    ///
    /// # Errors
    /// When the connection ends before, or the time-out has passed.
    pub fn flush(&self) -> Result<(), UdtError> {
        let want = Want { drained: true, ..Want::default() };
        self.wait(self.deadline(|timeouts| timeouts.write), want, |connection| match connection.end() {
            _ if connection.is_drained() => Some(Ok(())),
            Some(end) => Some(Err(end.into())),
            None => None,
        })
    }

    /// Tells the application at the other side that this one cannot go on. Its next write fails.
    ///
    /// # Errors
    /// When the connection was never made.
    pub fn complain(&self, code: u32) -> Result<(), UdtError> {
        self.with(|connection| connection.complain(code))
    }

    /// Ends the connection. Waits until the other side has all written data, [`Options::linger`] at most.
    ///
    /// [`Options::linger`]: crate::Options::linger
    ///
    /// # Errors
    /// When not all has arrived.
    pub fn close(self) -> Result<(), UdtError> {
        let linger = self.held.lock().options().linger;
        let deadline = self.held.now() + linger;
        let want = Want { drained: true, ..Want::default() };
        let arrived = self.wait(deadline, want, |connection| match connection.end() {
            _ if connection.is_drained() => Some(Ok(())),
            Some(end) => Some(Err(end.into())),
            None => None,
        });
        // The drop sends the shutdown.
        drop(self);
        arrived
    }

    /// Counts since the connection began.
    ///
    /// # Errors
    /// When the connection was never made.
    pub fn statistics(&self) -> Result<Statistics, UdtError> {
        self.with(|connection| connection.statistics())
    }

    /// Waits until the connection is set up.
    pub(super) fn wait_connected(&self) -> Result<(), UdtError> {
        let mut state = self.held.lock();
        loop {
            state.check()?;
            let Some(entry) = state.entry(self.id) else { return Err(End::Closed.into()) };
            match &entry.phase {
                Phase::Open(_) => return Ok(()),
                Phase::Failed(error) => return Err((*error).into()),
                Phase::Connecting(_) => {}
            }
            let ready = entry.ready.clone();
            (state, _) = self.held.wait(state, &ready, Time::FAR_FUTURE);
        }
    }

    fn with<T>(&self, call: impl FnOnce(&mut Connection) -> T) -> Result<T, UdtError> {
        let mut state = self.held.lock();
        let result = call(state.open(self.id)?);
        self.touched(state);
        Ok(result)
    }

    /// Calls `attempt` now and at each notification, until it has a result.
    fn wait<T>(
        &self,
        deadline: Time,
        want: Want,
        mut attempt: impl FnMut(&mut Connection) -> Option<Result<T, UdtError>>,
    ) -> Result<T, UdtError> {
        let mut state = self.held.lock();
        loop {
            let connection = state.open(self.id)?;
            let step = connection.room_step();
            if let Some(result) = attempt(connection) {
                self.touched(state);
                return result;
            }
            let Some(entry) = state.entry(self.id) else { return Err(End::Closed.into()) };
            entry.want.data |= want.data;
            entry.want.drained |= want.drained;
            if let Some(room) = want.room {
                let room = room.min(step);
                entry.want.room = Some(entry.want.room.map_or(room, |other| other.min(room)));
            }
            let ready = entry.ready.clone();
            let (again, in_time) = self.held.wait(state, &ready, deadline);
            if !in_time {
                return Err(UdtError::TimedOut);
            }
            state = again;
        }
    }

    /// The connection may have something to send now.
    fn touched(&self, mut state: MutexGuard<'_, State>) {
        let before = state.deadline();
        state.reschedule(self.id, self.held.now());
        let sooner = state.deadline() < before;
        drop(state);
        if sooner {
            self.held.wake();
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let now = self.held.now();
        self.held.lock().release(self.id, now);
        self.held.wake();
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(Self::read(self, into)?)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Self::write(self, bytes)?)
    }

    /// Waits until the other side has all written data.
    fn flush(&mut self) -> io::Result<()> {
        Ok(Self::flush(self)?)
    }
}
