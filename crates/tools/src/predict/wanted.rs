//! The data that a transfer would fetch.

use inhaul_store::{Fate, Plan};

/// What would land.
pub(super) struct Wanted {
    pub(super) bytes: u64,
    pub(super) files: usize,
    pub(super) files_kept: usize,
}

impl Wanted {
    pub(super) fn of<'p>(plans: impl Iterator<Item = &'p Plan>) -> Self {
        let mut wanted = Self { bytes: 0, files: 0, files_kept: 0 };
        for plan in plans {
            wanted.bytes = wanted.bytes.saturating_add(plan.bytes());
            wanted.files += plan.files().iter().filter(|fate| fate.lands()).count();
            wanted.files_kept += plan.files().iter().filter(|&&fate| fate == Fate::Keep).count();
        }
        wanted
    }
}
