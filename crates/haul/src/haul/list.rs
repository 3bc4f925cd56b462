//! `ls`: lists what a server offers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use inhaul_base::byte_text::text_of;
use inhaul_store::{Kind, Listed, ListedKind, digest};

use crate::haul::digest_plan::DigestPlan;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::Stop;
use inhaul_session::api::source::{Server, Source};
use inhaul_session::api::trust::Trust;
use inhaul_session::session::connect::{Session, Wanted, first_of};
use inhaul_session::session::frame::{Frame, GroupDigest, GroupRun, MAX_RUNS, SessionRole};
use inhaul_session::session::groups::Groups;
use inhaul_session::session::patience::Patience;

/// Groups whose digests are asked for at once.
const GROUPS_AHEAD: u64 = 4096;

/// Shows `each` what there is at `source`: a file itself; of a directory what lies in it or, `recursive`, all beneath
/// it, in the order of names and while it is read. Ends early when `each` says no. The first mirror that answers is
/// asked.
///
/// # Errors
/// When no mirror answers, or the one that does has no such thing; then of the last that was tried.
pub fn list(
    source: &Source,
    trust: &Trust,
    recursive: bool,
    each: &mut dyn FnMut(Listed) -> bool,
) -> Result<(), MoveError> {
    let path = source.path.clone();
    let (mut session, mut patience, (mut items, mut last)) = first_answer(source, trust, move |session| {
        let mut patience = Patience::for_listing();
        session.list(&path, recursive)?;
        let first = session.listing(&mut patience)?;
        Ok((patience, first))
    })
    .map(|(session, (patience, first))| (session, patience, first))?;
    while items.into_iter().all(&mut *each) && !last {
        (items, last) = session.listing(&mut patience)?;
    }
    Ok(())
}

/// The source as the same server, or these mirrors, will have it when more is offered there: one that is all of the only
/// directory gets the name of that, which it may be without. The first mirror that answers is asked.
///
/// # Errors
/// As [`list`].
pub fn in_full(source: &Source, trust: &Trust) -> Result<Source, MoveError> {
    if !source.path.is_empty() {
        return Ok(source.clone());
    }
    let at = |path: &str| {
        let mut found = Vec::new();
        let source = Source { path: path.to_owned(), ..source.clone() };
        // Two suffice to know that there is not one.
        let each = &mut |item: Listed| {
            found.push((item.path, item.kind));
            found.len() < 2
        };
        list(&source, trust, false, each).map(|()| found)
    };
    // `Offered::NAMES`, and what there is without a name.
    match at("/")?.as_slice() {
        [(name, ListedKind::Directory)] if at("")? != [(name.clone(), ListedKind::Directory)] => {
            Ok(Source { path: text_of(name), ..source.clone() })
        }
        _ => Ok(source.clone()),
    }
}

/// Shows `each` every file at `source`, each name of it, with its BLAKE3 hash, until it says no. The first mirror that
/// answers is asked; it hashes what it does not remember.
///
/// # Errors
/// When no mirror answers, when the one that does has no such thing, or when that cannot be read.
pub fn list_checksums(
    source: &Source,
    trust: &Trust,
    each: &mut dyn FnMut(Listed, digest::Hash) -> bool,
) -> Result<(), MoveError> {
    let path = source.path.clone();
    let (mut session, manifest) = first_answer(source, trust, move |session| session.open(&path, false, false, 0))?;
    let manifest = Arc::new(manifest);
    let mut links: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for link in manifest.hard_links() {
        links.entry(&link.file).or_default().push(&link.path);
    }
    let groups = Groups::new(Arc::clone(&manifest));
    let plan = DigestPlan::new(&groups, |_| true, &BTreeSet::new());
    let mut digests = Digests {
        session: &mut session,
        plan,
        asked: 0,
        runs: VecDeque::new(),
        values: VecDeque::new(),
        patience: Patience::for_digests(&Stop::new()),
    };
    for (file, entry) in manifest.entries().iter().enumerate() {
        let hash = hash_of(&groups, file, &mut digests)?;
        let own: &[u8] = if manifest.kind() == Kind::File { b"" } else { &entry.path };
        for path in [own].iter().chain(links.get(own).into_iter().flatten()) {
            let (kind, modified) = (ListedKind::File, entry.metadata.modified);
            if !each(Listed { path: path.to_vec(), kind, size: entry.size, modified }, hash) {
                return Ok(());
            }
        }
    }
    session.send(&Frame::Finish)
}

/// The hash of a file: its groups of data by the server's digests, its holes by ourselves.
fn hash_of(groups: &Groups, file: usize, digests: &mut Digests<'_>) -> Result<digest::Hash, MoveError> {
    let entry = &groups.manifest().entries()[file];
    let mut tree = digest::Tree::new(entry.size);
    for group in 0..digest::group_count(entry.size) {
        let is_hole = entry.is_hole_group(group);
        let value = if is_hole { digest::zero_group_digest(entry.size, group) } else { digests.next()? };
        if let Some(hash) = tree.insert(group, value) {
            return Ok(hash);
        }
    }
    Err(MoveError::Internal("a file has no hash".to_owned()))
}

/// The digests of a plan, in its order, as the server sends them.
struct Digests<'s> {
    session: &'s mut Session,
    plan: DigestPlan,
    /// Up to which position they have been asked for.
    asked: u64,
    /// What has been asked for and has not come.
    runs: VecDeque<GroupRun>,
    values: VecDeque<GroupDigest>,
    /// For those that have been asked for.
    patience: Patience,
}

impl Digests<'_> {
    fn next(&mut self) -> Result<GroupDigest, MoveError> {
        loop {
            if let Some(value) = self.values.pop_front() {
                return Ok(value);
            }
            let Some(run) = self.runs.front_mut() else {
                self.runs = self.plan.between(self.asked, self.asked + GROUPS_AHEAD).take(MAX_RUNS).collect();
                self.asked += self.runs.iter().map(|run| run.count).sum::<u64>();
                self.patience = Patience::for_digests(&Stop::new());
                self.session.send(&Frame::DigestsOf { runs: self.runs.iter().copied().collect() })?;
                continue;
            };
            self.values = self.session.digests(run.first, run.count, &mut self.patience)?.into();
            run.first += self.values.len() as u64;
            run.count -= self.values.len() as u64;
            if run.count == 0 {
                self.runs.pop_front();
            }
        }
    }
}

/// A session with the first server of `source` that answers what `ask` asks, and its answer.
fn first_answer<T: Send + 'static>(
    source: &Source,
    trust: &Trust,
    ask: impl Fn(&mut Session) -> Result<T, MoveError> + Send + Sync + 'static,
) -> Result<(Session, T), MoveError> {
    type Job<T> = Box<dyn FnOnce() -> Result<(Session, T), MoveError> + Send>;
    let ask = Arc::new(ask);
    let job = |server: &Server| {
        let (server, trust, ask) = (server.clone(), trust.clone(), Arc::clone(&ask));
        Box::new(move || {
            // No data will flow, so any transport would do.
            let mut session = Session::connect(&server, SessionRole::Fetch, Wanted::no_data(&trust))?;
            let answer = ask(&mut session)?;
            Ok((session, answer))
        }) as Job<T>
    };
    first_of(source.mirrors.iter().map(job).collect())
}
