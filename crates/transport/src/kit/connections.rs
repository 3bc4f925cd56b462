//! A port's table of its flows: the lower half of every engine, real or simulated.

use std::net::IpAddr;

use super::{Index, Table};
use crate::{ConnectionId, FlowId};

/// The flows of a port: which flow a datagram is of, and what number the next one has that leaves.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    flows: Index<ConnectionId>,
    of: Table<FlowId, Outbound>,
    /// Above every packet number of forgotten flows: datagrams that still leave for one continue from here.
    forgotten: u64,
}

#[derive(Clone, Copy, Debug)]
struct Outbound {
    connection: ConnectionId,
    next: u64,
    asked: Option<IpAddr>,
}

impl Connections {
    /// The flow takes datagrams that carry `connection`, which no other flow has.
    pub fn insert(&mut self, connection: ConnectionId, flow: FlowId) {
        self.flows.insert(connection, flow);
        self.of.insert(flow, Outbound { connection, next: 0, asked: None });
    }

    /// Forgets a flow.
    pub fn remove(&mut self, flow: FlowId) {
        if let Some(of) = self.of.remove(&flow) {
            self.flows.remove(&of.connection);
            self.forgotten = self.forgotten.max(of.next);
        }
    }

    /// Whether the flow has been told of and is not forgotten.
    pub fn knows(&self, flow: FlowId) -> bool {
        self.of.contains_key(&flow)
    }

    /// The flow that takes datagrams with this connection id.
    pub fn flow(&self, connection: ConnectionId) -> Option<FlowId> {
        self.flows.get(&connection)
    }

    /// The flow's peer sends to this address of this host: what leaves for it leaves from there, or it would take it for
    /// a stranger's.
    pub fn note_asked(&mut self, flow: FlowId, address: IpAddr) {
        if let Some(of) = self.of.get_mut(&flow) {
            of.asked = Some(address);
        }
    }

    /// The address of this host that the flow's peer knows; `None` while only the system can tell.
    pub fn asked(&self, flow: FlowId) -> Option<IpAddr> {
        self.of.get(&flow)?.asked
    }

    /// Numbers for the next `count` datagrams that the flow sends: the first of them. They never repeat within a flow,
    /// not even when it has been forgotten and datagrams of it are still on their way out.
    pub fn take_numbers(&mut self, flow: FlowId, count: usize) -> u64 {
        let next = self.of.get_mut(&flow).map_or(&mut self.forgotten, |of| &mut of.next);
        let first = *next;
        *next += count as u64;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_leaves_from_the_address_that_its_peer_asked_last() {
        let mut connections = Connections::default();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        connections.note_asked(FlowId(1), one);
        assert_eq!(connections.asked(FlowId(1)), None, "it is not known yet");
        connections.insert(ConnectionId(7), FlowId(1));
        for address in [one, other] {
            connections.note_asked(FlowId(1), address);
            assert_eq!(connections.asked(FlowId(1)), Some(address));
        }
        connections.remove(FlowId(1));
        assert_eq!(connections.asked(FlowId(1)), None);
    }

    #[test]
    fn numbers_never_repeat_within_a_flow() {
        let mut connections = Connections::default();
        connections.insert(ConnectionId(7), FlowId(1));
        connections.insert(ConnectionId(8), FlowId(2));
        assert_eq!(connections.take_numbers(FlowId(1), 3), 0);
        assert_eq!(connections.take_numbers(FlowId(2), 1), 0);
        assert_eq!(connections.take_numbers(FlowId(1), 1), 3);
        assert_eq!(connections.flow(ConnectionId(7)), Some(FlowId(1)));
        connections.remove(FlowId(1));
        assert_eq!((connections.flow(ConnectionId(7)), connections.flow(ConnectionId(8))), (None, Some(FlowId(2))));
        assert_eq!(connections.take_numbers(FlowId(1), 2), 4, "what waited when it was forgotten");
        assert_eq!(connections.take_numbers(FlowId(1), 1), 6);
    }
}
