//! Syncs verified data to the disk during the transfer, so that little is lost in a power failure.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use inhaul_store::Landing;

use crate::api::error::MoveError;
use crate::system::threads;

/// Bytes that may be verified before they are brought to the disk. While the disk takes longer than that for the ones
/// before, more may gather: a transfer does not wait for it.
const SYNC_BYTES: u64 = 8 << 20;

/// A thread that syncs. It ends when this is dropped and it is done with what it was doing.
#[derive(Debug)]
pub(crate) struct Syncer {
    due: SyncSender<()>,
    unsynced_bytes: u64,
}

impl Syncer {
    /// Calls `failed` when the disk fails.
    pub(crate) fn start(
        landings: Vec<Arc<Landing>>,
        failed: impl Fn(MoveError) + Send + 'static,
    ) -> Result<Self, MoveError> {
        // One that is due while another is under way covers all that came since.
        let (due, asked) = sync_channel(1);
        threads::spawn_helper("inhaul-sync", move || {
            while asked.recv().is_ok() {
                if let Err(error) = landings.iter().try_for_each(|landing| landing.sync()) {
                    failed(error.into());
                    return;
                }
            }
        })?;
        Ok(Self { due, unsynced_bytes: 0 })
    }

    /// So many bytes more are verified.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            // Full: one is due already. Closed: the disk has failed, which has been said.
            let _ = self.due.try_send(());
        }
    }
}
