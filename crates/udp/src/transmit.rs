//! From a batch of transmissions to the network.

mod staged;
#[cfg(test)]
mod tests;

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use inhaul_base::ByteRange;
use inhaul_transport::kit::Connections;
use inhaul_transport::{FlowId, Transmit, TxBatch};
use rustix::io::Errno;

use crate::datagrams::DatagramSocket;
use crate::seal::Seals;
use staged::{Run, Staged};

/// Most bytes that one message carries: what fits an IPv4 packet behind IP and UDP headers.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// Most datagrams that the kernel cuts a message into (`UDP_MAX_SEGMENTS`; 128 since Linux 6.11).
pub const SEGMENTS_MAX: usize = 64;

/// Where the bodies of datagrams come from.
pub trait BodySource {
    /// Fills `bodies`, one behind the other, with the bytes of the flow's object from `offset` on.
    ///
    /// # Errors
    /// When not all of the bytes can be had. What was written until then is ignored.
    fn read(&mut self, flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()>;

    /// These bytes of the flow's object, if they lie in memory in one piece: a sealed flow seals them from there, so
    /// they are not copied first. They must not change meanwhile, so a mapped file is no such memory.
    fn lend(&self, flow: FlowId, range: ByteRange) -> Option<&[u8]> {
        let (_, _) = (flow, range);
        None
    }
}

/// How far a [`Transmitter`] has got with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// All of it has left.
    All,
    /// The socket's buffer is full (EAGAIN): go on when the socket is writable.
    Full,
    /// The system has no memory for more just now (ENOBUFS): go on a little later. The socket may count as writable
    /// all the while, so that is not to be waited for.
    NoMemory,
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
    /// Datagrams are larger than the local interface takes (any more). They are lost, as on a path that takes no more.
    #[error("datagrams of {bytes} bytes are too large for the interface to {peer}")]
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
            Self::Body { flow, .. } | Self::TooLarge { flow, .. } | Self::Network { flow, .. } => *flow,
        }
    }
}

/// Whether the kernel cuts messages into datagrams on this socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segmentation {
    On,
    /// A segmented message was refused in a way that may mean that the interface cannot do it: the same datagrams, one
    /// by one, will tell.
    Doubted,
    Off,
}

/// Sends batches over a socket. Keeps its memory, and its place in a batch that could not be sent whole.
pub struct Transmitter {
    segmentation: Segmentation,
    /// How many datagrams of the batch have been dealt with: have left, or failed.
    done: usize,
    /// How often in a row the next message was said to be too large.
    called_too_large: u8,
    /// What comes next.
    staged: Staged,
}

/// So often in a row a message has to be called too large before that is believed. An ICMP message, which anybody can
/// forge, makes one call fail; an interface makes all of them fail.
const TOO_LARGE_BELIEVED: u8 = 4;

impl Transmitter {
    /// A transmitter for `socket`.
    pub fn new(socket: &impl DatagramSocket) -> Self {
        let segmentation = if socket.segments() { Segmentation::On } else { Segmentation::Off };
        Self { segmentation, done: 0, called_too_large: 0, staged: Staged::default() }
    }

    /// Whether messages are cut into datagrams by the kernel; false too once an interface has proved unable.
    pub fn segments(&self) -> bool {
        self.segmentation != Segmentation::Off
    }

    /// Forgets its place: what comes next is another batch.
    pub fn restart(&mut self) {
        self.done = 0;
        self.staged.clear();
    }

    /// Sends what is left of `batch`, and clears it; or says why the network takes no more just now. Call it with the
    /// same batch then, as soon as that has changed, and again after an error: it goes on where it stopped.
    ///
    /// Each datagram gets its envelope here, with a number from `connections` that it keeps, and is sealed if `seals`
    /// has keys of its flow. What is left of a flow that is forgotten is dropped: its keys are gone.
    ///
    /// Datagrams that only probe the path's MTU (padded ones) may be too large: they are dropped, as the path would.
    ///
    /// # Errors
    /// Why datagrams of a flow could not be sent; those are left out.
    pub fn transmit(
        &mut self,
        socket: &impl DatagramSocket,
        batch: &mut TxBatch,
        connections: &mut Connections,
        seals: &mut Seals,
        source: &mut (impl BodySource + ?Sized),
    ) -> Result<Sent, SendError> {
        loop {
            if self.staged.runs().is_empty() {
                self.stage(batch, connections, seals, source)?;
            }
            if self.staged.runs().is_empty() {
                batch.clear();
                self.restart();
                return Ok(Sent::All);
            }
            match socket.send(self.staged.outgoing(socket)) {
                Ok(count) => self.advance(count),
                Err(error) => {
                    if let Some(blocked) = self.blocked_by(&error, batch)? {
                        return Ok(blocked);
                    }
                }
            }
        }
    }

