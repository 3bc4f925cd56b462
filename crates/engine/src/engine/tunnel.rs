//! A tunnel: a session's datagrams over TLS streams to the server's control port, where UDP does not pass.
//!
//! It is one more kind of datagram socket. What goes over it is what UDP would carry, envelopes and all, in frames of
//! several datagrams ([`Frame::Datagrams`]). Whoever has no more room says so: each stream holds one frame that its
//! connection has not taken, and the connection little that it has not sent. So datagrams wait as ranges in the
//! engine, and requests and their answers stay fresh.
//!
//! A poller of its own waits for the streams, and the engine's waits for that one: a tunnel is one port.
//!
//! No protocol knows of tunnels: `Command::ChangePath` tells the endpoint only whether the new path is a byte stream.
//! As much waits for a tunnel as its peer has shown to take (`engine/waiting.rs`).

mod pacing;

use std::cell::{Cell, RefCell};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use inhaul_base::{Span, Time};
use inhaul_udp::{Arrival, Clock, DatagramSocket, Interest, Outgoing, Poller, Standing, Waker};
use inhaul_udp::{limit_pacing, limit_unsent, tcp_counts};
use rustix::io::Errno;

use self::pacing::Pacing;
use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::Frame;

/// Streams that a tunnel may have.
pub const STREAMS_MAX: usize = 4;
/// A connection takes no more while it has so many bytes that it has not sent once: 10 ms at 100 Mbit/s.
const UNSENT_BYTES: u32 = 128 << 10;
/// What a tunnel counts for where sockets' buffers are summed up: TCP loses nothing for want of one.
const BUFFER_BYTES: usize = 4 << 20;
/// The poller's token of the tunnel's own waker. Streams have theirs above it, which nobody looks at.
const WAKER: u64 = 0;

/// See the module's description.
pub struct Tunnel {
    /// The address that what comes in is shown to come from.
    peer: Cell<SocketAddr>,
    local: SocketAddr,
    poller: Poller,
    /// Wakes the tunnel's poller: frames wait that no connection tells of.
    waker: Waker,
    clock: Clock,
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: Vec<Stream>,
    /// Where to look first, for what comes and for what goes.
    turn: usize,
    /// The next stream's token.
    token: u64,
}

#[derive(Debug)]
struct Stream {
    stream: ControlStream,
    token: u64,
    /// The poller tells when it can be written to.
    watched: bool,
    /// Its connection has ended, or broken.
    ended: bool,
    pacing: Pacing,
}

impl Tunnel {
    /// A tunnel without streams. What comes over it is shown to come from `peer`.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr) -> io::Result<Self> {
        let poller = Poller::new()?;
        let waker = poller.waker(WAKER)?;
        Ok(Self { peer: Cell::new(peer), local, poller, waker, clock: Clock::start(), inner: RefCell::default() })
    }

    /// Adds a stream, which may have brought frames already. False if there are as many as may be.
    pub(crate) fn add(&self, mut stream: ControlStream) -> io::Result<bool> {
        let mut inner = self.inner.borrow_mut();
        if inner.streams.len() == STREAMS_MAX {
            return Ok(false);
        }
        stream.set_polled()?;
        // Without it there is more delay, no more.
        let _ = limit_unsent(stream.wire(), UNSENT_BYTES);
        inner.token += 1;
        let token = inner.token;
        self.poller.add(stream.wire(), token, Interest::Read)?;
        inner.streams.push(Stream { stream, token, watched: false, ended: false, pacing: Pacing::default() });
        self.waker.wake();
        Ok(true)
    }

    /// What comes in is shown to come from `peer` from now on.
    pub(crate) fn show_as(&self, peer: SocketAddr) {
        self.peer.set(peer);
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> usize {
        self.inner.borrow().streams.len()
    }
}

impl Inner {
    /// Forgets streams that have ended and brought all that they will.
    fn drop_ended(&mut self) {
        self.streams.retain(|stream| !stream.ended || stream.stream.has_incoming());
    }
}

