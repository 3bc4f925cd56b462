//! Ports, connections and listeners as blocking calls.
//!
//! An [`Endpoint`] is a UDP port of its own, with a thread that moves its packets. Any number of connections share it.

mod batch;
mod driver;
mod held;
mod listener;
mod port;
mod shares;
mod socket;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use inhaul_udp::{Offload, SocketOptions};

pub use listener::Incoming;
pub use port::Port;
pub use socket::{MessageOptions, Socket};

use crate::error::UdtError;
use crate::options::Options;
use driver::Driver;
use held::{Held, Shared};
use state::State;

/// A UDP port with any number of UDT connections.
///
/// Clones are the same port. It lives, with its thread, until the last clone, [`Incoming`] and [`Socket`] of it is
/// dropped. That drop waits until all connections have sent their written data, for at most [`Options::linger`].
#[derive(Clone, Debug)]
pub struct Endpoint {
    held: Arc<Held>,
}

impl Endpoint {
    /// A port at `address`. Port 0 lets the system choose one; `[::]` takes IPv4 as well.
    ///
    /// # Errors
    /// When the address cannot be used, or the system has no socket or no thread left.
    pub fn bind(address: SocketAddr, options: Options) -> Result<Self, UdtError> {
        let options = Options { mss: options.terms().mss, ..options };
        let offload = if options.offload { Offload::Auto } else { Offload::Off };
        let socket_options = SocketOptions { offload, ..SocketOptions::default() };
        let socket = inhaul_udp::Socket::bind(address, &socket_options)?;
        let local = socket.local_address();
        let shared = Arc::new(Shared::new(State::new(options, random()?)));
        let (ready, started) = mpsc::channel();
        let its = shared.clone();
        // A poller stays on the thread that made it.
        let run = move || match Driver::new(its, socket, options.mss) {
            Ok((driver, waker)) => {
                let _ = ready.send(Ok(waker));
                driver.run();
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        };
        let thread = Some(std::thread::Builder::new().name("udt4".to_owned()).spawn(run)?);
        let waker = started.recv().map_err(|_| io::Error::other("the thread of the endpoint ended"))??;
        Ok(Self { held: Arc::new(Held::new(shared, waker, local, thread)) })
    }

    /// The local address, with the port that the system chose.
    pub fn local_address(&self) -> SocketAddr {
        self.held.local_address()
    }

    /// Connections that are open, being set up, or not ended yet. A client that asks for one does not count until it has
    /// shown the listener's cookie.
    pub fn connections(&self) -> usize {
        self.held.lock().connections()
    }

    /// Connects to a listener at `peer`, within [`Options::connect_timeout`].
    ///
    /// # Errors
    /// If no answer comes in time, or if the listener refuses.
    pub fn connect(&self, peer: SocketAddr) -> Result<Socket, UdtError> {
        self.connect_as(peer, false)
    }

    /// Connects to `peer`, who connects to this port at the same time: so two hosts behind firewalls meet. Both must
    /// have bound the port that the other one names.
    ///
    /// # Errors
    /// When the other side does not come within [`Options::rendezvous_timeout`].
    pub fn rendezvous(&self, peer: SocketAddr) -> Result<Socket, UdtError> {
        self.connect_as(peer, true)
    }

    fn connect_as(&self, peer: SocketAddr, rendezvous: bool) -> Result<Socket, UdtError> {
        let id = self.held.lock().connect(peer, rendezvous, self.held.now())?;
        self.held.wake();
        let socket = Socket::new(self.held.clone(), id);
        socket.wait_connected()?;
        Ok(socket)
    }

    /// Takes connections from now on. At most `backlog` wait to be accepted; further clients are refused.
    ///
    /// # Errors
    /// When the endpoint listens already.
    pub fn listen(&self, backlog: usize) -> Result<Incoming, UdtError> {
        self.held.lock().listen(backlog)?;
        Ok(Incoming::new(self.held.clone()))
    }
}

/// An unguessable number.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(u64::from_ne_bytes(bytes))
}
