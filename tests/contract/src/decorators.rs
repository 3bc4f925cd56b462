//! Decorators of endpoints: behaviour of an engine that the contract allows.

use inhaul_base::{Span, Time};
use inhaul_transport::{
    CONNECTION_FIELD, Command, CommandError, Endpoint, Event, Expected, FlowId, FlowStats, HostSample, Pause, Place,
    RxMessage, TxBatch,
};

/// Forwards everything that a decorator leaves as it is.
macro_rules! forward {
    () => {
        fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
            self.0.handle_control(now, flow, message);
        }
        fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
            self.0.command(now, command)
        }
        fn poll_event(&mut self) -> Option<Event> {
            self.0.poll_event()
        }
        fn poll_timeout(&self) -> Option<Time> {
            self.0.poll_timeout()
        }
        fn expected(&self, flow: FlowId) -> Option<Expected> {
            self.0.expected(flow)
        }
        fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
            self.0.flow_stats(flow)
        }
        fn memory_bytes(&self) -> usize {
            self.0.memory_bytes()
        }
    };
}

/// An endpoint behind receive offload: datagrams of one length and peer that come together are shown as one message,
/// the last of them may be shorter.
pub struct Aggregated(pub Box<dyn Endpoint + Send>);

impl Endpoint for Aggregated {
    forward!();

    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        let mut start = 0;
        while start < batch.len() {
            let count = run_length(&batch[start..]);
            let run = &batch[start..start + count];
            let stride = run.iter().map(|message| message.heads.len()).max().unwrap_or(0);
            let mut heads = vec![0; stride * count];
            for (slot, message) in heads.chunks_mut(stride.max(1)).zip(run) {
                slot[..message.heads.len()].copy_from_slice(message.heads);
            }
            let message = RxMessage {
                index: 0,
                heads: &heads,
                head_stride: stride,
                datagram_len: run[0].total_len,
                total_len: run.iter().map(|message| message.total_len).sum(),
                waited: run[count - 1].waited,
                ..run[0]
            };
            let mut found = Vec::new();
            self.0.handle_datagrams(now, &[message], &mut found);
            found.iter().for_each(|place| split(place, run, start, places));
            start += count;
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.0.poll_transmit(now, out);
    }
}

/// How many of the first messages receive offload would make one of.
fn run_length(batch: &[RxMessage<'_>]) -> usize {
    let (first, len) = ((batch[0].from, batch[0].flow), batch[0].total_len);
    let is_alike = |m: &RxMessage<'_>| (m.from, m.flow) == first;
    let full = batch.iter().take_while(|m| is_alike(m) && m.total_len == len).count();
    let has_short_end = batch.get(full).is_some_and(|m| is_alike(m) && m.total_len < len && m.total_len > 0);
    if len == 0 { 1 } else { full + usize::from(has_short_end) }
}

/// Names the datagrams of a place as the messages that they were, the first of the run being message `start`.
fn split(place: &Place, run: &[RxMessage<'_>], start: usize, places: &mut Vec<Place>) {
    let (mut at, mut skip) = (place.range.start, place.skip);
    let mut datagram = place.first as usize;
    while at < place.range.end {
        // A datagram that does not exist is the simulation's to find fault with.
        let len = run.get(datagram).map_or(u64::MAX, |message| message.total_len as u64 - u64::from(skip));
        let end = place.range.end.min(at.saturating_add(len));
        let message = (start + datagram) as u32;
        let range = inhaul_base::ByteRange::new(at, end);
        places.push(Place { flow: place.flow, message, first: 0, skip, head_len: place.head_len, range });
        (at, skip) = (end, place.head_len);
        datagram += 1;
    }
}

/// An endpoint that is called for nothing again and again: for timers that are not due, and for transmissions twice.
pub struct Nagged(pub Box<dyn Endpoint + Send>);

impl Endpoint for Nagged {
    forward!();

    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        self.0.handle_timeout(now);
        self.0.handle_datagrams(now, batch, places);
        self.0.handle_datagrams(now, &[], places);
        self.0.handle_timeout(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.0.poll_transmit(now, out);
        self.0.poll_transmit(now, out);
    }
}

/// An endpoint to which every datagram first comes damaged: with another connection id than its flow's.
pub struct Strangers(pub Box<dyn Endpoint + Send>);

impl Endpoint for Strangers {
    forward!();

    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        for message in batch {
            let mut heads = message.heads.to_vec();
            for id in heads.chunks_mut(message.head_stride.max(1)).filter_map(|head| head.get_mut(CONNECTION_FIELD)) {
                id.iter_mut().for_each(|byte| *byte = !*byte);
            }
            self.0.handle_datagrams(now, &[RxMessage { heads: &heads, ..*message }], places);
        }
        self.0.handle_datagrams(now, batch, places);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.0.poll_transmit(now, out);
    }
}

/// An endpoint whose host foresees its pauses: they come at even distances.
pub struct Forewarned {
    endpoint: Box<dyn Endpoint + Send>,
    /// The next pause, and how far apart they begin.
    next: Pause,
    every: Span,
    /// How long before its begin a pause is reported.
    ahead: Span,
}

impl Forewarned {
    /// The first pause is `first`, and others begin `every` so often, each told `ahead` of it.
    pub fn new(endpoint: Box<dyn Endpoint + Send>, first: Pause, every: Span, ahead: Span) -> Self {
        Self { endpoint, next: first, every, ahead }
    }

    fn due(&self) -> Time {
        Time::from_nanos(self.next.start.as_nanos().saturating_sub(self.ahead.as_nanos()))
    }
}

impl Endpoint for Forewarned {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        self.endpoint.handle_datagrams(now, batch, places);
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        self.endpoint.handle_control(now, flow, message);
    }

    fn handle_timeout(&mut self, now: Time) {
        while self.due() <= now {
            self.endpoint.handle_host(now, HostSample { pause: Some(self.next), ..HostSample::default() });
            self.next.start += self.every;
        }
        self.endpoint.handle_timeout(now);
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        self.endpoint.command(now, command)
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.endpoint.poll_transmit(now, out);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.endpoint.poll_timeout().into_iter().chain([self.due()]).min()
    }

    fn expected(&self, flow: FlowId) -> Option<Expected> {
        self.endpoint.expected(flow)
    }

    fn flow_stats(&self, flow: FlowId) -> Option<FlowStats> {
        self.endpoint.flow_stats(flow)
    }

    fn memory_bytes(&self) -> usize {
        self.endpoint.memory_bytes()
    }
}
