//! Where clients arrive: each is greeted on a thread of its own, and then handed to the data thread.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::budget::Budget;
use crate::carriers::Carriers;
use crate::gate::Gate;
use crate::greeting::{Arrival, greet};
use crate::half_open::HalfOpen;
use crate::house::{House, Service};
use inhaul_engine::engine::Engine;
use inhaul_engine::engine::listener::turn_away;
use inhaul_engine::engine::probe::ProbeDesk;
use inhaul_engine::engine::seldom::Seldom;
use inhaul_session::api::counters::{Counters, Refusal};
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::frame::MAX_FRAME;
use inhaul_session::session::slots::{Limits, Slots};
use inhaul_session::system::threads;

/// Memory for orders that are being read, of all clients together: for 16 of the largest.
const ORDERS_BYTES_MAX: usize = 16 * MAX_FRAME;

/// See the module's description.
pub struct Reception {
    house: Arc<House>,
    half_open: Arc<HalfOpen>,
    greeted: Sender<Arrival>,
    arrivals: Receiver<Arrival>,
    turned_away: Seldom,
    /// Rights are being looked at.
    reviewing: Arc<AtomicBool>,
}

/// How many clients there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Those that were let in.
    pub sessions: Limits,
    /// Those that were not yet.
    pub half_open: usize,
}

impl Reception {
    pub fn new(
        service: Service,
        gate: Gate,
        net: &NetOptions,
        udp_port: u16,
        desk: Arc<ProbeDesk>,
        places: Places,
        counters: Arc<Counters>,
    ) -> Self {
        let (greeted, arrivals) = channel();
        let house = House {
            service,
            gate: Arc::new(gate),
            net: Arc::new(net.clone()),
            udp_port,
            desk,
            slots: Slots::new(places.sessions),
            passes: Arc::default(),
            counters,
            tunnels: Carriers::default(),
            orders_being_read: Budget::new(ORDERS_BYTES_MAX),
        };
        Self {
            house: Arc::new(house),
            half_open: HalfOpen::new(places.half_open),
            greeted,
            arrivals,
            turned_away: Seldom::default(),
            reviewing: Arc::default(),
        }
    }

    /// Streams may belong to these sessions.
    pub(crate) fn know_tunnels(&mut self, tunnels: Carriers) {
        self.house = Arc::new(House { tunnels, ..House::clone(&self.house) });
    }

    /// From now on there may be so many sessions.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.house.slots.set_limits(limits);
    }

    /// Looks whether the rights of all open sessions still stand; elsewhere, as files are read for it. Here where no
    /// thread can be had: rights end whatever strangers use up.
    pub(crate) fn review(&self) {
        let house = Arc::clone(&self.house);
        let busy = Arc::clone(&self.reviewing);
        if busy.swap(true, Ordering::Relaxed) {
            // The last look has not ended: a disk is slow.
            return;
        }
        let look = move || {
            house.passes.review(&house.gate);
            busy.store(false, Ordering::Relaxed);
        };
        threads::beside_or_here("inhaul-rights", look);
    }

    /// Counts what is open now.
    pub(crate) fn count(&self) {
        let counters = &self.house.counters;
        counters.sessions_open.set(self.sessions() as u64);
        counters.half_open.set(self.half_open.count() as u64);
        counters.half_open_dropped.set(self.half_open.dropped());
        // Once a second: what there was no thread for a while ago, there may be one for now.
        self.half_open.allow_more();
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
    pub fn greet(&mut self, engine: &Engine, tcp: TcpStream) {
        // One without an address is gone.
        let Ok(peer) = tcp.peer_addr() else { return };
        self.house.counters.connections.add(1);
        if let Err(full) = self.house.slots.check(peer.ip()) {
            self.house.counters.refuse(full.into());
            self.turned_away.warn(engine.now(), &format!("{peer} is turned away: {full}"));
            turn_away(tcp, &full.to_string());
            return;
        }
        let waiting = match self.half_open.take(&tcp, peer.ip()) {
            Ok(waiting) => waiting,
            Err(error) => {
                self.house.counters.refuse(Refusal::Busy);
                self.turned_away.warn(engine.now(), &format!("{peer} is turned away: {error}"));
                turn_away(tcp, "it has no descriptor left for another connection: try again later");
                return;
            }
        };
        let (house, greeted, waker) = (Arc::clone(&self.house), self.greeted.clone(), engine.waker());
        let run = move |(tcp, waiting)| {
            // Those that were refused have been told, and logged.
            if let Ok(Some(arrival)) = greet(tcp, waiting, &house) {
                // The data thread may have ended meanwhile.
                let _ = greeted.send(arrival);
            }
            waker.wake();
        };
        if let Err(((tcp, waiting), error)) = threads::spawn_with("inhaul-greeting", (tcp, waiting), run) {
            drop(waiting);
            self.half_open.allow_fewer();
            self.house.counters.refuse(Refusal::Busy);
            self.turned_away.warn(engine.now(), &format!("{peer} is turned away: {error}"));
            turn_away(tcp, "it can start no thread for another connection: try again later");
        }
    }

    /// How many sessions there are, in whatever state, of clients that were let in.
    pub(crate) fn sessions(&self) -> usize {
        self.house.slots.taken()
    }

    /// How many clients have connected and are not let in yet.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open.count()
    }

    /// The next client that is ready for data.
    pub fn arrival(&mut self) -> Option<Arrival> {
        self.arrivals.try_recv().ok()
    }
}
