//! Flows whose bytes do not come in datagrams: sources that are no senders (HTTP servers, files).
//!
//! Threads read from a source, as many as it serves requests at once, and hand the bytes to the data thread through a
//! bounded queue. When that is full they wait, and so does what they read from. The data thread shows each piece to the
//! flow's endpoint, and its body goes where the endpoint says, as a datagram's does.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use inhaul_base::{ByteRange, Time};
use inhaul_transport::{Command, FlowId, JoinSource, SourceOrder};
use inhaul_udp::Waker;

use super::outside::Outside;
use super::{Application, Engine};
use crate::engine::ids::EndpointId;
use inhaul_session::api::error::MoveError;

/// Longest piece that a thread hands over at once, in bytes.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pieces of all sources together that wait for the data thread: 8 MiB.
const PIECES_MAX: usize = 32;
/// Pieces that the data thread takes in a row, as many bytes as it may send in a turn.
const PIECES_A_TURN: usize = 4;

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
pub(super) struct Sources {
    links: std::collections::BTreeMap<FlowId, (EndpointId, Box<dyn SourceLink>)>,
    news: Option<(SyncSender<SourceNews>, Receiver<SourceNews>)>,
}

impl<O: Outside> Engine<O> {
    /// Where threads that read from sources hand over what they read.
    pub fn deliveries(&mut self) -> Deliveries {
        let waker = self.waker();
        let (sender, _) = self.sources.news.get_or_insert_with(|| sync_channel(PIECES_MAX));
        Deliveries { sender: sender.clone(), waker }
    }

    /// Has an endpoint fetch from a source.
    pub fn add_source(&mut self, endpoint: EndpointId, join: JoinSource, link: Box<dyn SourceLink>) {
        self.sources.links.insert(join.flow, (endpoint, link));
        self.command(endpoint, Command::JoinSource(join));
    }

    /// The flow is over: what its threads still read is dropped. Whether it was a source's.
    pub(super) fn drop_source(&mut self, flow: FlowId) -> bool {
        let Some((endpoint, _)) = self.sources.links.remove(&flow) else { return false };
        self.command(endpoint, Command::Disconnect { flow });
        true
    }

    /// Hands on what an endpoint wants of a source.
    pub(super) fn order_source(&mut self, flow: FlowId, order: SourceOrder) {
        if let Some((_, link)) = self.sources.links.get_mut(&flow) {
            link.obey(order);
        }
    }

    /// Takes in what sources have delivered. Whether there may be more.
    pub(super) fn serve_sources(&mut self, app: &mut dyn Application<O>) -> Result<bool, MoveError> {
        for _ in 0..PIECES_A_TURN {
            let news = self.sources.news.as_ref().and_then(|(_, receiver)| receiver.try_recv().ok());
            match news {
                None => return Ok(false),
                Some(SourceNews::Bytes { flow, offset, bytes }) => {
                    let now = self.now();
                    self.deliver(now, flow, offset, &bytes, app)?;
                }
                Some(SourceNews::Failed { flow, error }) => {
                    if self.drop_source(flow) {
                        app.on_source_end(self, flow, error)?;
                    }
                }
            }
            self.settle(app)?;
        }
        Ok(true)
    }

    fn deliver(
        &mut self,
        now: Time,
        flow: FlowId,
        offset: u64,
        bytes: &[u8],
        app: &mut dyn Application<O>,
    ) -> Result<(), MoveError> {
        let Some(&(EndpointId(index), _)) = self.sources.links.get(&flow) else { return Ok(()) };
        if let Some(watch) = &self.watch {
            Arc::as_ref(&watch.meter).count(1, bytes.len() as u64, inhaul_base::Span::ZERO);
        }
        self.places.clear();
        let range = ByteRange::at(offset, bytes.len() as u64);
        self.endpoints[index].endpoint.handle_delivery(now, flow, range, &mut self.places);
        for place in &self.places {
            let from = place.skip as usize;
            if let Some(body) = bytes.get(from..from + place.range.len() as usize) {
                app.sink().deliver(flow, place.range.start, body)?;
            }
        }
        app.on_places(&self.places);
        self.drain(index, now, app);
        Ok(())
    }
}
