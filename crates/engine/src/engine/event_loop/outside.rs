//! What the engine needs of the outside: time, waiting, and what datagrams and control bytes go over.
//!
//! The system is one outside. A test has another, in virtual time (`fake.rs`), so that the very loop that moves files
//! is what it tries. Which one it is, is a parameter: the loop costs no more for it.
//!
//! The fake is used to try sockets that block or have no memory (ENOBUFS), streams that end, peers that do not read,
//! and thousands of flows.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use inhaul_base::Time;
use inhaul_transport::TcpFlows;
use inhaul_udp::watch::{Forecast, Meter, Subject, Watch};
use inhaul_udp::{Clock, DatagramSocket, Event, Interest, Poller, Waker, thread};

use crate::engine::channel::Channel;
use crate::engine::listener::Listener;

/// See the module's description.
pub trait Outside {
    /// What datagrams go over.
    type Socket: DatagramSocket;
    /// What the bytes of a control stream go over.
    type Wire: Wire;

    /// The time, which never goes back.
    fn now(&self) -> Time;

    /// Replaces `ready` by what can be read or written, waiting for it until `deadline` at most; see
    /// [`Poller::wait_until`].
    fn wait_until(&mut self, deadline: Time, ready: &mut Vec<Event>) -> io::Result<()>;

    /// Waits for `source` from now on, until it is dropped or removed.
    fn add(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()>;

    /// Changes what `source` is waited for.
    fn modify(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()>;

    /// Waits for `source` no more.
    fn remove(&mut self, source: Source<'_, Self>) -> io::Result<()>;

    /// A waker whose wakes are reported as `token` being readable.
    fn waker(&self, token: u64) -> io::Result<Waker>;

    /// Begins to watch the calling thread. Returns what tells when something else is foreseen, if that can be done; the
    /// watch ends when it is dropped.
    fn watch_thread(&self, subject: Watchable) -> Option<TellNews>;

    /// Waits until `deadline`, whatever comes meanwhile.
    fn rest_until(&mut self, deadline: Time);

    /// Has the calling thread run in shorter turns from now on, where that can be had: it then waits less for its
    /// processor.
    fn shorten_turns(&mut self);
}

/// What tells of something else that is foreseen, and of what the host's own TCP takes, since it was asked last.
pub(crate) type TellNews = Box<dyn FnMut() -> (Option<Forecast>, Option<TcpFlows>)>;

/// What a watcher is told of the thread that it watches.
pub struct Watchable {
    /// What the thread tells.
    pub(super) meter: Arc<Meter>,
    /// Whether what comes in goes to a disk.
    pub(super) writes: bool,
    /// Whether all sources are looked at.
    pub(super) thorough: bool,
    /// Whether what the host's own TCP takes is of interest.
    pub(super) tcp: bool,
}

/// What can be waited for.
pub enum Source<'s, O: Outside + ?Sized> {
    Listener(&'s Listener),
    Socket(&'s O::Socket),
    Wire(&'s O::Wire),
}

/// What the bytes of a control stream go over: a connection.
pub trait Wire: Read + Write {
    /// From now on reading and writing do not block.
    fn set_polled(&self) -> io::Result<()>;

    /// Nothing more is written: the peer reads the end behind what was.
    fn end_writing(&self) -> io::Result<()>;
}

impl Wire for TcpStream {
    fn set_polled(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }

    fn end_writing(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// The system: its clock, sockets and connections.
pub struct Kernel {
    clock: Clock,
    poller: Poller,
}

impl Kernel {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { clock: Clock::start(), poller: Poller::new()? })
    }
}

impl Outside for Kernel {
    type Socket = Channel;
    type Wire = TcpStream;

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wait_until(&mut self, deadline: Time, ready: &mut Vec<Event>) -> io::Result<()> {
        self.poller.wait_until(self.clock, deadline, ready)
    }

    fn add(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()> {
        self.poller.add(source, token, interest)
    }

    fn modify(&mut self, source: Source<'_, Self>, token: u64, interest: Interest) -> io::Result<()> {
        self.poller.modify(source, token, interest)
    }

    fn remove(&mut self, source: Source<'_, Self>) -> io::Result<()> {
        self.poller.remove(source)
    }

    fn waker(&self, token: u64) -> io::Result<Waker> {
        self.poller.waker(token)
    }

    fn watch_thread(&self, subject: Watchable) -> Option<TellNews> {
        let Watchable { meter, writes, thorough, tcp } = subject;
        // Without it a transfer is as good as it was before there were watchers.
        let mut watch = Watch::start(Subject { clock: self.clock, meter, writes, thorough, tcp }).ok()??;
        Some(Box::new(move || (watch.news(), watch.tcp())))
    }

    fn rest_until(&mut self, deadline: Time) {
        std::thread::sleep(Duration::from_nanos(deadline.since(self.clock.now()).as_nanos()));
    }

    fn shorten_turns(&mut self) {
        // Linux before 6.12 has no such thing.
        let _ = thread::run_in_short_turns();
    }
}

impl AsFd for Source<'_, Kernel> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener) => listener.as_fd(),
            Self::Socket(socket) => socket.as_fd(),
            Self::Wire(wire) => wire.as_fd(),
        }
    }
}
