//! Memory that clients have a server hold, bounded all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes, for all who share it.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    held: AtomicUsize,
}

/// A part of a budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// At most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0) })
    }

    /// The limit, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { of: Arc::clone(self), bytes: 0 }
    }

    /// How many bytes are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Holds `bytes` from now on, whatever it has held before. False, and nothing changes, when that is more than
    /// there is.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let held = self.bytes;
        let change = |all: usize| (all - held).checked_add(bytes).filter(|&all| all <= self.of.limit);
        let changed = self.of.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok();
        if changed {
            self.bytes = bytes;
        }
        changed
    }

    /// How many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_together_hold_no_more_than_the_limit() {
        let budget = Budget::new(100);
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.hold(60) && second.hold(40));
        assert!(!first.hold(61) && !second.hold(usize::MAX), "there is no more");
        assert_eq!((first.bytes(), second.bytes(), budget.held()), (60, 40, 100));
        assert!(second.hold(10) && first.hold(90));
        drop((first, second));
        assert_eq!(budget.held(), 0);
    }
}
