//! Where clients arrive: each is greeted on a thread of its own, and then handed to the data thread.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::api::options::NetOptions;
use crate::engine::Engine;
use crate::engine::listener::turn_away;
use crate::engine::probe::ProbeDesk;
use crate::engine::seldom::Seldom;
use crate::serve::gate::Gate;
use crate::serve::greeting::{Arrival, House, Service, greet};
use crate::session::slots::Slots;
use crate::system::threads;

/// See the module's description.
pub(crate) struct Reception {
    house: Arc<House>,
    slots: Arc<Slots>,
    greeted: Sender<Arrival>,
    arrivals: Receiver<Arrival>,
    turned_away: Seldom,
}

impl Reception {
    pub(crate) fn new(
        service: Service,
        gate: Gate,
        net: &NetOptions,
        udp_port: u16,
        desk: Arc<ProbeDesk>,
        slots: Arc<Slots>,
    ) -> Self {
        let (greeted, arrivals) = channel();
        let house = House { service, gate: Arc::new(gate), net: Arc::new(net.clone()), udp_port, desk };
        Self { house: Arc::new(house), slots, greeted, arrivals, turned_away: Seldom::default() }
    }

    /// Offers something else to those who come from now on.
    pub(crate) fn offer(&mut self, service: Service) {
        self.house = Arc::new(House { service, ..House::clone(&self.house) });
    }

    /// Lets those who come from now on in by another gate.
    pub(crate) fn set_gate(&mut self, gate: Gate) {
        self.house = Arc::new(House { gate: Arc::new(gate), ..House::clone(&self.house) });
    }

    /// Greets a client, unless there are too many: then it is told so, and the connection is closed.
    pub(crate) fn greet(&mut self, engine: &Engine, tcp: TcpStream) {
        // One without an address is gone.
        let Ok(peer) = tcp.peer_addr() else { return };
        let slot = match self.slots.take(peer.ip()) {
            Ok(slot) => slot,
            Err(full) => {
                self.turned_away.warn(engine.now(), &format!("{peer} is turned away: {full}"));
                turn_away(tcp, &full.to_string());
                return;
            }
        };
        let (house, greeted, waker) = (Arc::clone(&self.house), self.greeted.clone(), engine.waker());
        let run = move || {
            // Those that were refused have been told, and logged.
            if let Ok(Some(arrival)) = greet(tcp, slot, &house) {
                // The data thread may have ended meanwhile.
                let _ = greeted.send(arrival);
            }
            waker.wake();
        };
        if let Err(error) = threads::spawn_helper("inhaul-greeting", run) {
            self.turned_away.warn(engine.now(), &format!("{peer} is turned away: {error}"));
        }
    }

    /// How many sessions there are, in whatever state.
    pub(crate) fn sessions(&self) -> usize {
        self.slots.taken()
    }

    /// The next client that is ready for data.
    pub(crate) fn next(&mut self) -> Option<Arrival> {
        self.arrivals.try_recv().ok()
    }
}
