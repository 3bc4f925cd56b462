//! A UDP socket, set up for bulk data.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{IPPROTO_IP, IPPROTO_IPV6, SOL_SOCKET, SOL_UDP};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::listening::{bind_any, lacks_ipv6};
use crate::sys::{self, Arrival, Outgoing, option, set_option};

/// Whether the kernel may join and segment datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Segmentation and receive offload if the kernel has them.
    #[default]
    Auto,
    /// One datagram per message, as on a system without offloads.
    Off,
}

/// How a socket is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Segmentation and receive offload.
    pub offload: Offload,
    /// Receive buffer to ask for, in bytes. The kernel gives at most `net.core.rmem_max`.
    pub receive_buffer_bytes: usize,
    /// Send buffer to ask for, in bytes. The kernel gives at most `net.core.wmem_max`.
    pub send_buffer_bytes: usize,
    /// Whether other sockets of this user may share the address and port, if they agree. A datagram goes to the socket
    /// that is connected to its peer, or else to an unconnected one.
    pub share_port: bool,
    /// Whether it may share a port with another user's socket that allows it (`SO_REUSEADDR`). This holds only for the
    /// moment of binding.
    pub beside_others: bool,
}

impl Default for SocketOptions {
    /// Offloads if available. More buffer than most systems give: 8 MiB to receive and 4 MiB to send.
    fn default() -> Self {
        Self {
            offload: Offload::Auto,
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: 4 << 20,
            share_port: false,
            beside_others: false,
        }
    }
}

