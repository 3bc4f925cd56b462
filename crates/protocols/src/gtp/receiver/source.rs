//! A flow that stands for a source that is no sender: an HTTP server, a file (PROTOCOL.md 7.11). Others read from it, and
//! say when it fails; what bounds the flow is its share of the receiver, and how much is requested ahead.

use inhaul_base::{ByteRange, Span, Time};
use inhaul_transport::kit::Object;
use inhaul_transport::kit::wire::RANGES_MAX;

use super::flow::Flow;

/// A request to a source has the bytes of this time ...
const SOURCE_SPAN: Span = Span::from_millis(500);
/// ... in whole groups of digests ...
const SOURCE_BLOCK: u64 = 1 << 20;
/// ... but at most this many bytes, and at most this part of the bytes that are still wanted.
const SOURCE_ASK_MAX: u64 = 64 << 20;
const SOURCE_PARTS: u64 = 8;

impl Flow {
    /// Bytes of the next request, in whole groups of digests. Towards the end it is shorter: then nothing waits long
    /// for the last request of a slow source.
    fn source_ask(&self, object: &Object) -> u64 {
        let rate = self.stream.rate().min(self.controller.target());
        let left = object.wanted_bytes() / SOURCE_PARTS;
        rate.bytes_in(SOURCE_SPAN).min(left).clamp(SOURCE_BLOCK, SOURCE_ASK_MAX) / SOURCE_BLOCK * SOURCE_BLOCK
    }

    /// The same of a source: few, long requests, one more than it serves at once.
    pub(super) fn ask_source(&mut self, now: Time, lanes: u32, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        if !self.is_under_way() {
            return None;
        }
        let ask = self.source_ask(object);
        let pending = self.requests.pending_bytes();
        if pending > ask * u64::from(lanes) {
            return None;
        }
        let ranges = object.take(ask, SOURCE_BLOCK, RANGES_MAX, &self.core.avoid);
        if ranges.is_empty() {
            return None;
        }
        if pending == 0 {
            self.last_data = now;
            self.last_arrival = now;
        }
        let id = self.requests.request(self.core.block, &ranges);
        Some((id, ranges))
    }

    /// A source delivered some of the requested bytes.
    pub(super) fn on_delivery(&mut self, now: Time, range: ByteRange) {
        self.requests.forget(range);
        self.monitor.wire_bytes += range.len();
        self.last_data = now;
        self.last_arrival = now;
        self.core.last_heard = now;
        let rtt = self.base_rtt();
        self.stream.on_data(now, range.len(), rtt);
    }
}
