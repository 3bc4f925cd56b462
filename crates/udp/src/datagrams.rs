//! What a transmitter and a receiver need of a socket.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use crate::socket::Socket;
use crate::sys::{Arrival, Outgoing};

/// The state of a socket that buffers data in front of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its buffer is full for now.
    Full,
    /// It takes more.
    Open,
    /// It is closed, both ways.
    Closed,
}

/// What a [`Transmitter`](crate::Transmitter) and a [`Receiver`](crate::Receiver) need of a socket. [`Socket`]
/// implements it. A test may have another one, which carries datagrams in virtual time. It is used as a type parameter,
/// so a call costs nothing extra.
pub trait DatagramSocket {
    /// As [`Socket::local_address`].
    fn local_address(&self) -> SocketAddr;

    /// As [`Socket::segments`].
    fn segments(&self) -> bool;

    /// As [`Socket::aggregates`].
    fn aggregates(&self) -> bool;

    /// As [`Socket::receive_buffer_bytes`].
    fn receive_buffer_bytes(&self) -> usize;

    /// As [`Socket::outgoing`].
    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m>;

    /// As [`Socket::send`].
    ///
    /// # Errors
    /// Why the first message could not be sent.
    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize>;

    /// As [`Socket::receive`].
    ///
    /// When the socket is broken. No arrival is no error.
    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()>;

    /// Called when the poller reports the socket: passes buffered data on, and returns the state. `None` if the socket
    /// buffers nothing; then the poller's report is its state.
    fn hand_on(&self) -> Option<Standing> {
        None
    }
}

impl DatagramSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        self.local_address()
    }

    fn segments(&self) -> bool {
        self.segments()
    }

    fn aggregates(&self) -> bool {
        self.aggregates()
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes()
    }

    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        self.outgoing(peer, bytes, segment)
    }

    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        self.send(messages)
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        self.receive(slices, ends, arrivals)
    }
}
