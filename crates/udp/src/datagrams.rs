//! What a socket is to those who send and receive over it.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use crate::socket::Socket;
use crate::sys::{Arrival, Outgoing};

/// How a socket stands that keeps some of what it was given, before the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes no more just now.
    Full,
    /// It takes more.
    Open,
    /// Nothing comes or goes over it any more.
    Closed,
}

/// What a [`Transmitter`](crate::Transmitter) and a [`Receiver`](crate::Receiver) need of a socket. A [`Socket`] is
/// one; a test may have another, over which datagrams go in virtual time. It is a parameter and no object: a call
/// costs what it did.
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
    /// # Errors
    /// When the socket is broken; that nothing has come is none.
    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()>;

    /// The poller has reported it: it hands on what it keeps, and says how it stands. `None` for one that keeps
    /// nothing: the poller knows how it stands.
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
