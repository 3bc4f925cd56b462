//! Writes the bodies of datagrams into the landing files.
//!
//! Receiving into files takes two copies of the kernel: out of the socket, and into the page cache (`pwritev` from the
//! receive buffer). The program itself copies nothing. To map the destination would save one copy. It would cost
//! faults, and a full disk would cause a signal instead of an error.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inhaul_store::Landing;
use inhaul_transport::{Expected, FlowId, Place};
use inhaul_udp::seal::Seals;
use inhaul_udp::thread;

use crate::haul::verify::Writer;
use inhaul_engine::engine::port::{Port, Show};
use inhaul_engine::engine::{Backlog, Sink};
use inhaul_session::api::error::MoveError;

/// Files as the destination of datagrams' bodies.
pub(super) struct Landings {
    pub(super) by_flow: BTreeMap<FlowId, Arc<Landing>>,
    pub(super) writer: Writer,
    pub(super) pace: DiskPace,
}

/// Whether the disk keeps up with what comes in.
#[derive(Debug, Default)]
pub(super) struct DiskPace {
    /// Until when bodies of large files go to the writer as well.
    slow_until: Option<Instant>,
}

/// Written by the data thread, a batch takes this long only when the disk holds it up.
const HELD_UP: Duration = Duration::from_millis(2);
/// A disk that was slow is tried again after so long, if nothing waits for it.
const SLOW: Duration = Duration::from_secs(10);

impl DiskPace {
    /// Whether the disk is slow now; `waiting` bytes wait for it.
    fn is_slow(&mut self, now: Instant, waiting: u64) -> bool {
        match self.slow_until {
            // What is written directly must not overtake what waits.
            Some(until) if now >= until && waiting == 0 => self.slow_until = None,
            Some(until) if now < until && waiting > 0 => self.slow_until = Some(now + SLOW),
            _ => {}
        }
        self.slow_until.is_some()
    }

    /// The data thread has written a batch since `began`, and `waited`: not only for its turn on the processor.
    fn note(&mut self, now: Instant, began: Instant, waited: bool) {
        if waited && now.duration_since(began) >= HELD_UP {
            self.slow_until = Some(now + SLOW);
        }
    }
}

impl Landings {
    /// Writes what came by other ways.
    pub(super) fn write(&self, landing: &Arc<Landing>, offset: u64, bytes: &[u8]) -> Result<(), MoveError> {
        let slices = [IoSlice::new(bytes)];
        if landing.is_in_small_file(offset) {
            self.writer.write(landing, offset, &slices);
            return Ok(());
        }
        landing.write(offset, &slices).map_err(MoveError::from)
    }
}

impl Sink for Landings {
    fn receive(
        &mut self,
        port: &mut Port,
        seals: &mut Seals,
        _expected: Option<Expected>,
        show: &mut Show<'_>,
        places: &mut Vec<Place>,
    ) -> Result<bool, MoveError> {
        let Some(batch) = port.receive(seals, show, places)? else { return Ok(false) };
        let (began, waits) = (Instant::now(), thread::waits());
        let slow = self.pace.is_slow(began, self.writer.backlog().waiting);
        batch.deliver(places, |delivery| match self.by_flow.get(&delivery.flow) {
            Some(landing) if landing.is_in_small_file(delivery.range.start) => {
                self.writer.write(landing, delivery.range.start, delivery.bodies);
                Ok(())
            }
            Some(landing) if slow => {
                self.writer.write_large(landing, delivery.range.start, delivery.bodies);
                Ok(())
            }
            Some(landing) => landing.write(delivery.range.start, delivery.bodies).map_err(MoveError::from),
            None => Ok(()),
        })?;
        if !slow {
            self.pace.note(Instant::now(), began, thread::waits() > waits);
        }
        Ok(true)
    }

    fn deliver(&mut self, flow: FlowId, offset: u64, bytes: &[u8]) -> Result<(), MoveError> {
        let Some(landing) = self.by_flow.get(&flow).cloned() else { return Ok(()) };
        self.write(&landing, offset, bytes)
    }

    fn backlog(&self) -> Option<Backlog> {
        Some(self.writer.backlog())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_holds_the_thread_up_is_slow_until_nothing_waits_for_it() {
        let began = Instant::now();
        let after = |millis| began + Duration::from_millis(millis);
        let mut pace = DiskPace::default();
        pace.note(after(50), began, false);
        assert!(!pace.is_slow(after(50), 0), "its processor was away");
        pace.note(after(1), began, true);
        assert!(!pace.is_slow(after(1), 0), "that is no time");
        pace.note(after(50), began, true);
        assert!(pace.is_slow(after(51), 0));
        assert!(pace.is_slow(after(9_000), 1), "it has not caught up");
        assert!(pace.is_slow(after(11_000), 1));
        assert!(!pace.is_slow(after(30_000), 0));
    }
}
