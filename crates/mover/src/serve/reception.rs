//! Where clients arrive: each is greeted on a thread of its own, and then handed to the data thread.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::api::options::NetOptions;
use crate::engine::Engine;
use crate::engine::listener::turn_away;
use crate::engine::probe::ProbeDesk;
use crate::engine::seldom::Seldom;
use crate::serve::greeting::{Arrival, Service, greet};
use crate::session::slots::Slots;
use crate::system::threads;

/// See the module's description.
pub(crate) struct Reception {
    service: Service,
    /// Parameters of transports that this host's user has set.
    net: Arc<NetOptions>,
    udp_port: u16,
    /// Where clients are admitted that only try the path.
    desk: Arc<ProbeDesk>,
    slots: Arc<Slots>,
    greeted: Sender<Arrival>,
    arrivals: Receiver<Arrival>,
    turned_away: Seldom,
}

impl Reception {
    pub(crate) fn new(
        service: Service,
        net: &NetOptions,
        udp_port: u16,
        desk: Arc<ProbeDesk>,
        slots: Arc<Slots>,
    ) -> Self {
        let (greeted, arrivals) = channel();
        let net = Arc::new(net.clone());
        Self { service, net, udp_port, desk, slots, greeted, arrivals, turned_away: Seldom::default() }
    }

    /// Offers something else to those who come from now on.
    pub(crate) fn offer(&mut self, service: Service) {
        self.service = service;
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
        let (service, udp_port, desk) = (self.service.clone(), self.udp_port, Arc::clone(&self.desk));
        let (greeted, waker, net) = (self.greeted.clone(), engine.waker(), Arc::clone(&self.net));
        let run = move || {
            // Those that were refused have been told, and logged.
            if let Ok(Some(arrival)) = greet(tcp, slot, &service, &net, udp_port, &desk) {
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
