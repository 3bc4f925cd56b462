//! The one loop that drives an endpoint.

use inhaul_base::Time;

use crate::{Endpoint, Event, TxBatch};

/// Where an endpoint's output goes: sockets and files, or a simulated network.
pub trait Host {
    /// The endpoint has something to say. Commands that follow from it are given after the drain, not inside it.
    fn event(&mut self, now: Time, event: Event);

    /// Sends the batch and leaves it empty; or returns false if the network takes no more just now. The rest of the
    /// batch is then sent first next time.
    fn transmit(&mut self, now: Time, batch: &mut TxBatch) -> bool;
}

/// Sends the endpoint's datagrams that are due at `now`, and returns the time at which it must be called again.
///
/// Call it after each change (see [`Endpoint`]). `batch` is handed in so that its memory, and what could not be sent,
/// survives from one call to the next; while it is not empty the deadline does not count the pacer: the network must
/// become writable first.
///
/// It ends for two reasons. At a fixed `now`, pacing bounds the data that may leave; but peers set the rate. So no
/// batch is taken once `budget`, in bytes, is used up (exceeded by less than one batch). Then it returns `now`: the
/// caller serves everything else, refills the budget, and calls again.
pub fn drain(
    endpoint: &mut (impl Endpoint + ?Sized),
    now: Time,
    batch: &mut TxBatch,
    budget: &mut u64,
    host: &mut (impl Host + ?Sized),
) -> Option<Time> {
    let mut cut_short = false;
    loop {
        while let Some(event) = endpoint.poll_event() {
            host.event(now, event);
        }
        if batch.is_empty() {
            cut_short = *budget == 0;
            if cut_short {
                break;
            }
            endpoint.poll_transmit(now, batch);
            if batch.is_empty() {
                break;
            }
            *budget = budget.saturating_sub(batch.bytes());
        }
        if !host.transmit(now, batch) {
            break;
        }
    }
    while let Some(event) = endpoint.poll_event() {
        host.event(now, event);
    }
    if cut_short { Some(now) } else { endpoint.poll_timeout() }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use inhaul_base::ByteRange;

    use super::*;
    use crate::{Command, CommandError, ConnectionId, FlowId, FlowStats, Place, Route, RxMessage};

    /// Always has more to send: the worst that a peer can make an honest endpoint do.
    struct Endless;

    impl Endpoint for Endless {
        fn handle_datagrams(&mut self, _: Time, _: &[RxMessage<'_>], _: &mut Vec<Place>) {}
        fn handle_control(&mut self, _: Time, _: FlowId, _: &[u8]) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn command(&mut self, _: Time, _: Command) -> Result<(), CommandError> {
            Ok(())
        }
        fn poll_transmit(&mut self, _: Time, out: &mut TxBatch) {
            while out.room() > 0 {
                let route = Route::new(SocketAddr::from(([192, 0, 2, 1], 7)), ConnectionId(1));
                out.push(FlowId(1), route, &[0; 32], ByteRange::at(0, 968), 0);
            }
        }
        fn poll_event(&mut self) -> Option<Event> {
            None
        }
        fn poll_timeout(&self) -> Option<Time> {
            None
        }
        fn flow_stats(&self, _: FlowId) -> Option<FlowStats> {
            None
        }
        fn memory_bytes(&self) -> usize {
            0
        }
    }

    #[derive(Default)]
    struct Counter(u64);

    impl Host for Counter {
        fn event(&mut self, _: Time, _: Event) {}
        fn transmit(&mut self, _: Time, batch: &mut TxBatch) -> bool {
            self.0 += batch.bytes();
            batch.clear();
            true
        }
    }

    #[test]
    fn drain_ends_with_the_budget_and_asks_to_be_called_again() {
        let (mut host, mut batch, mut budget) = (Counter::default(), TxBatch::with_limit(10), 25_000);
        let due = drain(&mut Endless, Time::ZERO, &mut batch, &mut budget, &mut host);
        assert_eq!((host.0, budget, due), (30_000, 0, Some(Time::ZERO)));
        let due = drain(&mut Endless, Time::ZERO, &mut batch, &mut budget, &mut host);
        assert_eq!((host.0, due), (30_000, Some(Time::ZERO)), "nothing more leaves until it is filled up");
    }
}
