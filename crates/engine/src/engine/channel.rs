//! What datagrams go over: a UDP socket, or a tunnel where UDP does not pass.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use inhaul_udp::{Arrival, DatagramSocket, Outgoing, Socket, Standing};

use crate::engine::tunnel::Tunnel;

/// See the module's description.
pub enum Channel {
    Udp(Socket),
    Tunnel(Tunnel),
}

impl From<Socket> for Channel {
    fn from(socket: Socket) -> Self {
        Self::Udp(socket)
    }
}

impl From<Tunnel> for Channel {
    fn from(tunnel: Tunnel) -> Self {
        Self::Tunnel(tunnel)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Tunnel(tunnel) => tunnel.as_fd(),
        }
    }
}

impl DatagramSocket for Channel {
    fn local_address(&self) -> SocketAddr {
        match self {
            Self::Udp(socket) => socket.local_address(),
            Self::Tunnel(tunnel) => tunnel.local_address(),
        }
    }

    fn segments(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.segments(),
            Self::Tunnel(tunnel) => tunnel.segments(),
        }
    }

    fn aggregates(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.aggregates(),
            Self::Tunnel(tunnel) => tunnel.aggregates(),
        }
    }

    fn receive_buffer_bytes(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.receive_buffer_bytes(),
            Self::Tunnel(tunnel) => tunnel.receive_buffer_bytes(),
        }
    }

    fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        match self {
            Self::Udp(socket) => socket.outgoing(peer, bytes, segment),
            Self::Tunnel(tunnel) => tunnel.outgoing(peer, bytes, segment),
        }
    }

    fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(messages),
            Self::Tunnel(tunnel) => tunnel.send(messages),
        }
    }

    fn receive(&self, slices: &mut [IoSliceMut<'_>], ends: &[usize], arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.receive(slices, ends, arrivals),
            Self::Tunnel(tunnel) => tunnel.receive(slices, ends, arrivals),
        }
    }

    fn hand_on(&self) -> Option<Standing> {
        match self {
            Self::Udp(_) => None,
            Self::Tunnel(tunnel) => tunnel.hand_on(),
        }
    }
}
