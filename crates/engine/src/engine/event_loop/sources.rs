//! Flows whose bytes do not come in datagrams: see [`source_queue`](crate::engine::source_queue).

use inhaul_base::{ByteRange, Span, Time};
use inhaul_session::api::error::MoveError;
use inhaul_transport::{Command, FlowId, JoinSource, SourceOrder};

use super::outside::Outside;
use super::{Application, Engine};
use crate::engine::ids::EndpointId;
use crate::engine::source_queue::{Deliveries, SourceLink, SourceNews};

/// Pieces that the data thread takes in a row, as many bytes as it may send in a turn.
const PIECES_A_TURN: usize = 4;

impl<O: Outside> Engine<O> {
    /// Where threads that read from sources hand over what they read.
    pub fn deliveries(&mut self) -> Deliveries {
        let waker = self.waker();
        self.sources.deliveries(waker)
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
            let news = self.sources.next();
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
            watch.meter.count(1, bytes.len() as u64, Span::ZERO);
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
