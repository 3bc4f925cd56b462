//! From a batch of transmissions to the network.

use std::io;
use std::net::SocketAddr;

use inhaul_base::ByteRange;
use inhaul_transport::{FlowId, TxBatch, TxDatagram};
use rustix::io::Errno;

use crate::socket::Socket;
use crate::sys::{IoVecs, MESSAGES_MAX, Outgoing};

/// Most bytes that one message carries: what fits an IPv4 packet behind IP and UDP headers.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// Most datagrams that the kernel cuts a message into (`UDP_MAX_SEGMENTS`; 128 since Linux 6.11).
pub const SEGMENTS_MAX: usize = 64;

/// Most pieces that the kernel gathers a message from (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// What padding is made of: as much as a datagram can ask for.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Where the bodies of datagrams come from: memory ([`IoVecs::push`]) or mapped files ([`crate::MappedFile::read`]).
pub trait BodySource {
    /// Appends the bytes `range` of the flow's object to `out`, in as many pieces as it takes. They are read by the kernel
    /// some time before the send call returns.
    ///
    /// # Errors
    /// When the bytes cannot be had. What was appended until then is ignored.
    fn body<'a>(&'a self, flow: FlowId, range: ByteRange, out: &mut IoVecs<'a>) -> io::Result<()>;
}

/// Why datagrams of a flow could not be sent. The other flows of the batch are not concerned: call
/// [`Transmitter::transmit`] again to go on behind the datagrams that failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The source of the flow's object did not give the bytes.
    #[error("the data to send could not be read: {source}")]
    Body {
        /// The flow.
        flow: FlowId,
        /// What the source said.
        source: io::Error,
    },
    /// The source gave more or fewer bytes than it was asked for, or in too many pieces.
    #[error("the source gave {got} bytes in {pieces} pieces for a datagram's body of {wanted} bytes")]
    WrongBody {
        /// The flow.
        flow: FlowId,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes given.
        got: usize,
        /// Pieces given.
        pieces: usize,
    },
    /// The kernel found the source's memory unreadable: a mapped file has become shorter.
    #[error("a file became shorter while it was being sent; send it again once nothing changes it")]
    FileTruncated {
        /// The flow.
        flow: FlowId,
    },
    /// The datagram is larger than the local interface takes.
    #[error("datagrams of {bytes} bytes are too large for the way to {peer}: use a smaller MTU")]
    TooLarge {
        /// The flow.
        flow: FlowId,
        /// The peer.
        peer: SocketAddr,
        /// Length of the datagram, in bytes.
        bytes: usize,
    },
    /// The kernel refused: no route, no permission, and the like.
    #[error("nothing can be sent to {peer}: {source}")]
    Network {
        /// The flow.
        flow: FlowId,
        /// The peer.
        peer: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SendError {
    /// The flow whose datagrams failed.
    pub const fn flow(&self) -> FlowId {
        match self {
            Self::Body { flow, .. }
            | Self::WrongBody { flow, .. }
            | Self::FileTruncated { flow }
            | Self::TooLarge { flow, .. }
            | Self::Network { flow, .. } => *flow,
        }
    }
}

/// Whether the kernel cuts messages into datagrams on this socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segmentation {
    On,
    /// A segmented message was refused in a way that may mean that the interface cannot do it: the same datagrams, one by
    /// one, will tell.
    Doubted,
    Off,
}

/// Datagrams that leave as one message.
#[derive(Clone, Copy, Debug)]
struct Run {
    flow: FlowId,
    peer: SocketAddr,
    datagrams: usize,
    datagram_len: usize,
    padded: bool,
}

/// Sends batches over a socket. Keeps its memory, and its place in a batch that could not be sent whole.
pub struct Transmitter {
    segmentation: Segmentation,
    /// How many datagrams of the batch have been dealt with.
    done: usize,
    runs: Vec<Run>,
    messages: Vec<Outgoing>,
    spare: IoVecs<'static>,
}

impl Transmitter {
    /// A transmitter for `socket`.
    pub fn new(socket: &Socket) -> Self {
        let segmentation = if socket.segments() { Segmentation::On } else { Segmentation::Off };
        Self { segmentation, done: 0, runs: Vec::new(), messages: Vec::new(), spare: IoVecs::new() }
    }