impl Stream {
    /// Whether it takes another frame.
    fn takes_more(&self) -> bool {
        !self.ended && self.stream.backlog() == 0
    }

    /// Bounds how fast it sends, once a round.
    fn pace(&mut self, now: Time) {
        if !self.pacing.is_due(now) {
            return;
        }
        let Ok(counts) = tcp_counts(self.stream.wire()) else { return };
        if let Some(bound) = self.pacing.end_round(now, counts) {
            // Where the system does not bound it, more is sent in vain, no more.
            let _ = limit_pacing(self.stream.wire(), bound.map(|bound| bound.bytes_in(Span::from_secs(1))));
        }
    }

    fn flush(&mut self, poller: &Poller) {
        if self.stream.flush().is_err() {
            self.ended = true;
        }
        let waits = !self.ended && self.stream.backlog() > 0;
        if waits != self.watched {
            let interest = if waits { Interest::ReadWrite } else { Interest::Read };
            self.ended |= poller.modify(self.stream.wire(), self.token, interest).is_err();
            self.watched = waits;
        }
    }

    /// The next datagrams that have come, if any have. A stream that brings anything else has ended.
    fn next(&mut self) -> Option<(u16, Vec<u8>)> {
        let mut has_filled = self.ended;
        loop {
            match self.stream.next_frame() {
                Ok(Some(Frame::Datagrams { segment, bytes })) => return Some((segment, bytes)),
                // The answer to the greeting, which was not waited for.
                Ok(Some(Frame::Welcome { .. })) => {}
                Ok(None) if !has_filled => {
                    has_filled = true;
                    self.ended |= self.stream.fill().is_err();
                }
                Ok(None) => {
                    if self.ended {
                        self.end(&"its connection has ended");
                    }
                    return None;
                }
                Ok(Some(frame)) => {
                    let told = if let Frame::Refused { text, .. } = frame { text } else { "a wrong frame".to_owned() };
                    self.end(&told);
                    return None;
                }
                Err(error) => {
                    self.end(&error);
                    return None;
                }
            }
        }
    }

    /// It is of no use any more, whatever has come.
    fn end(&mut self, why: &dyn std::fmt::Display) {
        log::debug!("{}: a stream with datagrams ends: {why}", self.stream.peer());
        self.ended = true;
        self.stream.forget_incoming();
    }

    fn queue(&mut self, message: &Outgoing<'_>) -> Result<(), StreamError> {
        let len = message.bytes.len();
        let segment = message.segment.map_or(len, usize::from).min(len);
        let segment = u16::try_from(segment).unwrap_or(u16::MAX);
        self.stream.queue(&Frame::Datagrams { segment, bytes: message.bytes.to_vec() })
    }
}

impl DatagramSocket for Tunnel {
    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn segments(&self) -> bool {
        true
    }

    fn aggregates(&self) -> bool {
        true
    }

    fn receive_buffer_bytes(&self) -> usize {
        BUFFER_BYTES
    }

