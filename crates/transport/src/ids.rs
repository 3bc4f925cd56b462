//! Names of flows, objects and connections.

/// A flow of an endpoint: one peer, one direction, one object. Chosen by the endpoint's user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// An object to fetch: bytes 0 to its size, from one flow or from several that offer the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// The id in a flow's datagrams of one direction, by which their receiving host finds the flow. That host chooses it at
/// random: unguessable, and unique on the port where its datagrams come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// No flow's: what carries it is for the port itself.
    pub const PORT: Self = Self(0);
    /// The id of no flow: a port puts it in the place of the id of a forged datagram.
    pub const NONE: Self = Self(u32::MAX);
}
