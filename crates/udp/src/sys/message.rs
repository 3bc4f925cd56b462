//! Many messages in one system call, with segmentation and receive offload.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use inhaul_base::Span;
use libc::{c_int, c_void, cmsghdr, in_pktinfo, in6_pktinfo, mmsghdr, msghdr};
use rustix::time::{ClockId, clock_gettime};

use super::address::RawAddress;
use crate::clock::nanos;

/// Most messages that one call sends or receives.
pub const MESSAGES_MAX: usize = 64;

/// A message to send, to be cut into datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'m> {
    /// The peer; `None` when the socket is connected to it. An IPv6 socket wants an IPv6 address.
    pub to: Option<SocketAddr>,
    /// The source address on this host, of the peer's family. `None`: the kernel's choice.
    pub from: Option<IpAddr>,
    /// All of its bytes.
    pub bytes: &'m [u8],
    /// Length of each datagram but the last, in bytes; `None`: it is one datagram.
    pub segment: Option<u16>,
    /// Queues may mark its datagrams instead of dropping them (ECT(0), RFC 3168 section 5).
    pub reads_marks: bool,
    /// The peer is reached over IPv6.
    pub v6: bool,
}

impl Outgoing<'_> {
    /// The same, from this source address: a host with several addresses answers from the one that was asked.
    #[must_use]
    pub const fn leaving_from(self, from: Option<IpAddr>) -> Self {
        Self { from, ..self }
    }

    /// The same, and queues may mark it.
    #[must_use]
    pub const fn reading_marks(self, reads_marks: bool) -> Self {
        Self { reads_marks, ..self }
    }

    /// The source address, if the kernel has to be told. A connected socket has only one.
    fn source(&self) -> Option<IpAddr> {
        self.from.filter(|from| self.to.is_some_and(|to| to.ip().to_canonical().is_ipv4() == from.is_ipv4()))
    }
}

/// The description of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The peer.
    pub from: SocketAddr,
    /// The address of this host that it was sent to, if the socket takes datagrams to any: answers leave from there,
    /// because the peer knows no other. IPv4 written plainly.
    pub to: Option<IpAddr>,
    /// Length of all its datagrams together, in bytes, as written to the message's slices.
    pub len: usize,
    /// Length of each datagram but the last, in bytes.
    pub segment: usize,
    /// The slices were too short, and the rest of the message is lost.
    pub truncated: bool,
    /// How many messages (joined datagrams count once) the kernel has dropped at this socket since it was opened;
    /// `None` before the first. Wraps.
    pub drops: Option<u32>,
    /// How long it has waited in this host since the kernel received it; zero if the kernel does not tell.
    pub waited: Span,
    /// A queue on its way has marked it (CE, RFC 3168 section 5). The kernel joins no datagrams of different marks.
    pub congested: bool,
}

/// The two bits of ECN in the byte that was the type of service, and in the traffic class (RFC 3168 section 5).
const ECN_MASK: u8 = 0b11;
const ECT_0: c_int = 0b10;
const CE: u8 = 0b11;

/// Bytes of room for one message's control messages: four of one integer each, one of a time, one of an address. Twice
/// that, because the maker of an adopted socket may have asked for more.
const CONTROL_BYTES: usize = 256;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

const EMPTY_CONTROL: Control = Control([0; CONTROL_BYTES]);

/// A longer wait is not believed: the clock was set meanwhile.
const WAITED_MAX: Span = Span::from_secs(1);

