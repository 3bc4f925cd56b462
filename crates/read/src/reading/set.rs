//! An open data set and its mirrors, as the data thread keeps them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use inhaul_base::{ByteRange, RangeSet, Time};
use inhaul_session::api::error::{FileProblem, MoveError};
use inhaul_session::api::source::{Server, Source};
use inhaul_session::session::groups::Groups;
use inhaul_sources::Roster;
use inhaul_store::{digest, printable};
use inhaul_transport::FlowId;

use crate::memory::Active;
use crate::names::Names;
use crate::order::{SetId, SetStats};
use crate::parts::Wanted;
use crate::roots::Roots;
use crate::votes::{Proving, Votes};

/// An open data set.
pub(super) struct Set {
    pub(super) source: Source,
    pub(super) groups: Groups,
    pub(super) holes: RangeSet,
    pub(super) identity: digest::Hash,
    /// The mirrors that are away.
    pub(super) roster: Roster,
    pub(super) mirrors: Vec<FlowId>,
    /// Of these, the ones that can prove what they and others deliver: inhaul servers.
    pub(super) provers: Vec<FlowId>,
    /// Since when there is no mirror, and why; while there is none.
    pub(super) alone: Option<(Time, String)>,
    /// Parts that nobody has begun: those that somebody waits for, and others.
    pub(super) waiting: VecDeque<Wanted>,
    pub(super) ahead: VecDeque<Wanted>,
    /// Parts that overlap one that is under way.
    pub(super) blocked: Vec<Wanted>,
    /// The endpoint knows of it.
    pub(super) has_begun: bool,
    /// When it was opened, and the mirrors that had not answered then and have not since.
    pub(super) opened: Time,
    pub(super) unheard: BTreeSet<Server>,
    pub(super) votes: Votes,
    pub(super) roots: BTreeMap<usize, Roots>,
    pub(super) names: Arc<Names>,
    /// Files that cannot be had.
    pub(super) failed: BTreeMap<usize, FileProblem>,
    pub(super) stats: SetStats,
}

/// A mirror of a data set, and its flow.
pub(super) struct Mirror {
    pub(super) set: SetId,
    pub(super) server: Server,
    pub(super) opened: Option<Time>,
    /// Its data set has bytes, so that its path opens.
    pub(super) has_data: bool,
    /// How often in a row it was lost before it had stood for a while.
    pub(super) falls: u32,
    pub(super) proving: Proving,
    /// Groups of which it has other bytes than most mirrors.
    pub(super) differing: BTreeSet<u64>,
}

impl Set {
    /// Whether a part is right without a proof: all of its group lies in a hole, or no mirror could prove it; and nobody
    /// has pinned the file.
    pub(super) fn needs_none(&self, part: &Active) -> bool {
        let is_hole = !self.holes.is_empty() && self.groups.holes().contains(ByteRange::at(part.wanted.of.group, 1));
        (is_hole || !self.is_provable()) && !self.roots.contains_key(&part.wanted.file)
    }

    /// Whether one of its mirrors can prove what is read.
    pub(super) fn is_provable(&self) -> bool {
        self.source.mirrors.iter().any(|server| server.url.is_none())
    }

    /// Whether nothing can be read now: no mirror is there, or none that proves it.
    pub(super) fn is_alone(&self) -> bool {
        self.mirrors.is_empty() || self.is_provable() && self.provers.is_empty()
    }

    /// Its mirrors that are not there.
    pub(super) fn lacking(&self, mirrors: &BTreeMap<FlowId, Mirror>) -> Vec<Server> {
        let is_there = |server: &Server| self.mirrors.iter().any(|flow| mirrors[flow].server == *server);
        self.source.mirrors.iter().filter(|server| !is_there(server)).cloned().collect()
    }

    /// Over how many levels the way from a group to its file's hash must be proven: none, if nobody has pinned it.
    pub(super) fn levels(&self, file: usize, group: u64) -> u8 {
        let levels = |roots: &Roots| roots.levels(group - self.groups.of_file(file).start) as u8;
        self.roots.get(&file).map_or(0, levels)
    }

    /// Has parts begun when it is their turn.
    pub(super) fn queue(&mut self, parts: Vec<Wanted>) {
        for part in parts {
            if part.urgent { self.waiting.push_back(part) } else { self.ahead.push_back(part) }
        }
    }

    pub(super) fn file_error(&self, file: usize, problem: FileProblem) -> MoveError {
        let path = self.groups.manifest().entries().get(file).map(|entry| printable(&entry.path)).unwrap_or_default();
        MoveError::SourceFile { path, problem }
    }
}
