//! The TCP sockets of this network namespace, from the kernel (NETLINK_SOCK_DIAG, `INET_DIAG_INFO`). No rights are
//! needed. The layouts are those of `linux/inet_diag.h` and `linux/tcp.h`, which only ever grow.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// Length of a message's header, `struct nlmsghdr`, and of `struct inet_diag_msg`.
const HEADER_LEN: usize = 16;
const SOCKET_LEN: usize = 72;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 1 | 0x300;
const INET_DIAG_INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// Established, and those that have closed their own side and still receive (FIN_WAIT1 and FIN_WAIT2).
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Offsets of the fields in `struct tcp_info`.
const RCV_MSS_AT: usize = 20;
const BYTES_RECEIVED_AT: usize = 128;
/// The kernel writes at most this much of a dump at a time.
const BUFFER: usize = 32 * 1024;
/// Most messages of a dump to read. Each has at least one socket, or ends the dump.
const MESSAGES_MAX: usize = 4_096;

/// A socket of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpSocket {
    /// The kernel's cookie, which no other socket ever has.
    pub(super) cookie: u64,
    pub(super) peer: IpAddr,
    /// The peer is this host.
    pub(super) is_local: bool,
    /// Bytes of data received in order.
    pub(super) received: u64,
    /// Bytes of data in a received segment.
    pub(super) segment: u32,
}

/// Reads lists of sockets.
#[derive(Debug)]
pub(super) struct SockDiag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The state of a dump after some of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dump {
    More,
    Done,
}