/// A message header without pointers.
const fn empty_header() -> mmsghdr {
    // SAFETY: null pointers and zero lengths are legal values of all of its fields.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Sends the first messages of `messages` (at most [`MESSAGES_MAX`]); returns how many were sent.
///
/// # Errors
/// Why the first of them could not be sent.
pub(crate) fn send<'m>(fd: BorrowedFd<'_>, messages: impl Iterator<Item = Outgoing<'m>>) -> io::Result<usize> {
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; MESSAGES_MAX];
    let mut names = [const { MaybeUninit::<RawAddress>::uninit() }; MESSAGES_MAX];
    let mut slices = [const { MaybeUninit::<IoSlice<'m>>::uninit() }; MESSAGES_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; MESSAGES_MAX];
    let mut count = 0;
    for (index, message) in messages.take(MESSAGES_MAX).enumerate() {
        let header = headers[index].write(empty_header());
        if let Some(to) = message.to {
            let (name, len) = RawAddress::new(to);
            header.msg_hdr.msg_name = ptr::from_mut(names[index].write(name)).cast();
            header.msg_hdr.msg_namelen = len;
        }
        // `IoSlice` is documented to have the layout of `iovec`.
        header.msg_hdr.msg_iov = ptr::from_mut(slices[index].write(IoSlice::new(message.bytes))).cast();
        header.msg_hdr.msg_iovlen = 1;
        let source = message.source();
        if source.is_some() || message.segment.is_some() || message.reads_marks {
            let control = controls[index].write(EMPTY_CONTROL);
            put_source(&mut header.msg_hdr, control, source);
            if message.reads_marks {
                put_marks(&mut header.msg_hdr, control, message.v6);
            }
            if let Some(segment) = message.segment {
                put(&mut header.msg_hdr, control, (libc::SOL_UDP, libc::UDP_SEGMENT), segment);
            }
        }
        count = index + 1;
    }
    let headers = headers.as_mut_ptr();
    // The kernel's own: musl's function of that name makes a call for each message.
    // SAFETY: the first `count` headers are initialized, musl's fillers too, which are fields of theirs; they point to
    // names, slices and control bytes that outlive the call; the kernel only reads them.
    let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, fd.as_raw_fd(), headers, count as u32, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sets the message's source address. Its route, and so the interface, stays the kernel's choice. The peer's zone
/// decides it for a link-local address.
fn put_source(header: &mut msghdr, control: &mut Control, source: Option<IpAddr>) {
    match source {
        // On an IPv6 socket, too: its IPv4 half sends to IPv4 peers.
        Some(IpAddr::V4(ip)) => {
            let ipi_spec_dst = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let info = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: libc::in_addr { s_addr: 0 } };
            put(header, control, (libc::IPPROTO_IP, libc::IP_PKTINFO), info);
        }
        Some(IpAddr::V6(ip)) => {
            let info = in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
            put(header, control, (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), info);
        }
        None => {}
    }
}

/// Allows queues to mark the message instead of dropping it.
fn put_marks(header: &mut msghdr, control: &mut Control, v6: bool) {
    // As with the source: an IPv6 socket's IPv4 half sends to IPv4 peers.
    let name = if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    put(header, control, name, ECT_0);
}

/// Appends a control message to those of `header`, which lie in `control`. One that does not fit is left out; no
/// message has that many.
fn put<T: Copy>(header: &mut msghdr, control: &mut Control, (level, kind): (c_int, c_int), value: T) {
    let at = header.msg_controllen;
    let bytes = size_of::<T>() as u32;
    // SAFETY: these only compute lengths.
    let (len, space) = unsafe { (libc::CMSG_LEN(bytes), libc::CMSG_SPACE(bytes) as usize) };
    if at + space > CONTROL_BYTES {
        return;
    }
    let memory = ptr::from_mut(control).cast::<u8>();
    header.msg_control = memory.cast();
    header.msg_controllen = (at + space) as _;
    // SAFETY: the control message lies in `control` whole, as was checked. `control` is aligned, and `at` is a sum of
    // lengths that CMSG_SPACE has rounded up.
    unsafe {
        let message = memory.add(at).cast::<cmsghdr>();
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = len as _;
        ptr::write_unaligned(libc::CMSG_DATA(message).cast(), value);
    }
}

/// Receives messages without waiting. Message `m` is scattered over `slices[ends[m - 1]..ends[m]]`, and its description
/// is appended to `arrivals`.
///
/// Why nothing was received; `WouldBlock` without a message.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    slices: &mut [IoSliceMut<'_>],
    ends: &[usize],
    arrivals: &mut Vec<Arrival>,
) -> io::Result<()> {
    let mut headers = [const { MaybeUninit::<mmsghdr>::uninit() }; MESSAGES_MAX];
    let mut names = [const { MaybeUninit::<RawAddress>::uninit() }; MESSAGES_MAX];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; MESSAGES_MAX];
    let count = ends.len().min(MESSAGES_MAX);
    let mut rest = slices;
    let mut start = 0;
    for (index, &end) in ends[..count].iter().enumerate() {
        let len = end.saturating_sub(start).min(rest.len());
        start = end;
        let (own, after) = rest.split_at_mut(len);
        rest = after;
        let header = headers[index].write(empty_header());
        header.msg_hdr.msg_name = ptr::from_mut(names[index].write(RawAddress::empty())).cast();
        header.msg_hdr.msg_namelen = RawAddress::LEN;
        // `IoSliceMut` is documented to have the layout of `iovec`.
        header.msg_hdr.msg_iov = own.as_mut_ptr().cast();
        header.msg_hdr.msg_iovlen = own.len() as _;
        header.msg_hdr.msg_control = ptr::from_mut(controls[index].write(EMPTY_CONTROL)).cast::<c_void>();
        header.msg_hdr.msg_controllen = size_of::<Control>() as _;
    }
    let headers = headers.as_mut_ptr().cast::<mmsghdr>();
    // SAFETY: the first `count` headers are initialized and point to names, slices and control bytes that are borrowed
    // mutably for the whole call, with their true lengths.
    let received =
        unsafe { libc::recvmmsg(fd.as_raw_fd(), headers, count as u32, libc::MSG_DONTWAIT as _, ptr::null_mut()) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let now = nanos(clock_gettime(ClockId::Realtime));
    for (index, name) in names.iter().enumerate().take(received.min(count)) {
        // SAFETY: `index` is below `count`: the header and the name were initialized above, and the kernel has only
        // overwritten them.
        let (header, name) = unsafe { (&*headers.add(index), name.assume_init_ref()) };
        arrivals.push(arrival(header, name, now));
    }
    Ok(())
}

