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

#[cfg(test)]
mod tests {
    use inhaul_base::{Bitrate, RangeSet};
    use inhaul_transport::{
        Command, Endpoint, EndpointConfig, Event, FlowId, FlowLimits, JoinSource, ObjectId, Role, SourceOrder,
    };

    use super::super::{Control, Gtp, GtpReceiver};
    use super::*;
    use crate::gtp::discover::Policy;

    const MIB: u64 = 1 << 20;
    const OBJECT: ObjectId = ObjectId(0);

    fn fetching(size: u64, lanes: u32) -> GtpReceiver {
        let config = EndpointConfig::new(Role::Receiver, 1);
        let mut receiver = GtpReceiver::new(Gtp::new(&config, Control::Discover, Policy::Fair));
        receiver.command(Time::ZERO, Command::Fetch { object: OBJECT, size, held: RangeSet::new() }).unwrap();
        join(&mut receiver, FlowId(1), lanes);
        receiver
    }

    fn join(receiver: &mut GtpReceiver, flow: FlowId, lanes: u32) {
        let (rtt, limits) = (Span::from_millis(20), FlowLimits::default());
        receiver
            .command(Time::ZERO, Command::JoinSource(JoinSource { flow, object: OBJECT, lanes, rtt, limits }))
            .unwrap();
    }

    /// Lets time pass up to `now`; the orders to sources meanwhile.
    fn run(receiver: &mut GtpReceiver, now: Time) -> Vec<(FlowId, SourceOrder)> {
        let mut orders = Vec::new();
        loop {
            while let Some(event) = receiver.poll_event() {
                if let Event::Source { flow, order } = event {
                    orders.push((flow, order));
                }
            }
            match receiver.poll_timeout().filter(|due| *due <= now) {
                Some(due) => receiver.handle_timeout(due),
                None => return orders,
            }
        }
    }

    fn asked(orders: &[(FlowId, SourceOrder)]) -> Vec<ByteRange> {
        let ranges = |(_, order): &(FlowId, SourceOrder)| match order {
            SourceOrder::Ask { ranges, .. } => ranges.clone(),
            _ => Vec::new(),
        };
        orders.iter().flat_map(ranges).collect()
    }

    #[test]
    fn a_source_is_paced_and_asked_for_whole_groups_until_all_has_come() {
        let size = 9 * MIB + 5;
        let mut receiver = fetching(size, 2);
        let mut now = Time::ZERO + Span::from_secs(1);
        let orders = run(&mut receiver, now);
        assert!(orders.iter().any(|(_, order)| matches!(order, SourceOrder::Pace(rate) if *rate > Bitrate::ZERO)));
        let mut waiting = asked(&orders);
        assert_eq!(waiting, [0, 1, 2].map(|k| ByteRange::at(k * MIB, MIB)), "one more than it serves at once");
        let (mut come, mut places) = (RangeSet::new(), Vec::new());
        while let Some(range) = waiting.pop() {
            now += Span::from_millis(10);
            receiver.handle_delivery(now, FlowId(1), range, &mut places);
            come.insert(range);
            waiting.extend(asked(&run(&mut receiver, now)));
        }
        assert_eq!(come.covered(), size);
        assert_eq!(places.iter().map(|place| place.range.len()).sum::<u64>(), size);
        assert_eq!(receiver.flow_stats(FlowId(1)).unwrap().placed_bytes, size);
    }

    #[test]
    fn a_piece_that_came_before_is_placed_once_and_one_beyond_the_end_never() {
        let mut receiver = fetching(2 * MIB, 1);
        run(&mut receiver, Time::ZERO + Span::from_secs(1));
        let (now, mut places) = (Time::ZERO + Span::from_secs(1), Vec::new());
        receiver.handle_delivery(now, FlowId(1), ByteRange::new(0, 1000), &mut places);
        receiver.handle_delivery(now, FlowId(1), ByteRange::new(500, 1500), &mut places);
        receiver.handle_delivery(now, FlowId(1), ByteRange::new(2 * MIB, 2 * MIB + 1), &mut places);
        receiver.handle_delivery(now, FlowId(7), ByteRange::new(0, 1000), &mut places);
        let placed: Vec<_> = places.iter().map(|place| (place.skip, place.range)).collect();
        assert_eq!(placed, [(0, ByteRange::new(0, 1000)), (500, ByteRange::new(1000, 1500))]);
    }

    #[test]
    fn what_a_lost_source_owed_goes_to_the_others() {
        let mut receiver = fetching(64 * MIB, 1);
        let first = asked(&run(&mut receiver, Time::ZERO + Span::from_secs(1)));
        join(&mut receiver, FlowId(2), 1);
        let now = Time::ZERO + Span::from_secs(2);
        let of_second =
            |orders: Vec<_>| asked(&orders.into_iter().filter(|(flow, _)| *flow == FlowId(2)).collect::<Vec<_>>());
        let mut waiting = of_second(run(&mut receiver, now));
        receiver.command(now, Command::Disconnect { flow: FlowId(1) }).unwrap();
        let mut asked_of_second = RangeSet::new();
        for k in 1..400 {
            let now = now + Span::from_millis(50 * k);
            for range in std::mem::take(&mut waiting) {
                asked_of_second.insert(range);
                receiver.handle_delivery(now, FlowId(2), range, &mut Vec::new());
            }
            waiting = of_second(run(&mut receiver, now));
        }
        assert!(first.iter().all(|range| asked_of_second.contains(*range)), "{first:?}");
    }
}
