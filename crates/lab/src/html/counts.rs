//! Counts of items that passed, failed, are invalid, or were not run.

use super::item::Item;
use super::words::Outcome;

/// The number of items by verdict. An item with several results counts as the worst result whose settings are the
/// experiment's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Every check passed.
    pub passed: usize,
    /// A check did not pass.
    pub failed: usize,
    /// A run broke a rule, so that it proves nothing.
    pub invalid: usize,
    /// There are results, but all of them with changed settings.
    pub changed: usize,
    /// There is no result.
    pub not_run: usize,
}

impl Counts {
    pub(super) fn of<'a>(items: impl IntoIterator<Item = &'a Item<'a>>) -> Self {
        let mut counts = Self::default();
        for item in items {
            match item.outcome() {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Invalid => counts.invalid += 1,
                Outcome::Changed => counts.changed += 1,
                Outcome::NotRun => counts.not_run += 1,
            }
        }
        counts
    }

    /// In words, as `3 passed, 1 failed, 0 invalid, 13 not run`.
    pub fn line(&self) -> String {
        let Self { passed, failed, invalid, changed, not_run } = self;
        let changed = if *changed == 0 { String::new() } else { format!("{changed} with changed settings only, ") };
        format!("{passed} passed, {failed} failed, {invalid} invalid, {changed}{not_run} not run")
    }
}