/// Reads the kernel's description of one message, received at `now` by the clock of the kernel's stamps.
fn arrival(header: &mmsghdr, name: &RawAddress, now: u64) -> Arrival {
    let len = header.msg_len as usize;
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let from = name.get().unwrap_or(unknown);
    let truncated = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let waited = Span::ZERO;
    let mut arrival = Arrival { from, to: None, len, segment: len, truncated, drops: None, waited, congested: false };
    // SAFETY: the header is as the kernel left it: its control pointer and length describe whole control messages in a
    // buffer that the caller still holds; the walk stays inside it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(&header.msg_hdr);
        while !at.is_null() {
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment = ptr::read_unaligned(libc::CMSG_DATA(at).cast::<c_int>());
                    // A segment cannot be longer than the whole; zero would be no segment.
                    arrival.segment = usize::try_from(segment).ok().filter(|&s| s > 0).unwrap_or(len).min(len);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    arrival.drops = Some(ptr::read_unaligned(libc::CMSG_DATA(at).cast::<u32>()));
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = ptr::read_unaligned(libc::CMSG_DATA(at).cast::<libc::timespec>());
                    arrival.waited = waited_since(&stamp, now);
                }
                // One byte with IPv4, an integer with IPv6 (ip(7), RFC 3542 section 6.5).
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    arrival.congested = *libc::CMSG_DATA(at) & ECN_MASK == CE;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = ptr::read_unaligned(libc::CMSG_DATA(at).cast::<c_int>());
                    arrival.congested = class as u8 & ECN_MASK == CE;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = ptr::read_unaligned(libc::CMSG_DATA(at).cast::<in_pktinfo>());
                    // The header may have a broadcast address; this is the host's own.
                    arrival.to = own(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = ptr::read_unaligned(libc::CMSG_DATA(at).cast::<in6_pktinfo>());
                    arrival.to = own(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&header.msg_hdr, at);
        }
    }
    arrival
}

/// The address, written plainly, if it can be a source address.
fn own(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    (!address.is_unspecified() && !address.is_multicast()).then_some(address)
}

/// The time from `stamp` to `now`, both of the clock that can be set.
fn waited_since(stamp: &libc::timespec, now: u64) -> Span {
    let at = u64::try_from(stamp.tv_sec).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let at = at.zip(u64::try_from(stamp.tv_nsec).ok()).and_then(|(seconds, nanos)| seconds.checked_add(nanos));
    let passed = at.and_then(|at| now.checked_sub(at)).map(Span::from_nanos);
    passed.filter(|&passed| passed <= WAITED_MAX).unwrap_or(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_can_be_answered_from_are_told() {
        let told = |text: &str| own(text.parse().unwrap());
        assert_eq!(told("::ffff:192.0.2.1"), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(told("fe80::1"), Some("fe80::1".parse().unwrap()));
        assert_eq!([told("0.0.0.0"), told("::"), told("ff02::1"), told("224.0.0.1")], [None; 4]);
    }

    #[test]
    fn control_messages_stand_one_behind_the_other_and_never_beyond_their_room() {
        let (mut header, mut control) = (empty_header().msg_hdr, EMPTY_CONTROL);
        put_source(&mut header, &mut control, Some("2001:db8::1".parse().unwrap()));
        put_marks(&mut header, &mut control, true);
        put_marks(&mut header, &mut control, false);
        put(&mut header, &mut control, (libc::SOL_UDP, libc::UDP_SEGMENT), 1400u16);
        let mut kinds = Vec::new();
        // SAFETY: the header's control messages lie in `control`, which lives on.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&raw const header);
            while !at.is_null() {
                kinds.push(((*at).cmsg_level, (*at).cmsg_type));
                at = libc::CMSG_NXTHDR(&raw const header, at);
            }
        }
        let expected = [
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::SOL_UDP, libc::UDP_SEGMENT),
        ];
        assert_eq!(kinds, expected);
        for _ in 0..100 {
            put(&mut header, &mut control, (libc::SOL_UDP, libc::UDP_SEGMENT), 1400u16);
        }
        assert!(header.msg_controllen <= CONTROL_BYTES);
    }

    #[test]
    fn waited_is_nothing_when_the_clock_was_set() {
        let stamp = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let now = 100_000_000_000;
        assert_eq!(waited_since(&stamp(99, 999_000_000), now), Span::from_millis(1));
        for (seconds, nanos) in [(98, 0), (100, 1), (-1, 0), (99, -1), (i64::MAX, 0)] {
            assert_eq!(waited_since(&stamp(seconds, nanos), now), Span::ZERO, "{seconds} {nanos}");
        }
    }
}
