//! The header of all packets.

/// Bytes of the header of every packet.
pub const HEADER_LEN: usize = 16;

/// Bytes of IPv4 and UDP headers. UDT counts them into the MSS, and counts so for IPv6 too.
pub const IP_UDP_LEN: usize = 28;

/// Bytes by which IPv6's header is longer than IPv4's.
pub const IPV6_EXTRA_LEN: usize = 20;

/// Most bytes that a data packet carries if packets have `mss` bytes, headers of IP, UDP and UDT included.
pub const fn payload_len(mss: u16) -> usize {
    (mss as usize).saturating_sub(IP_UDP_LEN + HEADER_LEN)
}

/// The socket id of one end of a connection: the other end writes it into each packet for this end. Never 0: that means
/// a port without a connection with the sender. libudt sees it as a signed number and takes only positive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId(u32);

impl SocketId {
    /// The id `n`, unless libudt would reject it.
    pub const fn new(n: u32) -> Option<Self> {
        if n == 0 || n > i32::MAX as u32 { None } else { Some(Self(n)) }
    }

    /// The id as it stands in a header.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Why bytes are no packet of UDT 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Shorter than a header, or than its type requires.
    #[error("the packet is cut short")]
    Short,
    /// A control type that UDT 4 does not have.
    #[error("control packets have no type {0}")]
    Type(u16),
    /// A field has a value that it cannot have.
    #[error("the field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// Fields of every header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was sent: microseconds since the sender's end of the connection was made, modulo 2^32.
    pub timestamp: u32,
    /// The end that it is for. `None` is 0 on the wire: a request to a port that has no socket id for the sender yet.
    pub destination: Option<SocketId>,
}

/// The first bit of a control packet.
pub(super) const CONTROL: u32 = 1 << 31;

pub(super) fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

pub(super) fn put_header(out: &mut Vec<u8>, first: u32, second: u32, stamp: Stamp) {
    let words = [first, second, stamp.timestamp, stamp.destination.map_or(0, SocketId::get)];
    let mut header = [0; HEADER_LEN];
    for (bytes, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    out.extend_from_slice(&header);
}
