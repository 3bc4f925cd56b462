//! The kernel's own TCP connections.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void, socklen_t, tcp_info};

use super::option::set_option;

/// Counters and estimates of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments that have arrived, in any order, as acknowledged by the peer.
    pub delivered: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Bytes of data in a full segment.
    pub segment_bytes: u32,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
}

/// The counters of the connection behind `socket` (TCP_INFO).
///
/// # Errors
/// When it is not a TCP connection.
pub fn tcp_counts(socket: impl AsFd) -> io::Result<TcpCounts> {
    let mut info = MaybeUninit::<tcp_info>::zeroed();
    let mut len = size_of::<tcp_info>() as socklen_t;
    let (level, fd) = (libc::IPPROTO_TCP, socket.as_fd().as_raw_fd());
    // SAFETY: the pointers describe `info` and its length, of which the kernel writes no more.
    let result =
        unsafe { libc::getsockopt(fd, level, libc::TCP_INFO, info.as_mut_ptr().cast::<c_void>(), &raw mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is made of integers only, and was zeroed before the kernel wrote what it knows.
    let info = unsafe { info.assume_init() };
    Ok(TcpCounts {
        delivered: info.tcpi_delivered,
        retransmitted: info.tcpi_total_retrans,
        segment_bytes: info.tcpi_snd_mss,
        rtt_us: info.tcpi_rtt,
    })
}

/// The connection behind `socket` takes no more data while it holds `bytes` that were never sent (TCP_NOTSENT_LOWAT).
/// So data that is written leaves soon.
///
/// # Errors
/// When it is not a TCP connection.
pub fn limit_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Connections of `socket` use packets of at most `bytes`, both ways (TCP_MAXSEG). Set before connecting or listening,
/// it is told to the peer, too. `ip` is the address that it connects to or listens on.
///
/// # Errors
/// When it is no socket of TCP.
pub fn limit_packets(socket: impl AsFd, ip: IpAddr, bytes: u16) -> io::Result<()> {
    /// What the kernel takes.
    const SEGMENTS: std::ops::RangeInclusive<c_int> = 88..=32_767;
    // TCP's options count as data (RFC 6691).
    let headers: u16 = if ip.is_ipv4() { 40 } else { 60 };
    let segment = c_int::from(bytes.saturating_sub(headers)).clamp(*SEGMENTS.start(), *SEGMENTS.end());
    set_option(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, segment)
}

/// Limits the connection behind `socket` to `bytes` per second, below what its congestion control allows; `None`: no
/// limit (SO_MAX_PACING_RATE). Rates from 4 GiB per second on are no limit.
///
/// When the system lacks it.
pub fn limit_pacing(socket: impl AsFd, bytes: Option<u64>) -> io::Result<()> {
    let rate = bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn tcp_counts_knows_a_connection_and_refuses_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counts = tcp_counts(&stream).unwrap();
        assert_eq!(counts.retransmitted, 0);
        assert!(counts.segment_bytes >= 500, "{counts:?}");
        assert!(tcp_counts(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn limit_unsent_is_for_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        limit_unsent(&stream, 65_536).unwrap();
        assert!(limit_unsent(UdpSocket::bind("127.0.0.1:0").unwrap(), 65_536).is_err());
    }
}
