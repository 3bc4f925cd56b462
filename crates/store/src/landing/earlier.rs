//! The journal of an earlier landing, and whether a plan can be carried out with it.

use std::sync::Arc;

use super::lacking;
use super::options::LandingOptions;
use crate::Kind;
use crate::beneath::split;
use crate::destination::Destination;
use crate::digest::{GroupDigest, group_range};
use crate::journal::{Change, Damage, Journal, OpenError, Opened, Replay};
use crate::landing_error::LandingError;
use crate::partial::partial_beside;
use crate::plan::{Existing, Plan};

/// The state of an earlier transfer to continue from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Groups that the journal records. They are read back and compared before they count.
    pub groups: Vec<HeldGroup>,
    /// Changes of the data set since then.
    pub changes: Vec<Change>,
    /// The unreadable part of the journal.
    pub damage: Option<Damage>,
}

/// A group that an earlier transfer has verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldGroup {
    /// The file, by its index in the manifest.
    pub file: usize,
    /// The group's number in the file.
    pub group: u64,
    /// The digest that it had.
    pub digest: GroupDigest,
    /// Whether a sync has brought it to the disk.
    pub synced: bool,
}

/// Opens the journal of the landing at `destination`, or makes one.
pub(super) fn open_journal(destination: &Destination) -> Result<(Journal, Opened, Replay), LandingError> {
    Journal::open(destination.reopen()?, destination.journal_name()).map_err(|error| journal_error(destination, &error))
}

/// Reads the journal of the landing at `destination`, if there is one.
pub(super) fn look_at_journal(destination: &Destination) -> Result<(Opened, Replay), LandingError> {
    Journal::look(&destination.reopen()?, &destination.journal_name())
        .map_err(|error| journal_error(destination, &error))
}

fn journal_error(destination: &Destination, error: &OpenError) -> LandingError {
    let path = destination.journal_path();
    match *error {
        OpenError::Locked => LandingError::Busy { path: destination.target() },
        OpenError::NotAJournal => LandingError::NotAJournal { path },
        OpenError::System(errno) => LandingError::from_errno("open", path, errno),
    }
}

/// Adapts an earlier transfer's state to the plan, and checks that the plan can be carried out. Returns the usable part
/// of the journal, the changes since, and whether only the journal permits adding to the target directory. `may_try`:
/// whether a link may be made as a trial.
pub(super) fn take_stock(
    plan: &mut Plan,
    opened: &Opened,
    replay: Replay,
    options: LandingOptions,
    may_try: bool,
) -> Result<(Replay, Vec<Change>, bool), LandingError> {
    if !options.fresh && options.existing != Existing::Replace {
        check_same(&replay, plan)?;
    }
    let (replay, changes) =
        if options.fresh { (Replay::default(), Vec::new()) } else { replay.adopt((*plan.manifest).clone()) };
    replay.named.iter().for_each(|(&file, named)| plan.go_on_with(file, named.size));
    if !replay.named.is_empty() {
        plan.go_on_with_links();
    }
    // If a damaged journal permitted adding to a directory, nothing else shows that the directory is ours.
    let mut needs_journal = false;
    if opened.was_there {
        needs_journal = plan.go_on();
    }
    if let (Kind::Directory, Ok(Some(base))) = (plan.manifest.kind(), plan.destination.open_target()) {
        let manifest = Arc::clone(&plan.manifest);
        plan.forgive_links(|link| {
            let partial = partial_beside(&manifest, &link.path);
            lacking::lacks(&base, link, split(&partial).1, may_try)
        });
    }
    if let Some((obstacle, _)) = plan.obstacles() {
        return Err(obstacle);
    }
    let needed = plan.bytes().saturating_sub(held_bytes(&replay, plan));
    plan.destination.check_space(needed.saturating_add(options.other_bytes))?;
    plan.check_file_sizes()?;
    Ok((replay, changes, needs_journal))
}

/// Checks that no verified bytes of another data set would be discarded without the user's consent.
fn check_same(replay: &Replay, plan: &Plan) -> Result<(), LandingError> {
    let (path, bytes) = (plan.target(), replay.bytes_of_another(&plan.manifest));
    let name = replay.manifest.as_ref().map(|before| before.name().to_vec()).unwrap_or_default();
    if bytes == 0 { Ok(()) } else { Err(LandingError::HasAnother { path, name, bytes }) }
}

/// The bytes of the journal's groups in files that land.
fn held_bytes(replay: &Replay, plan: &Plan) -> u64 {
    let lands = |file: usize| plan.files().get(file).is_some_and(|fate| fate.lands());
    let size = |file: usize| plan.manifest.entries().get(file).map_or(0, |entry| entry.size);
    let groups = replay.verified.keys().filter(|&&(file, _)| lands(file));
    groups.map(|&(file, group)| group_range(size(file), group).len()).sum()
}
