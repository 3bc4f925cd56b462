//! Only for the fuzzers: a port without a socket and without a thread.

use std::net::SocketAddr;

use inhaul_base::Time;

use super::batch::Batch;
use super::state::State;
use crate::connection::Connection;
use crate::options::Options;
use crate::wire::SocketId;

/// A port that listens, to which any datagrams may come at any time.
#[derive(Debug)]
pub struct Port {
    state: State,
    backlog: usize,
}

impl Port {
    /// A port; at most `backlog` connections wait to be accepted.
    pub fn new(options: Options, backlog: usize) -> Self {
        let mut state = State::new(options, 1);
        // It does not listen yet, so it cannot fail.
        let _ = state.listen(backlog);
        Self { state, backlog }
    }

    /// Begins to connect, if there may be one more connection.
    pub fn connect(&mut self, peer: SocketAddr, rendezvous: bool, now: Time) -> Option<SocketId> {
        let id = self.state.connect(peer, rendezvous, now).ok()?;
        self.state.entry(id).map(|_| id)
    }

    /// The next connection that a client has made.
    pub fn accept(&mut self) -> Option<SocketId> {
        self.state.accept().ok()
    }

    /// The connection of a socket does something, if it is open.
    pub fn with<T>(&mut self, id: SocketId, now: Time, act: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let done = self.state.open(id).ok().map(act);
        self.state.reschedule(id, now);
        done
    }

    /// The application has no use for the socket any more.
    pub fn release(&mut self, id: SocketId, now: Time) {
        self.state.release(id, now);
    }

    /// The application listens no more, and then again.
    pub fn listen_again(&mut self, now: Time) {
        self.state.stop_listening(now);
        let _ = self.state.listen(self.backlog);
    }

    /// A datagram has come.
    pub fn handle(&mut self, from: SocketAddr, bytes: &[u8], at: Time) {
        self.state.handle(from, bytes, at);
    }

    /// Some of the datagrams that leave now; none: there are no more.
    pub fn transmit(&mut self, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut batch = Batch::default();
        self.state.poll_transmit(now, &mut batch);
        batch.rest().map(|(to, _, bytes)| (to, bytes.to_vec())).collect()
    }

    /// When something is due.
    pub fn deadline(&self) -> Time {
        self.state.deadline()
    }

    /// See [`Endpoint::connections`](super::Endpoint::connections).
    pub fn connections(&self) -> usize {
        self.state.connections()
    }
}
