//! The keys of a port's flows, by flow and by connection.

use inhaul_transport::kit::{Index, Table};
use inhaul_transport::{ConnectionId, FlowId};

use super::opener::Opener;
use super::sealer::Sealer;
use super::secrets::FlowSecrets;

/// The keys of a port's flows. A flow without keys sends and receives in the clear.
pub struct Seals {
    flows: Index<ConnectionId>,
    keys: Table<FlowId, FlowKeys>,
    /// Refused datagrams of forgotten flows.
    refused_before: u64,
}

struct FlowKeys {
    connection: ConnectionId,
    sealer: Sealer,
    opener: Opener,
}

impl Default for Seals {
    fn default() -> Self {
        Self { flows: Index::new(), keys: Table::new(), refused_before: 0 }
    }
}

impl Seals {
    /// Seals the flow in both directions from now on. Its peer's datagrams carry `connection`. `probed_early`: it
    /// probed the path in the clear before it had keys, and echoes may still come (WIRE.md 4.2).
    pub fn insert(&mut self, flow: FlowId, connection: ConnectionId, secrets: &FlowSecrets, probed_early: bool) {
        self.remove(flow);
        let FlowSecrets { suite, outgoing, incoming } = secrets;
        let (sealer, opener) = (Sealer::new(*suite, outgoing), Opener::new(*suite, incoming, probed_early));
        self.flows.insert(connection, flow);
        self.keys.insert(flow, FlowKeys { connection, sealer, opener });
    }

    /// Forgets a flow's keys.
    pub fn remove(&mut self, flow: FlowId) {
        if let Some(keys) = self.keys.remove(&flow) {
            self.flows.remove(&keys.connection);
            self.refused_before += keys.opener.refused();
        }
    }

    /// Whether the flow is sealed.
    pub fn is_sealed(&self, flow: FlowId) -> bool {
        self.keys.contains_key(&flow)
    }

    /// The sealer of a flow; `None`: it sends in the clear.
    pub fn sealer(&mut self, flow: FlowId) -> Option<&mut Sealer> {
        self.keys.get_mut(&flow).map(|keys| &mut keys.sealer)
    }

    /// The opener for this connection id; `None`: no sealed flow has it.
    pub fn opener(&mut self, connection: ConnectionId) -> Option<&mut Opener> {
        let flow = self.flows.get(&connection)?;
        self.keys.get_mut(&flow).map(|keys| &mut keys.opener)
    }

    /// The connection id and the opener of a sealed flow.
    pub(crate) fn opener_of(&mut self, flow: FlowId) -> Option<(ConnectionId, &mut Opener)> {
        self.keys.get_mut(&flow).map(|keys| (keys.connection, &mut keys.opener))
    }

    /// How many of a flow's datagrams were repeated: see [`Opener::repeated`].
    pub fn repeated(&self, flow: FlowId) -> u64 {
        self.keys.get(&flow).map_or(0, |keys| keys.opener.repeated())
    }

    /// How many datagrams carried the connection id of a sealed flow and did not open: forged, changed on the way, or
    /// replayed.
    pub fn refused(&self) -> u64 {
        self.refused_before + self.keys.values().map(|keys| keys.opener.refused()).sum::<u64>()
    }
}
