//! Messages between the verifier, the threads beside it, and the data thread.

use std::sync::mpsc::Sender;

use inhaul_store::digest;
use inhaul_udp::Waker;

use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::GroupDigest;

/// What the verifier is told.
#[derive(Debug)]
pub(crate) enum Task {
    /// All bytes of a group have come, and have been written.
    Whole { object: usize, group: u64 },
    /// A group that an earlier transfer has left was read back: its digest, unless it is not what it was.
    Held { object: usize, group: u64, digest: Option<GroupDigest> },
    /// The source's digests of consecutive groups.
    Digests { object: usize, first_group: u64, values: Vec<GroupDigest> },
    /// No source of the object says anything of its groups: what has come of it counts as it is, but for what is known
    /// of whole files.
    Trust { object: usize },
    /// Another digest of a group counts than the one that was told; or it is not known any more which one does.
    Correct { object: usize, group: u64, digest: Option<GroupDigest> },
    /// No more comes of a file, for this reason: unless all of it is verified, it does not land. What has come of it is
    /// kept for a later transfer, or not.
    GiveUp { object: usize, file: usize, error: MoveError, keep: bool },
}

/// What the verifier has found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// A group of this many bytes agrees with its source. An earlier transfer may have left it.
    Verified { object: usize, group: u64, bytes: u64, resumed: bool },
    /// A group that an earlier transfer has left is not there any more.
    Gone { object: usize, group: u64 },
    /// A group differs from what its source says of it: one that an earlier transfer has left, or for the first or
    /// second time one that has come.
    Wrong { object: usize, group: u64 },
    /// A group was verified by a digest that does not count any more.
    Unverified { object: usize, group: u64 },
    /// The same, of a file that is whole and gets its name. `decided`: another digest does count.
    TooLate { object: usize, group: u64, decided: bool },
    /// A file is as its mirrors have it, and not as a list has it. It may be tried with other digests, or given up.
    NotAsListed { object: usize, file: usize, error: MoveError },
    /// A file is verified and has its name. Its hash may have taken too long: see [`super::ToVerify::hash_holes`].
    FileDone { object: usize, file: usize, hash: Option<digest::Hash> },
    /// A file does not land, for this reason. This number of its groups was not verified.
    FileFailed { object: usize, file: usize, groups_left: u64, error: MoveError },
    /// All files of the object that land have their names, and will keep them.
    ObjectDone { object: usize },
    /// It cannot go on.
    Failed(MoveError),
}

/// Tells the data thread, and wakes it.
pub(super) fn report(findings: &Sender<Finding>, waker: &Waker, finding: Finding) {
    // The data thread may have ended; then the message is not needed.
    let _ = findings.send(finding);
    waker.wake();
}
