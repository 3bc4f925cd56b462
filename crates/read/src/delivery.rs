//! What the engine's threads see of a read.

use inhaul_session::api::error::MoveError;

/// Where a read's bytes are handed out.
pub(super) trait Delivery: Send + Sync {
    /// Verified bytes for the destination: those of range `index`, from `offset` of it on.
    fn write(&self, index: usize, offset: u64, bytes: &[u8]);
    /// It ends early.
    fn fail(&self, error: MoveError);
    /// Nobody waits for it any more: all is there, or it has failed.
    fn is_over(&self) -> bool;
}
