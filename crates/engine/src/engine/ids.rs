//! Names of what the engine drives.

/// An endpoint, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointId(pub(super) usize);

/// A socket, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId(pub(crate) u32);
