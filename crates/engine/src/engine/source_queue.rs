//! The queue between sources that are no senders (HTTP servers, files) and the data thread.
//!
//! Threads read from a source, as many as it serves requests at once, and hand the bytes to the data thread through a
//! bounded queue. When that is full they wait, and so does what they read from. The data thread shows each piece to the
//! flow's endpoint, and its body goes where the endpoint says, as a datagram's does.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use inhaul_session::api::error::MoveError;
use inhaul_transport::{FlowId, SourceOrder};
use inhaul_udp::Waker;

use crate::engine::ids::EndpointId;

/// Longest piece that a thread hands over at once, in bytes.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pieces of all sources together that wait for the data thread: 8 MiB.
const PIECES_MAX: usize = 32;
/// What does the reading for a flow.
pub trait SourceLink: Send {
    /// What the flow's endpoint wants of it. Must not block.
    fn obey(&mut self, order: SourceOrder);
}

/// What threads tell the data thread.
#[derive(Debug)]
pub(crate) enum SourceNews {
    /// Bytes of the flow's object, from `offset` on.
    Bytes { flow: FlowId, offset: u64, bytes: Vec<u8> },
    /// The source cannot go on.
    Failed { flow: FlowId, error: MoveError },
}

/// The threads' end of the queue to the data thread. When this says false, that has ended.
#[derive(Clone, Debug)]
pub struct Deliveries {
    sender: SyncSender<SourceNews>,
    waker: Waker,
}

impl Deliveries {
    /// Hands over bytes, once there is room for them.
    pub fn bytes(&self, flow: FlowId, offset: u64, bytes: Vec<u8>) -> bool {
        self.tell(SourceNews::Bytes { flow, offset, bytes })
    }

    /// Says that a source cannot go on.
    pub fn failed(&self, flow: FlowId, error: MoveError) -> bool {
        self.tell(SourceNews::Failed { flow, error })
    }

    fn tell(&self, news: SourceNews) -> bool {
        let told = self.sender.send(news).is_ok();
        self.waker.wake();
        told
    }
}

/// The sources of an engine.
#[derive(Default)]
pub(crate) struct Sources {
    pub(super) links: BTreeMap<FlowId, (EndpointId, Box<dyn SourceLink>)>,
    news: Option<(SyncSender<SourceNews>, Receiver<SourceNews>)>,
}

impl Sources {
    /// The threads' end of the queue.
    pub(super) fn deliveries(&mut self, waker: Waker) -> Deliveries {
        let (sender, _) = self.news.get_or_insert_with(|| sync_channel(PIECES_MAX));
        Deliveries { sender: sender.clone(), waker }
    }

    /// The next message of a thread, if there is one.
    pub(super) fn next(&self) -> Option<SourceNews> {
        self.news.as_ref().and_then(|(_, receiver)| receiver.try_recv().ok())
    }
}
