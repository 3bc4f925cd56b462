//! The one loop that drives an endpoint.

use inhaul_base::Time;

use crate::{Endpoint, Event, Reason, TxBatch};

/// Where an endpoint's output goes: sockets and files, or a simulated network.
pub trait Host {
    /// The endpoint has something to say. Commands that follow from it are given after the drain, not inside it.
    fn event(&mut self, now: Time, event: Event);

    /// Sends the batch and leaves it empty; or returns false when the network takes no more just now. What is left in the
    /// batch is then sent first next time.
    fn transmit(&mut self, now: Time, batch: &mut TxBatch) -> bool;
}

/// Takes everything that the endpoint has to give at `now`, and returns when it wants to be called again.
///
/// Call it after each change (see [`Endpoint`]). It ends, because at a fixed `now` pacing lets only so much leave.
/// `batch` is handed in so that its memory, and what could not be sent, survives from one call to the next; while it is
/// not empty the deadline does not count the pacer: the network must become writable first.
pub fn drain(
    endpoint: &mut (impl Endpoint + ?Sized),
    now: Time,
    batch: &mut TxBatch,
    host: &mut (impl Host + ?Sized),
) -> Option<(Time, Reason)> {
    loop {
        while let Some(event) = endpoint.poll_event() {
            host.event(now, event);
        }
        if batch.is_empty() {
            endpoint.poll_transmit(now, batch);
            if batch.is_empty() {
                break;
            }
        }
        if !host.transmit(now, batch) {
            break;
        }
    }
    while let Some(event) = endpoint.poll_event() {
        host.event(now, event);
    }
    endpoint.poll_timeout()
}