impl SockDiag {
    /// When the kernel, or a system call filter, refuses.
    pub(super) fn open() -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
        Ok(Self { socket, buffer: vec![0; BUFFER] })
    }

    /// Shows at most `most` sockets to `see`. Returns whether those were all. If not, or after an error, do not use
    /// this again: the rest of the dump would be taken for the next one.
    ///
    /// When the kernel refuses, or its answer is not understood.
    pub(super) fn sockets(&mut self, most: usize, see: &mut dyn FnMut(TcpSocket)) -> io::Result<bool> {
        let mut left = most.min(MESSAGES_MAX);
        for family in [AF_INET, AF_INET6] {
            send(&self.socket, &request(family), SendFlags::empty())?;
            while self.read(&mut left, see)? == Dump::More {
                if left == 0 {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn read(&mut self, left: &mut usize, see: &mut dyn FnMut(TcpSocket)) -> io::Result<Dump> {
        // The next part of a dump is ready at once, so this does not block.
        let (len, _) = recv(&self.socket, &mut self.buffer, RecvFlags::DONTWAIT)?;
        messages(self.buffer.get(..len).unwrap_or_default(), left, see)
    }
}

/// SOCK_DIAG_BY_FAMILY with `struct inet_diag_req_v2`: all TCP sockets in [`STATES`], with their `tcp_info`.
fn request(family: u8) -> [u8; 72] {
    let mut bytes = [0; 72];
    bytes[..4].copy_from_slice(&72u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    // The extensions are a mask whose first bit is extension 1.
    bytes[16..19].copy_from_slice(&[family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1)]);
    bytes[20..24].copy_from_slice(&STATES.to_ne_bytes());
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Takes the messages in `bytes`, at most `left` of them. Unknown ones are skipped.
fn messages(mut bytes: &[u8], left: &mut usize, see: &mut dyn FnMut(TcpSocket)) -> io::Result<Dump> {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        if *left == 0 {
            break;
        }
        *left -= 1;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let message = bytes.get(HEADER_LEN..len).ok_or_else(not_understood)?;
        match kind {
            NLMSG_DONE => return Ok(Dump::Done),
            NLMSG_ERROR => {
                let error = u32_at(message, 0).ok_or_else(not_understood)?.cast_signed();
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            SOCK_DIAG_BY_FAMILY => tcp_socket(message).into_iter().for_each(&mut *see),
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Dump::More)
}

fn not_understood() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's list of sockets is not understood")
}

/// A socket, from `struct inet_diag_msg` and the attributes behind it.
fn tcp_socket(message: &[u8]) -> Option<TcpSocket> {
    let family = *message.first()?;
    let (source, peer) = (address(family, message.get(8..24)?)?, address(family, message.get(24..40)?)?);
    let cookie = u64::from(u32_at(message, 44)?) | u64::from(u32_at(message, 48)?) << 32;
    let info = attribute(message.get(SOCKET_LEN..)?, INET_DIAG_INFO)?;
    Some(TcpSocket {
        cookie,
        peer,
        is_local: peer == source || peer.is_loopback(),
        received: u64_at(info, BYTES_RECEIVED_AT)?,
        segment: u32_at(info, RCV_MSS_AT)?,
    })
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

/// The attribute of that kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let body = bytes.get(4..len)?;
        if kind == wanted {
            return Some(body);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// A message about a socket that has received `received` bytes.
    fn message(received: u64) -> Vec<u8> {
        let mut info = vec![0u8; BYTES_RECEIVED_AT + 8];
        info[RCV_MSS_AT..][..4].copy_from_slice(&1_448u32.to_ne_bytes());
        info[BYTES_RECEIVED_AT..].copy_from_slice(&received.to_ne_bytes());
        let mut socket = vec![0u8; SOCKET_LEN];
        socket[0] = AF_INET;
        socket[8..12].copy_from_slice(&[192, 0, 2, 1]);
        socket[24..28].copy_from_slice(&[192, 0, 2, 2]);
        socket[44] = 7;
        let len = (HEADER_LEN + SOCKET_LEN + 4 + info.len()) as u32;
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(&socket);
        bytes.extend_from_slice(&(info.len() as u16 + 4).to_ne_bytes());
        bytes.extend_from_slice(&INET_DIAG_INFO.to_ne_bytes());
        bytes.extend_from_slice(&info);
        bytes
    }

    fn read(bytes: &[u8], mut left: usize) -> (io::Result<Dump>, Vec<TcpSocket>) {
        let mut seen = Vec::new();
        (messages(bytes, &mut left, &mut |socket| seen.push(socket)), seen)
    }

    #[test]
    fn messages_are_read_up_to_the_last_and_no_more_than_may_be() {
        let mut bytes = [message(5), message(6)].concat();
        let (dump, seen) = read(&bytes, 10);
        assert_eq!((dump.unwrap(), seen.len()), (Dump::More, 2));
        let peer = IpAddr::from([192, 0, 2, 2]);
        let first = TcpSocket { cookie: 7, peer, is_local: false, received: 5, segment: 1_448 };
        assert_eq!(seen[0], first);
        assert_eq!(read(&bytes, 1).1.len(), 1);
        let done = [&20u32.to_ne_bytes()[..], &NLMSG_DONE.to_ne_bytes(), &[0; 14]].concat();
        bytes.extend_from_slice(&done);
        assert_eq!(read(&bytes, 10).0.unwrap(), Dump::Done);
    }

    #[test]
    fn messages_that_refuse_are_errors() {
        let no = (-libc::EPERM).to_ne_bytes();
        let refusal = [&20u32.to_ne_bytes()[..], &NLMSG_ERROR.to_ne_bytes(), &[0; 10], &no].concat();
        assert_eq!(read(&refusal, 10).0.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(read(&message(5)[..40], 10).0.is_err(), "cut off");
    }

    proptest! {
        #[test]
        fn messages_may_be_anything(
            mut bytes in prop::collection::vec(any::<u8>(), 0..600),
            cuts in prop::collection::vec((0usize..240, any::<u8>()), 0..8),
        ) {
            let _ = read(&bytes, 100);
            // One that is nearly right.
            bytes = message(5);
            for (at, byte) in cuts {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let (_, seen) = read(&bytes, 100);
            prop_assert!(seen.len() <= 100);
        }
    }

    #[test]
    fn sockets_of_this_host_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        stream.write_all(&[0; 12_345]).unwrap();
        let mut byte = [0; 12_345];
        (&accepted).read_exact(&mut byte).unwrap();
        let Ok(mut diag) = SockDiag::open() else { return eprintln!("skipped: no netlink here") };
        let mut seen = Vec::new();
        match diag.sockets(4_096, &mut |socket| seen.push(socket)) {
            Ok(true) => assert!(seen.iter().any(|socket| socket.received >= 12_345 && socket.is_local), "{seen:?}"),
            Ok(false) => eprintln!("skipped: too many sockets here"),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