    fn outgoing<'m>(&self, _peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        Outgoing { to: None, from: None, bytes, segment, reads_marks: false, v6: false }
    }

    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        let inner = &mut *self.inner.borrow_mut();
        let now = self.clock.now();
        inner.streams.iter_mut().for_each(|stream| stream.pace(now));
        let mut sent = 0;
        for message in messages {
            let count = inner.streams.len();
            let free = (0..count).map(|k| (inner.turn + k) % count).find(|&k| inner.streams[k].takes_more());
            let Some(index) = free else { break };
            let stream = &mut inner.streams[index];
            // An empty datagram is for nobody.
            if !message.bytes.is_empty() && stream.queue(&message).is_err() {
                stream.ended = true;
                continue;
            }
            stream.flush(&self.poller);
            inner.turn = index + 1;
            sent += 1;
        }
        if sent > 0 { Ok(sent) } else { Err(Errno::AGAIN.into()) }
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        self.waker.reset();
        let inner = &mut *self.inner.borrow_mut();
        let count = inner.streams.len();
        // Those that have nothing more, one bit each.
        let mut quiet = 0u8;
        let mut start = 0;
        for &end in ends {
            let came = (0..count).map(|k| (inner.turn + k) % count).find_map(|index| {
                let came = if quiet & 1 << index == 0 { inner.streams[index].next() } else { None };
                quiet |= u8::from(came.is_none()) << index;
                came
            });
            let Some((segment, bytes)) = came else { break };
            let len = scatter(&bytes, &mut slices[start..end]);
            start = end;
            let truncated = len < bytes.len();
            let segment = usize::from(segment).min(len.max(1));
            arrivals.push(Arrival {
                from: self.peer.get(),
                to: None,
                len,
                segment,
                truncated,
                congested: false,
                drops: None,
                waited: Span::ZERO,
            });
            inner.turn = (inner.turn + 1) % count;
        }
        if quiet.count_ones() < count as u32 {
            // Of what has been taken in already no connection tells.
            self.waker.wake();
        }
        inner.drop_ended();
        Ok(())
    }

    fn hand_on(&self) -> Option<Standing> {
        let inner = &mut *self.inner.borrow_mut();
        inner.streams.iter_mut().for_each(|stream| stream.flush(&self.poller));
        inner.drop_ended();
        Some(match inner.streams.is_empty() {
            true => Standing::Closed,
            false if inner.streams.iter().any(Stream::takes_more) => Standing::Open,
            false => Standing::Full,
        })
    }
}

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// Copies `bytes` into the slices, one behind the other, as far as they go. Says how many that were.
fn scatter(bytes: &[u8], slices: &mut [IoSliceMut<'_>]) -> usize {
    let mut rest = bytes;
    for slice in slices {
        let (now, later) = rest.split_at(rest.len().min(slice.len()));
        slice[..now.len()].copy_from_slice(now);
        rest = later;
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    const FROM: ([u8; 4], u16) = ([192, 0, 2, 7], 0);

    /// Two tunnels with so many streams between them.
    fn pair(streams: usize) -> (Tunnel, Tunnel) {
        let tunnel = || Tunnel::new(FROM.into(), FROM.into()).unwrap();
        let (one, other) = (tunnel(), tunnel());
        for _ in 0..streams {
            let (near, far) = connection();
            assert!(one.add(near).unwrap());
            assert!(other.add(ControlStream::new(far).unwrap()).unwrap());
        }
        (one, other)
    }

    fn connection() -> (ControlStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ControlStream::new(near).unwrap(), listener.accept().unwrap().0)
    }

    fn send(tunnel: &Tunnel, messages: &[(Vec<u8>, Option<u16>)]) -> io::Result<usize> {
        tunnel.send(messages.iter().map(|(bytes, segment)| tunnel.outgoing(FROM.into(), bytes, *segment)))
    }

    /// Messages that have come, up to `count` of them, waited for.
    fn receive(tunnel: &Tunnel, count: usize) -> Vec<(Vec<u8>, usize)> {
        let (mut came, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(10));
        while came.len() < count && Instant::now() < deadline {
            let mut memory = vec![[0; 1 << 16]; 4];
            let mut arrivals = Vec::new();
            {
                // Each message has a short slice and a long one.
                let halves = memory.iter_mut().map(|part| part.split_at_mut(100));
                let mut slices: Vec<_> =
                    halves.flat_map(|(head, rest)| [IoSliceMut::new(head), IoSliceMut::new(rest)]).collect();
                tunnel.receive(&mut slices, &[2, 4, 6, 8], &mut arrivals).unwrap();
            }
            for (part, arrival) in memory.iter().zip(arrivals) {
                assert_eq!((arrival.from, arrival.truncated), (FROM.into(), false));
                came.push((part[..arrival.len].to_vec(), arrival.segment));
            }
        }
        came
    }

    #[test]
    fn messages_cross_whole_over_several_streams_and_each_stream_keeps_their_order() {
        let (one, other) = pair(4);
        let message = |n: usize| (vec![n as u8; 100 + 1300 * (n % 40)], Some(1400));
        let messages: Vec<_> = (0..200).map(message).collect();
        let mut left = &messages[..];
        let mut came = Vec::new();
        while !left.is_empty() {
            match send(&one, left) {
                Ok(count) => left = &left[count..],
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    came.extend(receive(&other, 1));
                    one.hand_on();
                }
            }
        }
        while came.len() < messages.len() {
            one.hand_on();
            let more = receive(&other, 1);
            assert!(!more.is_empty(), "{} of {}", came.len(), messages.len());
            came.extend(more);
        }
        came.sort();
        let mut expected: Vec<_> = messages.iter().map(|(bytes, _)| (bytes.clone(), 1400.min(bytes.len()))).collect();
        expected.sort();
        assert!(came == expected);
    }

    #[test]
    fn a_peer_that_does_not_read_fills_the_tunnel_and_no_more() {
        let (one, _other) = pair(2);
        let message = [(vec![7; 60_000], Some(1000))];
        let sent = (0..10_000).take_while(|_| send(&one, &message).is_ok()).count();
        assert!(sent < 1_000, "{sent}");
        assert_eq!(one.hand_on(), Some(Standing::Full));
        let waiting: usize = one.inner.borrow().streams.iter().map(|stream| stream.stream.backlog()).sum();
        assert!(waiting <= 2 * 61_000, "{waiting}");
    }

    #[test]
    fn streams_beyond_the_most_are_not_taken() {
        let (one, _other) = pair(STREAMS_MAX);
        assert!(!one.add(connection().0).unwrap());
        assert_eq!(one.streams(), STREAMS_MAX);
    }

    #[test]
    fn what_was_taken_in_before_is_heard_and_wakes_the_engine() {
        let tunnel = Tunnel::new(FROM.into(), FROM.into()).unwrap();
        let (mut near, mut far) = connection();
        let mut bytes = Vec::new();
        for text in ["a", "b"] {
            Frame::Datagrams { segment: 1, bytes: text.into() }.encode(&mut bytes);
        }
        far.write_all(&bytes).unwrap();
        near.set_polled().unwrap();
        while !near.has_incoming() {
            near.fill().unwrap();
        }
        tunnel.add(near).unwrap();
        let ready = || {
            let mut fds = [rustix::event::PollFd::new(&tunnel, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())).unwrap() > 0
        };
        assert!(ready());
        let mut arrivals = Vec::new();
        let mut memory = [0; 10];
        tunnel.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        assert_eq!((arrivals.len(), memory[0], ready()), (1, b'a', true), "more has been taken in");
        tunnel.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        tunnel.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        assert_eq!((arrivals.len(), memory[0], ready()), (2, b'b', false));
    }

    #[test]
    fn a_stream_with_anything_else_in_it_ends_and_what_came_before_counts() {
        let bad = |frame: Frame| {
            let mut bytes = Vec::new();
            Frame::Datagrams { segment: 3, bytes: b"abc".to_vec() }.encode(&mut bytes);
            frame.encode(&mut bytes);
            bytes
        };
        let mut cases = vec![
            bad(Frame::Finish),
            bad(Frame::Refused { code: inhaul_session::session::frame::RefusalCode::Busy, text: String::new() }),
        ];
        cases.push([bad(Frame::Optional { kind: 200 }), vec![0xff; 9]].concat());
        for bytes in cases {
            let tunnel = Tunnel::new(FROM.into(), FROM.into()).unwrap();
            let (near, mut far) = connection();
            tunnel.add(near).unwrap();
            far.write_all(&bytes).unwrap();
            assert_eq!(receive(&tunnel, 1), [(b"abc".to_vec(), 3)]);
            let deadline = Instant::now() + Duration::from_secs(10);
            while tunnel.streams() > 0 && Instant::now() < deadline {
                tunnel.receive(&mut [], &[0], &mut Vec::new()).unwrap();
            }
            assert_eq!(tunnel.hand_on(), Some(Standing::Closed));
            assert!(send(&tunnel, &[(vec![1], None)]).is_err(), "it waits for another stream");
            assert_eq!(far.read(&mut [0]).unwrap_or(0), 0, "its connection is closed");
        }
    }
}
