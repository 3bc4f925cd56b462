//! A host whose clock is not the simulation's.

use inhaul_base::{Span, Time};
use inhaul_transport::{
    Command, CommandError, Endpoint, Event, Expected, FlowId, FlowStats, HostSample, Place, RxMessage, TxBatch,
};

/// An endpoint on a host with a clock of its own: it began at another time, runs faster or slower, and jumps ahead as
/// that of a host does that was suspended. It never goes back, as no monotonic clock does.
pub struct Clock {
    endpoint: Box<dyn Endpoint + Send>,
    /// Its reading at time zero.
    ahead: Span,
    /// How much faster it runs, in millionths.
    ppm: i64,
    /// When it jumps ahead, and how far.
    jumps: Vec<(Time, Span)>,
}

impl Clock {
    /// See the type. `jumps` are in order; `ppm` is between -1000 and 1000.
    pub fn new(endpoint: Box<dyn Endpoint + Send>, ahead: Span, ppm: i64, jumps: Vec<(Time, Span)>) -> Self {
        Self { endpoint, ahead, ppm, jumps }
    }

    fn shown(&self, at: Time) -> Time {
        let drift = i128::from(at.as_nanos()) * i128::from(self.ppm) / 1_000_000;
        let run = (i128::from(at.as_nanos()) + drift).max(0) as u64;
        let jumped = self.jumps.iter().take_while(|jump| jump.0 <= at).fold(self.ahead, |sum, jump| sum + jump.1);
        Time::from_nanos(run) + jumped
    }

    /// The first time at which it shows `due` or more.
    fn when(&self, due: Time) -> Time {
        if due == Time::FAR_FUTURE {
            return due;
        }
        let (mut low, mut high) = (0, due.as_nanos().saturating_add(due.as_nanos() / 500).saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.shown(Time::from_nanos(middle)) >= due { high = middle } else { low = middle + 1 }
        }
        Time::from_nanos(low)
    }
}

impl Endpoint for Clock {
    fn handle_datagrams(&mut self, now: Time, batch: &[RxMessage<'_>], places: &mut Vec<Place>) {
        self.endpoint.handle_datagrams(self.shown(now), batch, places);
    }

    fn handle_control(&mut self, now: Time, flow: FlowId, message: &[u8]) {
        self.endpoint.handle_control(self.shown(now), flow, message);
    }

    fn handle_host(&mut self, now: Time, mut sample: HostSample) {
        if let Some(pause) = &mut sample.pause {
            pause.start = self.shown(pause.start);
        }
        self.endpoint.handle_host(self.shown(now), sample);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(self.shown(now));
    }

    fn command(&mut self, now: Time, command: Command) -> Result<(), CommandError> {
        self.endpoint.command(self.shown(now), command)
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) {
        self.endpoint.poll_transmit(self.shown(now), out);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.endpoint.poll_timeout().map(|due| self.when(due))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_time_that_shows_as_much() {
        let jumps = vec![
            (Time::from_nanos(5_000_000), Span::from_secs(3)),
            (Time::from_nanos(9_000_000_000), Span::from_millis(1)),
        ];
        let endpoint =
            (crate::FIXED_RATE.build)(&inhaul_transport::EndpointConfig::new(inhaul_transport::Role::Sender, 1));
        for ppm in [-1000, -20, 0, 300, 1000] {
            let endpoint = Clock::new(
                (crate::FIXED_RATE.build)(&inhaul_transport::EndpointConfig::new(inhaul_transport::Role::Sender, 1))
                    .unwrap(),
                Span::from_secs(7),
                ppm,
                jumps.clone(),
            );
            for due in
                [0, 7_000_000_000, 7_004_999_000, 8_000_000_000, 12_345_678_901, 40_000_000_000].map(Time::from_nanos)
            {
                let at = endpoint.when(due);
                assert!(endpoint.shown(at) >= due, "{ppm} {due}");
                assert!(at == Time::ZERO || endpoint.shown(Time::from_nanos(at.as_nanos() - 1)) < due, "{ppm} {due}");
            }
        }
        drop(endpoint);
    }
}
