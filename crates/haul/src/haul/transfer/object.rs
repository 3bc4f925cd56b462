//! One data set of a transfer: which parts have landed, and which digests are known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use inhaul_base::{ByteRange, Time};
use inhaul_store::{HeldGroup, Landing, digest};
use inhaul_transport::FlowId;

use super::comparison::Comparison;
use super::contradictions::Contradictions;
use super::failing_files::Failing;
use crate::haul::digest_plan::DigestPlan;
use crate::haul::tally::Tally;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::request::KnownSums;
use inhaul_session::api::source::{Server, Source};
use inhaul_session::session::frame::{GroupRun, MAX_RUNS};
use inhaul_session::session::groups::Groups;
use inhaul_sources::RangeSource;

/// Groups whose digests may be asked for before they are needed, and their bytes: enough for small files not to wait a
/// round trip for digests, and for the source's hasher not to read large ones long before they are sent.
const DIGESTS_AHEAD: u64 = 32_768;
const DIGESTED_BYTES_AHEAD: u64 = 1 << 30;

/// Most bytes of holes that are hashed for a data set unasked, in about a quarter of a second. BLAKE3 counts its
/// chunks: a hole costs as much as data, and a hole may be as large as a peer likes.
const HASHED_HOLES_MAX: u64 = 1 << 30;

/// How a data set was found.
#[derive(Debug)]
pub(crate) struct Sought {
    /// Its place among the requests.
    pub(crate) request: usize,
    /// What its mirrors have to agree with.
    pub(crate) identity: digest::Hash,
    /// Mirrors that have not answered yet and are being tried.
    pub(crate) late: Vec<Server>,
    /// Of these, the ones that have not failed either: nothing is known of them.
    pub(crate) unheard: Vec<Server>,
    /// Mirrors that are read by ranges, until they join.
    pub(crate) ranges: Vec<(Server, Arc<dyn RangeSource>)>,
}

/// One data set and where it lands.
pub(crate) struct Object {
    pub(crate) source: Source,
    pub(crate) sought: Sought,
    pub(crate) landing: Arc<Landing>,
    pub(super) groups: Groups,
    /// Expected checksums from a list, such as a Metalink.
    pub(crate) sums: KnownSums,
    pub(super) tally: Tally,
    /// The files that land.
    pub(super) files: usize,
    /// Bytes of the files that land.
    pub(super) bytes: u64,
    /// Of these, the ones in holes.
    pub(super) hole_bytes: u64,
    /// Of these, the ones of groups that lie in holes as a whole: they are as they should be from the start.
    pub(super) hole_group_bytes: u64,
    /// Whether the hash of every file is wanted, whatever holes it has.
    pub(super) hash_holes: bool,
    pub(super) mirrors: Vec<FlowId>,
    /// So many of them are there from the beginning: nothing is settled before they are.
    pub(super) first_mirrors: usize,
    /// Bytes that were placed, and what that came to when it was looked at last, and since when it has been that.
    pub(super) placed_bytes: u64,
    pub(super) placed_then: u64,
    pub(super) placed_since: Time,
    /// The order in which digests are asked for.
    pub(super) plan: DigestPlan,
    /// What the mirrors say of its groups.
    pub(super) comparison: Comparison,
    /// What mirrors have said that contradict each other, of files whose hashes are known.
    pub(super) contradictions: Contradictions,
    /// Groups that have come as a whole, those that were fetched again once more.
    pub(super) come_groups: u64,
    /// Since when nothing more has to come, unless something turns out to be wrong.
    pub(super) complete_since: Option<Time>,
    /// All that is missing came with the description: no flow has begun.
    pub(super) is_early: bool,
    /// So many of its first bytes came with the description, of which there are more, and are not placed yet.
    pub(super) first_bytes: u64,
    pub(super) verified_groups: u64,
    /// Groups that an earlier transfer has left, and that have not turned out to be wrong.
    pub(super) held: BTreeSet<u64>,
    pub(super) held_bytes: u64,
    /// The user knows already that some of it is wrong.
    pub(super) told_of_gone: bool,
    pub(super) told_of_change: bool,
    /// Files that do not come, or not from everybody.
    pub(super) failing: Failing,
    /// The verifier was told that no source says anything of its groups.
    pub(crate) is_trusted: bool,
    pub(super) done: bool,
    /// Why no more of it comes, while other data sets do.
    pub(crate) failure: Option<MoveError>,
    /// The files that are done, and the hash of each, unless it would have taken too long: see [`HASHED_HOLES_MAX`].
    pub(crate) finished: BTreeMap<usize, Option<digest::Hash>>,
}

