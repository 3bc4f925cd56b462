//! Many messages in one system call, with segmentation and receive offload.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use inhaul_base::Span;
use libc::{c_int, c_void, mmsghdr, msghdr};
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
    /// All of its bytes.
    pub bytes: &'m [u8],
    /// Length of each datagram but the last, in bytes; `None`: all of it is one datagram.
    pub segment: Option<u16>,
}

/// What came in with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The peer.
    pub from: SocketAddr,
    /// Length of all its datagrams together, in bytes: what was written to the message's slices.
    pub len: usize,
    /// Length of each datagram but the last, in bytes.
    pub segment: usize,
    /// The slices were too short: the rest of the message is gone.
    pub truncated: bool,
    /// How many messages (joined datagrams count once) the kernel has dropped at this socket since it was opened;
    /// `None` before the first. Wraps.
    pub drops: Option<u32>,
    /// How long it has lain in this host since the kernel had it; zero when the kernel does not tell.
    pub waited: Span,
}

/// Room for the control messages of one message: two of one integer each, and one of a time.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 96]);

const EMPTY_CONTROL: Control = Control([0; 96]);

/// A message that has lain here for longer was not: the clock was set meanwhile.
const WAITED_MAX: Span = Span::from_secs(1);

/// A message header that points nowhere.
const fn empty_header() -> mmsghdr {
    // SAFETY: null pointers and zero lengths are legal values of all of its fields.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Sends the first messages of `messages` (at most [`MESSAGES_MAX`]), and says how many left.
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
        if let Some(segment) = message.segment {
            put_segment(&mut header.msg_hdr, controls[index].write(EMPTY_CONTROL), segment);
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

/// Asks for segments of `segment` bytes.
fn put_segment(header: &mut msghdr, control: &mut Control, segment: u16) {
    header.msg_control = ptr::from_mut(control).cast();
    // SAFETY: these only compute lengths; the first header lies in `control`, which is aligned and has room for one
    // 16-bit control message.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
        let first = libc::CMSG_FIRSTHDR(header);
        (*first).cmsg_level = libc::SOL_UDP;
        (*first).cmsg_type = libc::UDP_SEGMENT;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        ptr::write_unaligned(libc::CMSG_DATA(first).cast(), segment);
    }
}

/// Receives what has come in, without waiting. Message `m` is scattered over `slices[ends[m - 1]..ends[m]]`; what is
/// known of each that came is appended to `arrivals`.
///
/// # Errors
/// Why nothing was received; `WouldBlock` when nothing has come.
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

/// Reads what the kernel has said of one message, which was received at `now` by the clock that the kernel stamps
/// with.
fn arrival(header: &mmsghdr, name: &RawAddress, now: u64) -> Arrival {
    let len = header.msg_len as usize;
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let from = name.get().unwrap_or(unknown);
    let truncated = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let mut arrival = Arrival { from, len, segment: len, truncated, drops: None, waited: Span::ZERO };
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
                    arrival.waited = waited(&stamp, now);
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(&header.msg_hdr, at);
        }
    }
    arrival
}

/// The time from `stamp` to `now`, both of the clock that can be set.
fn waited(stamp: &libc::timespec, now: u64) -> Span {
    let at = u64::try_from(stamp.tv_sec).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    let at = at.zip(u64::try_from(stamp.tv_nsec).ok()).and_then(|(seconds, nanos)| seconds.checked_add(nanos));
    let passed = at.and_then(|at| now.checked_sub(at)).map(Span::from_nanos);
    passed.filter(|&passed| passed <= WAITED_MAX).unwrap_or(Span::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waited_is_nothing_when_the_clock_was_set() {
        let stamp = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let now = 100_000_000_000;
        assert_eq!(waited(&stamp(99, 999_000_000), now), Span::from_millis(1));
        for (seconds, nanos) in [(98, 0), (100, 1), (-1, 0), (99, -1), (i64::MAX, 0)] {
            assert_eq!(waited(&stamp(seconds, nanos), now), Span::ZERO, "{seconds} {nanos}");
        }
    }
}
