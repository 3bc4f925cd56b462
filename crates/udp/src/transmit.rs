//! From a batch of transmissions to the network.
//!
//! The bodies of a burst are read from the file to between their heads, by one `preadv` if they follow each other, and
//! are sealed there. The burst leaves as one piece of memory, small enough to be still in the cache. A rest that a full
//! socket refuses waits sealed.
//!
//! Files are not mapped, for three reasons. Sealing needs the bytes. A mapped file that is truncated meanwhile causes a
//! signal, not an error. And a mapping costs memory by the size of the file.

mod source;
mod staged;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;

use inhaul_transport::kit::Connections;
use inhaul_transport::{FlowId, Transmit, TxBatch};
use rustix::io::Errno;

use crate::datagrams::DatagramSocket;
use crate::seal::Seals;
pub use source::BodySource;
pub use staged::{MESSAGE_BYTES_MAX, SEGMENTS_MAX};
use staged::{Run, Staged};

/// The result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// All of it was sent.
    All,
    /// The socket's buffer is full (EAGAIN): continue when the socket is writable.
    Full,
    /// The system is out of memory for now (ENOBUFS): continue a little later. The socket may stay writable, so do not
    /// wait for that.
    NoMemory,
}

/// Why datagrams of a flow could not be sent. Other flows of the batch are not affected: call [`Transmitter::transmit`]
/// again to continue behind the failed datagrams.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The source did not give the bytes of the flow's object.
    #[error("the data to send could not be read: {source}")]
    Body {
        /// The flow.
        flow: FlowId,
        /// The source's error.
        source: io::Error,
    },
    /// The datagrams are too large for the local interface, at least now. They are lost, as on a path of that MTU.
    #[error("datagrams of {bytes} bytes are too large for the interface to {peer}")]
    TooLarge {
        /// The flow.
        flow: FlowId,
        /// The peer.
        peer: SocketAddr,
        /// Length of the datagram, in bytes.
        bytes: usize,
    },
    /// The kernel refused: no route, no permission, or similar.
    #[error("nothing can be sent to {peer}: {source}")]
    Network {
        /// The flow.
        flow: FlowId,
        /// The peer.
        peer: SocketAddr,
        /// The error of the kernel.
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

/// Whether the kernel segments messages on this socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segmentation {
    On,
    /// A segmented message was refused, perhaps because the interface cannot segment. The same datagrams, sent one by
    /// one, will tell.
    Doubted,
    Off,
}

/// Sends batches over a socket. Reuses its memory, and keeps its position in an unfinished batch.
pub struct Transmitter {
    segmentation: Segmentation,
    /// How many datagrams of the batch are done: sent, or failed.
    done: usize,
    /// How often in a row the next message was refused as too large.
    called_too_large: u8,
    /// The next messages.
    staged: Staged,
}

/// Refusals in a row before a message counts as too large. A forged ICMP message makes one call fail; an interface
/// makes all of them fail.
const TOO_LARGE_BELIEVED: u8 = 4;

impl Transmitter {
    /// A transmitter for `socket`.
    pub fn new(socket: &impl DatagramSocket) -> Self {
        let segmentation = if socket.segments() { Segmentation::On } else { Segmentation::Off };
        Self { segmentation, done: 0, called_too_large: 0, staged: Staged::default() }
    }

    /// Whether the kernel segments messages; false too once an interface has refused.
    pub fn segments(&self) -> bool {
        self.segmentation != Segmentation::Off
    }

    /// Forgets its position: the next batch is another one.
    pub fn restart(&mut self) {
        self.done = 0;
        self.staged.clear();
    }

    /// Sends the rest of `batch`, and clears it. If the network takes no more for now, it returns why. Then call it
    /// with the same batch as soon as that has changed. Call it again after an error, too: it continues where it
    /// stopped.
    ///
    /// Each datagram gets its envelope here, with a number from `connections`, which it keeps. It is sealed if `seals`
    /// has keys of its flow. The rest of a forgotten flow is dropped: its keys are gone.
    ///
    /// Padded datagrams, which only probe the path's MTU, may be too large: they are dropped, as on the path.
    ///
    /// Why datagrams of a flow could not be sent. They are skipped.
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

    /// Stages messages of the remaining datagrams, as many as fit. They end before a body that cannot be read. That
    /// body is an error, and skipped, only when it comes first.
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

    /// Notes that the first `count` messages were sent.
    fn advance(&mut self, count: usize) {
        let runs = self.staged.runs();
        self.done += runs[..count.min(runs.len())].iter().map(|run| run.datagrams).sum::<usize>();
        self.staged.advance(count);
        self.called_too_large = 0;
        if self.segmentation == Segmentation::Doubted && count > 0 {
            self.set_segmentation(Segmentation::Off);
        }
    }

    /// Changes segmentation. Staged messages have to be staged again.
    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.segmentation = segmentation;
        self.staged.clear();
    }

    /// Handles a failure of the first message. Returns what the caller has to wait for, or `None` to continue at once.
    fn blocked_by(&mut self, error: &io::Error, batch: &TxBatch) -> Result<Option<Sent>, SendError> {
        let Some(run) = self.staged.runs().first().cloned() else { return Ok(None) };
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        match errno {
            Errno::AGAIN => return Ok(Some(Sent::Full)),
            Errno::NOBUFS => return Ok(Some(Sent::NoMemory)),
            // ICMP reports of earlier datagrams. Reading a report removes it, so the next try is a new one.
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
            // The following ones of that size are too large as well. Trying each would cost more than sending it.
            self.done += as_long(batch, self.done, bytes - framing.len()).max(datagrams);
            self.staged.clear();
        } else {
            self.done += datagrams;
            self.staged.advance(1);
        }
        if self.segmentation == Segmentation::Doubted {
            // A single datagram fails in the same way, so segmentation is not the cause.
            self.set_segmentation(Segmentation::On);
        }
        match errno {
            Errno::MSGSIZE if padded => Ok(None),
            Errno::MSGSIZE => Err(SendError::TooLarge { flow, peer, bytes }),
            _ => Err(SendError::Network { flow, peer, source: errno.into() }),
        }
    }
}

/// How many datagrams from number `first` on, of the same flow and peer, have at least `len` bytes, without framing.
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
