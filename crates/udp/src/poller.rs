//! Waiting: for sockets, for other threads, for deadlines.
//!
//! The data thread sleeps in `ppoll` with nanosecond time-outs. It spins only for waits below 30 us, which occur only
//! above about 1 Gbit/s. Above about 10 Gbit/s it looks at its sockets for 50 us before it sleeps, because to wake it
//! would cost the sender more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use inhaul_base::{Span, Time};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::clock::Clock;

/// A deadline nearer than this is not slept for: to fall asleep and wake up takes about as long.
const SPIN: Span = Span::from_micros(30);

/// Most events of one wait; the others come with the next.
const EVENTS_MAX: usize = 64;

/// The readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable, or closed by the other side.
    Read,
    /// There is room to write.
    Write,
    /// Either.
    ReadWrite,
}

/// The readiness of a file descriptor. Errors and hang-ups show as both, so that the next call reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token that it was registered with.
    pub token: u64,
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// Waits for many file descriptors at once. Readiness is level-triggered: it is reported as long as it lasts.
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

impl Poller {
    /// A poller that waits for nothing yet.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Waits for `fd` from now on, until it is closed or removed.
    ///
    /// # Errors
    /// When it is registered already, or is of a kind that cannot be waited for.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    /// Changes what `fd` is waited for.
    ///
    /// # Errors
    /// When it is not registered.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    /// Waits for `fd` no more.
    ///
    /// # Errors
    /// When it is not registered.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// A waker whose wakes are reported as `token` being readable.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn waker(&self, token: u64) -> io::Result<Waker> {
        let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        self.add(&*fd, token, Interest::Read)?;
        Ok(Waker { fd })
    }

    /// Replaces `events` by what is ready, waiting for it until `deadline` at most.
    ///
    /// A deadline less than 30 us away is not waited for: the call looks and returns, and the caller comes again until
    /// it has passed. So pacing is exact where sleeping could not be.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait_until(&mut self, clock: Clock, deadline: Time, events: &mut Vec<Event>) -> io::Result<()> {
        if deadline.since(clock.now()) > SPIN {
            return self.sleep_until(clock, deadline, events);
        }
        // Other threads, above all the kernel's network thread, must not wait for a thread that only waits.
        std::thread::yield_now();
        self.look(events)
    }

    /// As [`wait_until`](Self::wait_until), but for the shortest time too: the kernel wakes the thread some tens of
    /// microseconds after the deadline.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn sleep_until(&mut self, clock: Clock, deadline: Time, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        // The timeout of epoll_wait is in milliseconds, and epoll_pwait2 is missing before Linux 5.11; ppoll has
        // always counted nanoseconds, and an epoll descriptor can itself be polled.
        let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut ready, Some(&timespec(deadline.since(clock.now())))) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => self.look(events),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces `events` by what is ready now, neither waiting nor leaving the processor to anybody.
    ///
    /// # Errors
    /// When the kernel refuses to look.
    pub fn look(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.ready.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), Some(&timespec(Span::ZERO))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        events.extend(self.ready.iter().map(|event| {
            let (flags, token) = (event.flags, event.data.u64());
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Event {
                token,
                readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: broken || flags.contains(EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

impl AsFd for Poller {
    /// Another poller can wait for it: it can be read when something that it waits for is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Wakes a poller from another thread. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// Wakes the poller, now or at its next wait. Many wakes in a row are one.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then a wake is pending.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Takes note of the wakes so far: the poller reports them until this is called.
    pub fn reset(&self) {
        // It fails only when there is nothing to take.
        let _ = rustix::io::read(&*self.fd, &mut [0u8; 8]);
    }
}

fn flags(interest: Interest) -> EventFlags {
    let read = EventFlags::IN | EventFlags::RDHUP;
    match interest {
        Interest::Read => read,
        Interest::Write => EventFlags::OUT,
        Interest::ReadWrite => read | EventFlags::OUT,
    }
}

fn timespec(span: Span) -> Timespec {
    // Longer than any run, and short enough for the kernel's own sums.
    let nanos = span.as_nanos().min(i64::MAX as u64 / 2);
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn wait_until_reports_what_is_ready_and_by_which_token() {
        let (mut poller, clock, mut events) = (Poller::new().unwrap(), Clock::start(), Vec::new());
        let (mut near, far) = UnixStream::pair().unwrap();
        poller.add(&far, 7, Interest::ReadWrite).unwrap();
        poller.wait_until(clock, Time::FAR_FUTURE, &mut events).unwrap();
        assert_eq!(events, [Event { token: 7, readable: false, writable: true }]);

        poller.modify(&far, 8, Interest::Read).unwrap();
        poller.wait_until(clock, clock.now() + Span::from_micros(50), &mut events).unwrap();
        assert_eq!(events, []);
        near.write_all(b"x").unwrap();
        poller.wait_until(clock, Time::FAR_FUTURE, &mut events).unwrap();
        assert_eq!(events, [Event { token: 8, readable: true, writable: false }]);

        poller.remove(&far).unwrap();
        poller.wait_until(clock, Time::ZERO, &mut events).unwrap();
        assert_eq!(events, []);
    }

    #[test]
    fn wait_until_sleeps_no_less_than_was_asked_for() {
        let (mut poller, clock, mut events) = (Poller::new().unwrap(), Clock::start(), Vec::new());
        let deadline = clock.now() + Span::from_micros(300);
        poller.wait_until(clock, deadline, &mut events).unwrap();
        assert!(clock.now() >= deadline);
    }

    #[test]
    fn waker_wakes_from_another_thread_until_reset() {
        let (mut poller, clock, mut events) = (Poller::new().unwrap(), Clock::start(), Vec::new());
        let waker = poller.waker(1).unwrap();
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        poller.wait_until(clock, Time::FAR_FUTURE, &mut events).unwrap();
        thread.join().unwrap();
        assert_eq!(events, [Event { token: 1, readable: true, writable: false }]);
        waker.reset();
        poller.wait_until(clock, Time::ZERO, &mut events).unwrap();
        assert_eq!(events, []);
    }
}
