//! Marks of congestion instead of drops (ECN, RFC 3168).

/// A packet that a queue may mark as having met congestion.
pub trait Mark {
    /// Marks the packet. `false`: its sender has not said that marks are read, so it has to be dropped instead.
    fn mark(&mut self) -> bool;
}
