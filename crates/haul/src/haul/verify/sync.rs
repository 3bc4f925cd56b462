//! Syncs verified data to the disk during the transfer, so that little is lost in a power failure.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use inhaul_store::Landing;

use inhaul_session::api::error::MoveError;
use inhaul_session::system::threads;

/// Bytes that may be verified before they are brought to the disk. While the disk takes longer than that for the ones
/// before, more may gather: a transfer does not wait for it. A disk that keeps up has all but twice this.
pub(super) const SYNC_BYTES: u64 = 8 << 20;
/// What is verified waits no longer than this for a sync to begin. A transfer that takes less time is synced only as
/// its files get their names.
const SYNC_WAIT: Duration = Duration::from_secs(2);

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
            while wait(&asked, SYNC_WAIT) {
                // Where nothing has come since, this does nothing.
                if let Err(error) = landings.iter().try_for_each(|landing| landing.sync()) {
                    failed(error.into());
                    return;
                }
            }
        })?;
        Ok(Self { due, unsynced_bytes: 0 })
    }

    /// This many more bytes are verified.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            // Full: one is due already. Closed: the disk has failed, which has been said.
            let _ = self.due.try_send(());
        }
    }
}

/// Waits until a sync is due, but no longer than `patience`; false when no more will be.
fn wait(asked: &Receiver<()>, patience: Duration) -> bool {
    !matches!(asked.recv_timeout(patience), Err(RecvTimeoutError::Disconnected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_due_after_so_many_bytes_or_so_long() {
        let (due, asked) = sync_channel(1);
        let mut syncer = Syncer { due, unsynced_bytes: 0 };
        syncer.add(SYNC_BYTES - 1);
        assert!(asked.try_recv().is_err());
        syncer.add(1);
        syncer.add(3 * SYNC_BYTES);
        assert!(asked.try_recv().is_ok() && asked.try_recv().is_err(), "one covers all that came");
        assert!(wait(&asked, Duration::ZERO), "what has come waits no longer");
        drop(syncer);
        assert!(!wait(&asked, Duration::MAX));
    }
}
