//! Names of flows and objects.

/// A flow of an endpoint: one peer, one direction, one object. Chosen by whoever commands the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// What a receiver fetches: bytes 0 to its size, from one flow or from several that offer the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);