impl Object {
    /// `hash_all`: the hash of every file is wanted.
    pub(crate) fn new(source: Source, sought: Sought, landing: Landing, sums: KnownSums, hash_all: bool) -> Self {
        let groups = Groups::new(Arc::clone(landing.manifest()));
        // Bytes that need not come: of files that do not land, of holes, which are zeros by themselves, and of what an
        // earlier transfer has brought.
        let unwanted = landing.plan().unwanted();
        let mut free = groups.manifest().holes();
        for range in unwanted.iter() {
            free.insert(range);
        }
        let number = |held: &HeldGroup| groups.of_file(held.file).start + held.group;
        let held: BTreeSet<u64> = landing.resumed().groups.iter().map(number).collect();
        let ranges = || held.iter().filter_map(|&number| groups.place(number)).map(|place| place.range);
        let held_bytes: u64 = ranges().map(ByteRange::len).sum();
        for range in ranges() {
            free.insert(range);
        }
        let landing_files = || (0..groups.manifest().entries().len()).filter(|&file| landing.lands(file));
        let hole_group_bytes: u64 = landing_files().map(|file| groups.hole_bytes(file)).sum();
        Self {
            source,
            sought,
            files: landing_files().count(),
            bytes: groups.manifest().size() - unwanted.covered(),
            hole_bytes: free.covered() - unwanted.covered() - held_bytes,
            hole_group_bytes,
            hash_holes: hash_all || hole_group_bytes <= HASHED_HOLES_MAX,
            tally: Tally::new(free),
            plan: DigestPlan::new(&groups, |file| landing.lands(file), &held),
            held_bytes,
            held,
            told_of_gone: false,
            told_of_change: false,
            groups,
            sums,
            landing: Arc::new(landing),
            mirrors: Vec::new(),
            first_mirrors: 0,
            placed_bytes: 0,
            placed_then: 0,
            placed_since: Time::ZERO,
            comparison: Comparison::default(),
            contradictions: Contradictions::default(),
            come_groups: 0,
            complete_since: None,
            is_early: false,
            first_bytes: 0,
            verified_groups: 0,
            failing: Failing::default(),
            is_trusted: false,
            done: false,
            failure: None,
            finished: BTreeMap::new(),
        }
    }

    /// Whether no more of it comes, while other data sets do.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(super) fn size(&self) -> u64 {
        self.groups.manifest().size()
    }

    /// Up to which position digests may be asked for now.
    pub(super) fn digests_wanted(&self) -> u64 {
        let mut end = self.groups_come();
        let mut left = DIGESTED_BYTES_AHEAD;
        for run in self.plan.between(end, end + DIGESTS_AHEAD) {
            for group in run.first..run.first + run.count {
                let bytes = self.groups.place(group).map_or(0, |place| place.range.len());
                let Some(rest) = left.checked_sub(bytes) else { return end };
                left = rest;
                end += 1;
            }
        }
        end
    }

    /// The runs of groups between two positions whose digests are to be asked for, and the position behind them.
    pub(super) fn runs_between(&self, start: u64, end: u64) -> (Vec<GroupRun>, u64) {
        let (mut runs, mut asked) = (Vec::new(), start);
        for run in self.plan.between(start, end) {
            for part in self.failing.without(ByteRange::at(run.first, run.count)) {
                if runs.len() == MAX_RUNS {
                    return (runs, asked + (part.start - run.first));
                }
                runs.push(GroupRun { first: part.start, count: part.len() });
            }
            asked += run.count;
        }
        (runs, asked)
    }

    /// A group is not what an earlier transfer has left, or not any more; false if none has left it.
    pub(super) fn drop_held(&mut self, group: u64) -> bool {
        let Some(place) = self.groups.place(group) else { return false };
        let was_held = self.held.remove(&group);
        if was_held {
            self.held_bytes -= place.range.len();
            self.landing.drop_held(place.file, place.group);
        }
        was_held
    }
}