    /// Makes messages of the datagrams that are left, as many as there is room for. A body that cannot be had ends
    /// them; it is an error, and skipped, only once it is the first.
    fn stage(
        &mut self,
        batch: &TxBatch,
        connections: &mut Connections,
        seals: &mut Seals,
        source: &mut (impl BodySource + ?Sized),
    ) -> Result<(), SendError> {
        self.staged.clear();
        let segmented = self.segmentation == Segmentation::On;
        let mut skip = self.done;
        for transmit in batch.transmits() {
            let mut rest = &transmit.datagrams[skip.min(transmit.datagrams.len())..];
            skip -= transmit.datagrams.len() - rest.len();
            if transmit.route.connection.is_some() && !connections.knows(transmit.flow) {
                if !self.staged.runs().is_empty() {
                    return Ok(());
                }
                self.done += rest.len();
                continue;
            }
            while !rest.is_empty() {
                if !self.staged.runs().is_empty() && !self.staged.has_room() {
                    return Ok(());
                }
                let transmit = Transmit { datagrams: rest, ..transmit };
                let (count, error) = self.staged.push(batch, transmit, segmented, connections, seals, source);
                match error {
                    Some(source) if self.staged.runs().is_empty() => {
                        self.done += 1;
                        return Err(SendError::Body { flow: transmit.flow, source });
                    }
                    Some(_) => return Ok(()),
                    None => rest = &rest[count..],
                }
            }
        }
        Ok(())
    }

    /// The first `count` messages have left.
    fn advance(&mut self, count: usize) {
        let runs = self.staged.runs();
        self.done += runs[..count.min(runs.len())].iter().map(|run| run.datagrams).sum::<usize>();
        self.staged.advance(count);
        self.called_too_large = 0;
        if self.segmentation == Segmentation::Doubted && count > 0 {
            self.set_segmentation(Segmentation::Off);
        }
    }

    /// What was made ready one way has to be made ready the other way.
    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.segmentation = segmentation;
        self.staged.clear();
    }

    /// Deals with the failure of the first message: what the caller must wait for, if it may not go on at once.
    fn blocked_by(&mut self, error: &io::Error, batch: &TxBatch) -> Result<Option<Sent>, SendError> {
        let Some(run) = self.staged.runs().first().cloned() else { return Ok(None) };
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        match errno {
            Errno::AGAIN => return Ok(Some(Sent::Full)),
            Errno::NOBUFS => return Ok(Some(Sent::NoMemory)),
            // ICMP reports of earlier datagrams: taken from the socket by reading them, so the next try is another
            // one.
            Errno::INTR | Errno::CONNREFUSED => return Ok(None),
            Errno::MSGSIZE if self.called_too_large + 1 < TOO_LARGE_BELIEVED => {
                self.called_too_large += 1;
                return Ok(None);
            }
            Errno::IO | Errno::INVAL if run.is_segmented() => {
                self.set_segmentation(Segmentation::Doubted);
                return Ok(None);
            }
            _ => {}
        }
        self.called_too_large = 0;
        let Run { flow, peer, datagram_len: bytes, padded, datagrams, framing, .. } = run;
        if errno == Errno::MSGSIZE && !padded {
            // So are those behind it; trying each of them would cost more than sending it.
            self.done += as_long(batch, self.done, bytes - framing.len()).max(datagrams);
            self.staged.clear();
        } else {
            self.done += datagrams;
            self.staged.advance(1);
        }
        if self.segmentation == Segmentation::Doubted {
            // One datagram alone fails just so: the kernel's cutting is not to blame.
            self.set_segmentation(Segmentation::On);
        }
        match errno {
            Errno::MSGSIZE if padded => Ok(None),
            Errno::MSGSIZE => Err(SendError::TooLarge { flow, peer, bytes }),
            _ => Err(SendError::Network { flow, peer, source: errno.into() }),
        }
    }
}

/// How many datagrams from number `first` on, of the same flow and to the same peer, are at least `len` bytes long,
/// without what frames them.
fn as_long(batch: &TxBatch, first: usize, len: usize) -> usize {
    let mut skip = first;
    for transmit in batch.transmits() {
        match transmit.datagrams.get(skip..).filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                return rest.iter().take_while(|datagram| datagram.len() >= len).count();
            }
            None => skip -= transmit.datagrams.len(),
        }
    }
    0
}
