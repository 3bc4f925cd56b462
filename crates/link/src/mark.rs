//! Marks of congestion instead of drops (ECN, RFC 3168).

/// A packet that a queue can mark to signal congestion.
pub trait Mark {
    /// Marks the packet. `false`: its sender has not declared that marks are read, so it has to be dropped instead.
    fn mark(&mut self) -> bool;
}