    /// Whether messages are cut into datagrams by the kernel; false too once an interface has proved unable.
    pub fn segments(&self) -> bool {
        self.segmentation != Segmentation::Off
    }

    /// Sends what is left of `batch`, and clears it; or returns false when the network takes no more just now. Call it with
    /// the same batch then, as soon as the socket is writable, and again after an error: it goes on where it stopped.
    ///
    /// Datagrams that only probe the path's MTU (padded ones) may be too large: they are dropped, as the path would.
    ///
    /// # Errors
    /// Why datagrams of a flow could not be sent; those are left out.
    pub fn transmit(
        &mut self,
        socket: &Socket,
        batch: &mut TxBatch,
        source: &(impl BodySource + ?Sized),
    ) -> Result<bool, SendError> {
        loop {
            let mut pieces = std::mem::take(&mut self.spare).recycle();
            let gathered = self.gather(socket, batch, source, &mut pieces);
            let sent = match gathered {
                Ok(()) if self.runs.is_empty() => None,
                Ok(()) => Some(socket.send(&self.messages, &pieces)),
                Err(_) => None,
            };
            self.spare = pieces.recycle();
            gathered?;
            match sent {
                None => {
                    batch.clear();
                    self.done = 0;
                    return Ok(true);
                }
                Some(Ok(count)) => self.advance(count),
                Some(Err(error)) => {
                    if self.is_blocked_by(&error)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Makes messages of the datagrams that are left, as many as one call sends. A body that cannot be had ends them; it is
    /// an error, and skipped, only once it is the first.
    fn gather<'a>(
        &mut self,
        socket: &Socket,
        batch: &'a TxBatch,
        source: &'a (impl BodySource + ?Sized),
        pieces: &mut IoVecs<'a>,
    ) -> Result<(), SendError> {
        self.runs.clear();
        self.messages.clear();
        let mut skip = self.done;
        for transmit in batch.transmits() {
            let mut rest = &transmit.datagrams[skip.min(transmit.datagrams.len())..];
            skip -= transmit.datagrams.len() - rest.len();
            while let Some(first) = rest.first() {
                if self.runs.len() == MESSAGES_MAX {
                    return Ok(());
                }
                let start = pieces.len();
                let limit = if self.segmentation == Segmentation::On { run_length(rest) } else { 1 };
                let taken = match gather_run(batch, transmit.flow, &rest[..limit], source, pieces) {
                    Ok(taken) => taken,
                    Err(_) if !self.runs.is_empty() => return Ok(()),
                    Err(error) => {
                        self.done += 1;
                        return Err(error);
                    }
                };
                // One datagram needs no cutting; and not asking for it leaves paths alone that cannot do it.
                let segment = if taken > 1 { u16::try_from(first.len()).ok() } else { None };
                self.messages.push(socket.outgoing(transmit.to, start..pieces.len(), segment));
                self.runs.push(Run {
                    flow: transmit.flow,
                    peer: transmit.to,
                    datagrams: taken,
                    datagram_len: first.len(),
                    padded: first.pad > 0,
                });
                rest = &rest[taken..];
            }
        }
        Ok(())
    }

    /// The first `count` messages have left.
    fn advance(&mut self, count: usize) {
        self.done += self.runs[..count].iter().map(|run| run.datagrams).sum::<usize>();
        if self.segmentation == Segmentation::Doubted && count > 0 {
            self.segmentation = Segmentation::Off;
        }
    }

    /// Deals with the failure of the first message: true when the caller must wait, false when it may go on at once.
    fn is_blocked_by(&mut self, error: &io::Error) -> Result<bool, SendError> {
        let (run, segmented) = (self.runs[0], self.messages[0].segment.is_some());
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        match errno {
            Errno::AGAIN | Errno::NOBUFS => return Ok(true),
            // ICMP reports of earlier datagrams: taken from the socket by reading them, so the next try is another one.
            Errno::INTR | Errno::CONNREFUSED => return Ok(false),
            Errno::IO | Errno::INVAL if segmented => {
                self.segmentation = Segmentation::Doubted;
                return Ok(false);
            }
            _ => {}
        }
        self.done += run.datagrams;
        if self.segmentation == Segmentation::Doubted {
            // One datagram alone fails just so: the kernel's cutting is not to blame.
            self.segmentation = Segmentation::On;
        }
        let Run { flow, peer, datagram_len: bytes, padded, .. } = run;
        match errno {
            Errno::MSGSIZE if padded => Ok(false),
            Errno::MSGSIZE => Err(SendError::TooLarge { flow, peer, bytes }),
            Errno::FAULT => Err(SendError::FileTruncated { flow }),
            _ => Err(SendError::Network { flow, peer, source: errno.into() }),
        }
    }
}

/// How many of the first datagrams can leave as one message: equal in length, the last may be shorter.
fn run_length(datagrams: &[TxDatagram]) -> usize {
    let len = datagrams[0].len();
    let padded = datagrams[0].pad > 0;
    if len == 0 {
        return 1;
    }
    let max = (MESSAGE_BYTES_MAX / len).clamp(1, SEGMENTS_MAX);
    let alike = |d: &TxDatagram| (d.pad > 0) == padded;
    let mut count = datagrams.iter().take(max).take_while(|d| d.len() == len && alike(d)).count();
    if count < max && datagrams.get(count).is_some_and(|d| !d.is_empty() && d.len() < len && alike(d)) {
        count += 1;
    }
    count
}

/// Appends the first of `run` to `pieces`, as many as the kernel takes in one message, and says how many: at least one.
fn gather_run<'a>(
    batch: &'a TxBatch,
    flow: FlowId,
    run: &'a [TxDatagram],
    source: &'a (impl BodySource + ?Sized),
    pieces: &mut IoVecs<'a>,
) -> Result<usize, SendError> {
    if gather_straight(batch, flow, run, source, pieces) {
        return Ok(run.len());
    }
    let start = pieces.len();
    for (index, datagram) in run.iter().enumerate() {
        let before = pieces.len();
        let result = gather_datagram(batch, flow, datagram, source, pieces);
        let fits = pieces.len() - start <= PIECES_MAX;
        if result.is_ok() && fits {
            continue;
        }
        let count = pieces.len() - before;
        pieces.truncate(before);
        if index > 0 {
            return Ok(index);
        }
        result?;
        let wanted = datagram.body.len();
        return Err(SendError::WrongBody { flow, wanted, got: wanted as usize, pieces: count });
    }
    Ok(run.len())
}

/// The common case in one go: bodies that follow each other in the object and that the source has in one piece. False, and
/// nothing is appended, when it is another case.
fn gather_straight<'a>(
    batch: &'a TxBatch,
    flow: FlowId,
    run: &'a [TxDatagram],
    source: &'a (impl BodySource + ?Sized),
    pieces: &mut IoVecs<'a>,
) -> bool {
    let [first, .., last] = run else { return false };
    let whole = ByteRange::new(first.body.start, last.body.end);
    let follow = run.windows(2).all(|pair| pair[0].body.end == pair[1].body.start && !pair[0].body.is_empty());
    if !follow || last.body.is_empty() || run.iter().any(|d| d.pad > 0) || 2 * run.len() > PIECES_MAX {
        return false;
    }
    let mut bodies = IoVecs::new();
    let got = source.body(flow, whole, &mut bodies);
    if got.is_err() || bodies.len() != 1 || bodies.bytes() as u64 != whole.len() {
        return false;
    }
    for datagram in run {
        pieces.push(batch.head(datagram));
        pieces.push_part(&bodies, (datagram.body.start - whole.start) as usize, datagram.body.len() as usize);
    }
    true
}

/// Appends a datagram to `pieces`: head, body, zeros.
fn gather_datagram<'a>(
    batch: &'a TxBatch,
    flow: FlowId,
    datagram: &'a TxDatagram,
    source: &'a (impl BodySource + ?Sized),
    pieces: &mut IoVecs<'a>,
) -> Result<(), SendError> {
    pieces.push(batch.head(datagram));
    if !datagram.body.is_empty() {
        let (bytes, count) = (pieces.bytes(), pieces.len());
        source.body(flow, datagram.body, pieces).map_err(|source| SendError::Body { flow, source })?;
        let got = pieces.bytes() - bytes;
        if got as u64 != datagram.body.len() {
            let wanted = datagram.body.len();
            return Err(SendError::WrongBody { flow, wanted, got, pieces: pieces.len() - count });
        }
    }
    pieces.push(&ZEROS[..usize::from(datagram.pad)]);
    Ok(())
}

#[cfg(test)]
mod tests;