/// Why a socket could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel refuses a socket of this family.
    #[error("no UDP socket for {address} could be made: {source}")]
    Create {
        /// The local address that was wanted.
        address: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The local address is in use, not of this machine, or not allowed.
    #[error("UDP address {address} cannot be used: {source}; choose another address or port, or stop what holds it")]
    Bind {
        /// The local address that was wanted.
        address: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// There is no way to the peer.
    #[error("there is no way to {peer} over UDP: {source}")]
    Connect {
        /// The peer.
        peer: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel refused an option that every Linux has.
    #[error("the kernel refused the socket option {option}: {source}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// A non-blocking UDP socket over IPv4, IPv6 or both (`[::]`). All packets leave with the don't-fragment bit.
///
/// Addresses are plain: an IPv4 peer of a dual-stack socket has an IPv4 address here, in both directions.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// Whether the kernel takes IPv6 addresses only, also for IPv4 peers.
    ipv6: bool,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    segments: bool,
    aggregates: bool,
    receive_buffer_bytes: usize,
    send_buffer_bytes: usize,
}

impl Socket {
    /// A socket bound to `address`. The kernel chooses the port if it is 0. `[::]` takes IPv4 as well, and is `0.0.0.0`
    /// if the system has no IPv6.
    ///
    /// # Errors
    /// When the address cannot be used, or a basic option is refused. Missing offloads are no error.
    pub fn bind(address: SocketAddr, options: &SocketOptions) -> Result<Self, SocketError> {
        let lacks = |error: &SocketError| match error {
            SocketError::Create { source, .. } | SocketError::Bind { source, .. } => lacks_ipv6(source),
            _ => false,
        };
        bind_any(address, |address| Self::bind_at(address, options), lacks)
    }

    fn bind_at(address: SocketAddr, options: &SocketOptions) -> Result<Self, SocketError> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))
            .map_err(|error| SocketError::Create { address, source: error.into() })?;
        if address.is_ipv6() {
            let only = !address.ip().is_unspecified();
            sockopt::set_ipv6_v6only(&fd, only).map_err(|error| refused("IPV6_V6ONLY", error))?;
        }
        sockopt::set_socket_reuseport(&fd, options.share_port).map_err(|error| refused("SO_REUSEPORT", error))?;
        let reuse = |on| sockopt::set_socket_reuseaddr(&fd, on).map_err(|error| refused("SO_REUSEADDR", error));
        reuse(options.beside_others)?;
        rustix::net::bind(&fd, &address).map_err(|error| SocketError::Bind { address, source: error.into() })?;
        reuse(false)?;
        Self::set_up(fd, address, options, false)
    }

    /// Takes over a bound socket.
    ///
    /// # Errors
    /// When it is no UDP socket, or a basic option is refused.
    pub fn adopt(fd: OwnedFd, options: &SocketOptions) -> Result<Self, SocketError> {
        use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let unusable = |error: rustix::io::Errno| SocketError::Bind { address: unknown, source: error.into() };
        let kind = sockopt::socket_type(&fd).map_err(unusable)?;
        let address = rustix::net::getsockname(&fd).and_then(SocketAddr::try_from).map_err(unusable)?;
        if kind != SocketType::DGRAM {
            return Err(unusable(rustix::io::Errno::PROTOTYPE));
        }
        fcntl_setfd(&fd, FdFlags::CLOEXEC).and_then(|()| ioctl_fionbio(&fd, true)).map_err(unusable)?;
        // Its maker may have been allowed larger buffers than this process.
        Self::set_up(fd, address, options, true)
    }

    /// Sets a bound socket up. With `keeps`, its buffers do not become smaller.
    fn set_up(fd: OwnedFd, address: SocketAddr, options: &SocketOptions, keeps: bool) -> Result<Self, SocketError> {
        forbid_fragments(fd.as_fd(), address.ip())?;
        let receive_buffer_bytes =
            buffer(fd.as_fd(), libc::SO_RCVBUF, "SO_RCVBUF", options.receive_buffer_bytes, keeps)?;
        let send_buffer_bytes = buffer(fd.as_fd(), libc::SO_SNDBUF, "SO_SNDBUF", options.send_buffer_bytes, keeps)?;
        // A counter and a time stamp. Both are optional: old kernels and sandboxes may lack them.
        let _ = set_option(fd.as_fd(), SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let _ = set_option(fd.as_fd(), SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        tell_marks(fd.as_fd(), address.is_ipv6());
        let wanted = options.offload == Offload::Auto;
        let segments = wanted && option(fd.as_fd(), SOL_UDP, libc::UDP_SEGMENT).is_ok();
        let aggregates = wanted && set_option(fd.as_fd(), SOL_UDP, libc::UDP_GRO, 1).is_ok();
        let unusable = |error: rustix::io::Errno| SocketError::Bind { address, source: error.into() };
        let local = local_address(&fd).map_err(unusable)?;
        let ipv6 = address.is_ipv6();
        if local.ip().is_unspecified() {
            tell_destinations(fd.as_fd(), ipv6, true);
        }
        Ok(Self { fd, ipv6, local, peer: None, segments, aggregates, receive_buffer_bytes, send_buffer_bytes })
    }

    /// Takes only datagrams of `peer` from now on, and fixes the route to it.
    ///
    /// When there is no route to the peer.
    pub fn connect(&mut self, peer: SocketAddr) -> Result<(), SocketError> {
        let failed = |error: rustix::io::Errno| SocketError::Connect { peer, source: error.into() };
        rustix::net::connect(&self.fd, &self.kernel_address(peer)).map_err(failed)?;
        self.local = local_address(&self.fd).map_err(failed)?;
        self.peer = Some(peer);
        // From now on all datagrams come to this one address.
        tell_destinations(self.fd.as_fd(), self.ipv6, false);
        Ok(())
    }

    /// The local address, with the kernel's choice of port. If it was bound unspecified, it stays so until connected.
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel may segment a message into datagrams.
    pub const fn segments(&self) -> bool {
        self.segments
    }

    /// Whether the kernel may deliver several datagrams as one message.
    pub const fn aggregates(&self) -> bool {
        self.aggregates
    }

    /// The receive buffer's size in bytes of payload, about: half of the kernel's accounting.
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// The send buffer's size in bytes of payload, about.
    pub const fn send_buffer_bytes(&self) -> usize {
        self.send_buffer_bytes
    }

    /// The kernel's estimate of the path MTU to the connected peer, in bytes; `None` when not connected.
    pub fn path_mtu(&self) -> Option<u32> {
        self.peer?;
        let ipv4 = self.local.is_ipv4();
        let (level, name) = if ipv4 { (IPPROTO_IP, libc::IP_MTU) } else { (IPPROTO_IPV6, libc::IPV6_MTU) };
        u32::try_from(option(self.as_fd(), level, name).ok()?).ok()
    }

    /// A message to `peer`, to be segmented into datagrams of `segment` bytes.
    pub fn outgoing<'m>(&self, peer: SocketAddr, bytes: &'m [u8], segment: Option<u16>) -> Outgoing<'m> {
        // A connected socket has a route. With the peer's name, the kernel would look it up again for each message.
        let to = (self.peer != Some(peer)).then(|| self.kernel_address(peer));
        let v6 = peer.ip().to_canonical().is_ipv6();
        Outgoing { to, from: None, bytes, segment, reads_marks: false, v6 }
    }

    /// Sends messages, at most [`crate::MESSAGES_MAX`]; returns how many were sent.
    ///
    /// Why the first could not be sent. `WouldBlock`: the socket buffer is full.
    pub fn send<'m>(&self, messages: impl IntoIterator<Item = Outgoing<'m>>) -> io::Result<usize> {
        sys::send(self.as_fd(), messages.into_iter())
    }

    /// Receives messages without waiting. Message `m` is scattered over `slices[ends[m - 1]..ends[m]]`, and its
    /// description is appended to `arrivals`. Without a message, nothing is appended.
    ///
    /// When the socket is broken. An ICMP report about an earlier datagram is no error: the path may recover.
    pub fn receive(
        &self,
        slices: &mut [IoSliceMut<'_>],
        ends: &[usize],
        arrivals: &mut Vec<Arrival>,
    ) -> io::Result<()> {
        loop {
            match sys::receive(self.as_fd(), slices, ends, arrivals) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Reading a report removes it from the socket, so the loop ends.
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_icmp_report(&error) => {}
                result => return result,
            }
        }
    }

    /// The address in the form of this socket's family.
    fn kernel_address(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V4(v4) if self.ipv6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            _ => address,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the error is only an ICMP report about an earlier datagram, for example a closed port or an unreachable host
/// (RFC 1122 4.1.3.3: soft errors). Anyone can send such a message, so none of them ends anything. The list is Linux's
/// translation (`icmp_err_convert`, `icmpv6_err_convert`).
pub(crate) fn is_icmp_report(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let soft = [
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::MSGSIZE,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::PROTO,
        Errno::ACCESS,
    ];
    Errno::from_io_error(error).is_some_and(|errno| soft.contains(&errno))
}

/// Sets the don't-fragment bit. The kernel sends packets even above its estimate of the path MTU: to find the MTU is
/// the protocol's task.
fn forbid_fragments(fd: BorrowedFd<'_>, address: IpAddr) -> Result<(), SocketError> {
    let refused = |option, source| SocketError::Option { option, source };
    if address.is_ipv6() {
        set_option(fd, IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
            .map_err(|error| refused("IPV6_MTU_DISCOVER", error))?;
    }
    // An IPv6 socket takes it as well, for the IPv4 that it carries.
    set_option(fd, IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        .map_err(|error| refused("IP_MTU_DISCOVER", error))
}

/// Turns reports of a message's destination address on or off: see [`Arrival::to`]. Without them, a host with several
/// addresses answers from the kernel's preferred one.
fn tell_destinations(fd: BorrowedFd<'_>, ipv6: bool, on: bool) {
    // This option covers an IPv6 socket's IPv4 traffic as well.
    let (level, name) = if ipv6 { (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (IPPROTO_IP, libc::IP_PKTINFO) };
    let _ = set_option(fd, level, name, on.into());
}

/// Turns reports of congestion marks on: see [`Arrival::congested`]. Without them, only losses show congestion.
fn tell_marks(fd: BorrowedFd<'_>, ipv6: bool) {
    if ipv6 {
        let _ = set_option(fd, IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    }
    // An IPv6 socket takes it as well, for the IPv4 that it carries.
    let _ = set_option(fd, IPPROTO_IP, libc::IP_RECVTOS, 1);
}

/// Asks for a buffer of `bytes`, unless it `keeps` a larger one. Returns the size that it got.
fn buffer(
    fd: BorrowedFd<'_>,
    name: i32,
    option_name: &'static str,
    bytes: usize,
    keeps: bool,
) -> Result<usize, SocketError> {
    let refused = |source| SocketError::Option { option: option_name, source };
    // The kernel doubles the requested size for its own bookkeeping, and reports the doubled one.
    let given = || option(fd, SOL_SOCKET, name).map(|doubled| usize::try_from(doubled).unwrap_or(0) / 2);
    if !keeps || given().map_err(refused)? < bytes {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        set_option(fd, SOL_SOCKET, name, bytes).map_err(refused)?;
    }
    given().map_err(refused)
}

fn refused(option: &'static str, error: rustix::io::Errno) -> SocketError {
    SocketError::Option { option, source: error.into() }
}

/// The address that the socket is bound to, IPv4 written plainly.
fn local_address(fd: &OwnedFd) -> Result<SocketAddr, rustix::io::Errno> {
    let address = SocketAddr::try_from(rustix::net::getsockname(fd)?)?;
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(text: &str) -> Socket {
        Socket::bind(text.parse().unwrap(), &SocketOptions::default()).unwrap()
    }

    #[test]
    fn bind_says_which_address_is_in_use() {
        let first = bind("127.0.0.1:0");
        let error = Socket::bind(first.local_address(), &SocketOptions::default()).unwrap_err();
        assert!(matches!(&error, SocketError::Bind { address, .. } if *address == first.local_address()));
    }

    #[test]
    fn shared_port_gives_each_peer_to_the_socket_that_is_connected_to_it() {
        let shared = SocketOptions { share_port: true, ..Default::default() };
        for (wildcard, loopback) in
            [("0.0.0.0:0", "127.0.0.1:0"), ("[::]:0", "127.0.0.1:0"), ("127.0.0.1:0", "127.0.0.1:0")]
        {
            let open = Socket::bind(wildcard.parse().unwrap(), &shared).unwrap();
            let (ours, stranger) = (bind(loopback), bind(loopback));
            let address = SocketAddr::new(ours.local_address().ip(), open.local_address().port());
            let mut connected = Socket::bind(address, &shared).unwrap();
            connected.connect(ours.local_address()).unwrap();
            for (from, to) in [(&ours, &connected), (&stranger, &open), (&ours, &connected)] {
                from.send([from.outgoing(address, b"datagram", None)]).unwrap();
                let (mut memory, mut arrivals) = ([0; 64], Vec::new());
                to.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
                assert_eq!(arrivals.len(), 1, "{wildcard}");
            }
        }
    }

    #[test]
    fn adopted_sockets_work_like_own_ones_and_keep_larger_buffers() {
        let own = std::net::UdpSocket::bind("[::]:0").unwrap();
        let address = SocketAddr::new("127.0.0.1".parse().unwrap(), own.local_addr().unwrap().port());
        set_option(own.as_fd(), SOL_SOCKET, libc::SO_RCVBUF, 150_000).unwrap();
        let small = SocketOptions { receive_buffer_bytes: 100_000, ..Default::default() };
        let adopted = Socket::adopt(own.into(), &small).unwrap();
        assert_eq!((adopted.local_address().port(), adopted.receive_buffer_bytes()), (address.port(), 150_000));
        let peer = bind("127.0.0.1:0");
        peer.send([peer.outgoing(address, b"datagram", None)]).unwrap();
        let (mut memory, mut arrivals) = ([0; 64], Vec::new());
        adopted.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        assert_eq!(arrivals.len(), 1);
        adopted.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        assert_eq!(arrivals.len(), 1, "it does not block");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Socket::adopt(tcp.into(), &small).is_err());
    }

    #[test]
    fn bind_reports_the_buffer_that_the_kernel_gave() {
        let limit = |name| -> usize {
            std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap().trim().parse().unwrap()
        };
        let huge = SocketOptions { receive_buffer_bytes: 1 << 30, send_buffer_bytes: 1 << 30, ..Default::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), &huge).unwrap();
        assert_eq!(socket.receive_buffer_bytes(), limit("rmem_max").min(1 << 30));
        assert_eq!(socket.send_buffer_bytes(), limit("wmem_max").min(1 << 30));
        let small = SocketOptions { receive_buffer_bytes: 100_000, ..Default::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), &small).unwrap();
        assert_eq!(socket.receive_buffer_bytes(), 100_000);
    }

    #[test]
    fn offload_off_leaves_both_offloads_alone() {
        let options = SocketOptions { offload: Offload::Off, ..Default::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        assert!(!socket.segments() && !socket.aggregates());
        assert_eq!(option(socket.as_fd(), SOL_UDP, libc::UDP_GRO).unwrap(), 0);
    }

    #[test]
    fn path_mtu_is_known_once_connected() {
        let peer = bind("127.0.0.1:0");
        let mut socket = bind("127.0.0.1:0");
        assert_eq!(socket.path_mtu(), None);
        socket.connect(peer.local_address()).unwrap();
        let loopback = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        // The kernel never reports more than the largest IP packet, even for a larger interface MTU.
        assert_eq!(socket.path_mtu(), Some(loopback.trim().parse::<u32>().unwrap().min(65_535)));
    }

    #[test]
    fn dual_stack_socket_talks_to_ipv4_and_writes_it_plainly() {
        let dual = bind("[::]:0");
        let v4 = bind("127.0.0.1:0");
        for connected in [false, true] {
            let mut sender = bind("[::]:0");
            if connected {
                sender.connect(v4.local_address()).unwrap();
                assert!(sender.path_mtu().is_some());
            }
            assert_eq!(sender.send([sender.outgoing(v4.local_address(), b"hello", None)]).unwrap(), 1);
        }
        let to_dual = SocketAddr::new(v4.local_address().ip(), dual.local_address().port());
        assert_eq!(v4.send([v4.outgoing(to_dual, b"hello", None)]).unwrap(), 1);
        let mut memory = [0; 16];
        let mut arrivals = Vec::new();
        dual.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        assert_eq!((arrivals[0].from, arrivals[0].len, &memory[..5]), (v4.local_address(), 5, &b"hello"[..]));
    }

    /// What comes to `socket`: from where, to which address of this host, and how long its datagrams are.
    fn arrivals(socket: &Socket) -> Vec<(SocketAddr, Option<IpAddr>, usize)> {
        let (mut memory, mut arrivals) = ([0; 4096], Vec::new());
        socket.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals).unwrap();
        arrivals.iter().map(|a| (a.from, a.to, a.segment)).collect()
    }

    #[test]
    fn wildcard_socket_tells_which_address_was_asked_and_answers_from_it() {
        for (wildcard, asked) in
            [("[::]:0", "127.0.0.2"), ("[::]:0", "127.0.0.3"), ("[::]:0", "::1"), ("0.0.0.0:0", "127.0.0.2")]
        {
            let asked: IpAddr = asked.parse().unwrap();
            let server = bind(wildcard);
            let mut client = bind(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" });
            // It takes nothing that comes from elsewhere.
            client.connect(SocketAddr::new(asked, server.local_address().port())).unwrap();
            let (to_server, to_client) = (client.peer.unwrap(), client.local_address());
            client.send([client.outgoing(to_server, b"question", None)]).unwrap();
            assert_eq!(arrivals(&server), [(to_client, Some(asked), 8)], "{wildcard} {asked}");
            for (text, segment) in [(&b"answer"[..], None), (b"answered", Some(4))] {
                let answer = server.outgoing(to_client, text, segment).leaving_from(Some(asked));
                server.send([answer]).unwrap();
                let came = arrivals(&client);
                let each = segment.map_or(text.len(), usize::from);
                assert!(came.iter().all(|&(from, to, len)| (from, to, len) == (to_server, None, each)), "{came:?}");
                assert!(!came.is_empty(), "{wildcard} {asked} {segment:?}");
            }
        }
    }

    #[test]
    fn an_address_of_the_other_family_or_over_a_connected_socket_is_left_to_the_kernel() {
        let (dual, v4) = (bind("[::]:0"), bind("127.0.0.1:0"));
        let other = Some("::1".parse().unwrap());
        dual.send([dual.outgoing(v4.local_address(), b"x", None).leaving_from(other)]).unwrap();
        let mut connected = bind("127.0.0.1:0");
        connected.connect(v4.local_address()).unwrap();
        let elsewhere = Some("127.0.0.9".parse().unwrap());
        connected.send([connected.outgoing(v4.local_address(), b"x", None).leaving_from(elsewhere)]).unwrap();
        assert_eq!(arrivals(&v4).len() + arrivals(&v4).len(), 2);
    }

    #[test]
    fn receive_ignores_what_icmp_reports() {
        let gone = bind("127.0.0.1:0").local_address();
        let mut socket = bind("127.0.0.1:0");
        socket.connect(gone).unwrap();
        socket.send([socket.outgoing(gone, b"x", None)]).unwrap();
        let mut arrivals = Vec::new();
        socket.receive(&mut [IoSliceMut::new(&mut [0; 4])], &[1], &mut arrivals).unwrap();
        assert!(arrivals.is_empty());
    }
}
