//! Names of the parts of a network.

use inhaul_transport::FlowId;

/// A host or a router of a [`Topology`](crate::Topology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A directed link of a [`Topology`](crate::Topology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// An endpoint on a host of a [`Simulation`](crate::Simulation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) u32);

/// A transfer of a [`Simulation`](crate::Simulation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub(crate) u32);

impl TransferId {
    /// The name of the transfer's flow at both of its endpoints.
    pub(crate) fn flow(self) -> FlowId {
        FlowId(self.0)
    }
}

/// A background traffic of a [`Simulation`](crate::Simulation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub(crate) u32);
