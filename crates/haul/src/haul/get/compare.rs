//! Compares existing files with those at the source by their hashes (`get --checksum`).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use inhaul_base::ByteRange;
use inhaul_store::{Plan, digest, is_zeros};

use crate::haul::digest_plan::DigestPlan;
use crate::haul::get::Found;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Stop};
use inhaul_session::session::connect::{Session, Wanted};
use inhaul_session::session::frame::{Frame, GroupDigest, MAX_RUNS, SessionRole};
use inhaul_session::session::groups::Groups;
use inhaul_session::session::patience::Patience;

/// Groups whose digests are asked for at once.
const GROUPS_AHEAD: u64 = 4096;

/// Decides for each file that is at its place with the right size whether it is the same, by the digests of the data
/// set's first mirror: over a session of its own, which ends with it.
pub(crate) fn by_bytes(plan: &mut Plan, found: &Found, options: &GetOptions, stop: &Stop) -> Result<(), MoveError> {
    let candidates: BTreeSet<usize> = plan.same_size().into_iter().collect();
    let Some(server) = found.sessions.first().map(|session| session.server.clone()) else { return Ok(()) };
    if candidates.is_empty() {
        return Ok(());
    }
    let mut session = Session::connect(&server, SessionRole::Fetch, Wanted::of(&options.net))?;
    let path = found.request.path_at(&server).unwrap_or_default();
    if session.open(path, options.owner, options.attributes, 0)?.identity() != found.manifest.identity() {
        return Err(MoveError::SourceChanged { server });
    }
    let groups = Groups::new(found.manifest.clone());
    let mut existing = Existing { plan, groups: &groups, open: None, buffer: Vec::new(), different: BTreeSet::new() };
    for &file in &candidates {
        existing.compare_holes(file, stop)?;
    }
    let is_open = |file: usize| candidates.contains(&file) && !existing.different.contains(&file);
    let wanted = DigestPlan::new(&groups, is_open, &BTreeSet::new());
    let mut patience = Patience::for_digests(stop);
    let mut asked = 0;
    while asked < wanted.count() {
        let runs: Vec<_> = wanted.between(asked, asked + GROUPS_AHEAD).take(MAX_RUNS).collect();
        asked += runs.iter().map(|run| run.count).sum::<u64>();
        session.send(&Frame::DigestsOf { runs: runs.clone() })?;
        for run in runs {
            let mut next = run.first;
            while next < run.first + run.count {
                if stop.is_set() {
                    return Err(MoveError::Interrupted);
                }
                for value in session.digests(next, run.first + run.count - next, &mut patience)? {
                    existing.compare(next, &value)?;
                    next += 1;
                }
            }
        }
    }
    let different = existing.different;
    for file in candidates {
        plan.settle(file, !different.contains(&file));
    }
    session.send(&Frame::Finish)
}

/// The files that are there, read in order.
struct Existing<'a> {
    plan: &'a Plan,
    groups: &'a Groups,
    open: Option<(usize, File)>,
    buffer: Vec<u8>,
    different: BTreeSet<usize>,
}

impl Existing<'_> {
    /// Compares the groups of a file that are holes at the source: nothing may be stored there but zeros.
    fn compare_holes(&mut self, file: usize, stop: &Stop) -> Result<(), MoveError> {
        let size = self.groups.manifest().entries()[file].size;
        let mut runs = self.groups.holes_of_file(file).peekable();
        if runs.peek().is_none() {
            return Ok(());
        }
        let opened = self.plan.open_existing(file)?;
        for run in runs {
            let start = digest::group_range(size, run.start).start;
            let range = ByteRange::new(start, digest::group_range(size, run.end - 1).end);
            // One that cannot be read is not the same.
            match is_zeros(&opened, range, || !stop.is_set()).unwrap_or(Some(false)) {
                Some(true) => {}
                Some(false) => _ = self.different.insert(file),
                None => return Err(MoveError::Interrupted),
            }
        }
        Ok(())
    }

    /// Compares a group of a file that is there with the source's digest of it.
    fn compare(&mut self, group: u64, theirs: &GroupDigest) -> Result<(), MoveError> {
        let place =
            self.groups.place(group).ok_or_else(|| MoveError::Internal(format!("there is no group {group}")))?;
        if self.different.contains(&place.file) {
            return Ok(());
        }
        let file = match self.open.take() {
            Some((index, file)) if index == place.file => file,
            _ => self.plan.open_existing(place.file)?,
        };
        let size = self.groups.manifest().entries()[place.file].size;
        let range = digest::group_range(size, place.group);
        self.buffer.resize(range.len() as usize, 0);
        // A file that has become shorter, or cannot be read, is not the same.
        let is_read = file.read_exact_at(&mut self.buffer, range.start).is_ok();
        if !is_read || digest::group_digest(size, place.group, &self.buffer) != *theirs {
            self.different.insert(place.file);
        }
        self.open = Some((place.file, file));
        Ok(())
    }
}
