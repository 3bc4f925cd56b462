//! The files of a data set that failed, and why.

use std::collections::{BTreeMap, BTreeSet};

use inhaul_base::{ByteRange, RangeSet};
use inhaul_transport::FlowId;

use inhaul_session::session::frame::FileProblem;

/// The files of a data set that do not come, or not from everybody.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// The mirrors that cannot send a file, and the problem that the first of them reported.
    pub(super) lacking: BTreeMap<usize, (BTreeSet<FlowId>, FileProblem)>,
    /// The groups of files that were given up.
    pub(super) groups: RangeSet,
    /// Why the first of these were, in words, and how many there are.
    pub(super) texts: Vec<String>,
    pub(super) count: usize,
}

impl Failing {
    /// The part of `run` whose files were not given up.
    pub(super) fn without(&self, run: ByteRange) -> Vec<ByteRange> {
        self.groups.gaps(run)
    }

    /// What does not come, in words.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        let more = self.count - self.texts.len();
        let more = (more > 0).then(|| format!("{more} files more have failed"));
        self.texts.iter().cloned().chain(more)
    }
}
