//! First contact: which mirrors have the data sets, and which of them agree.
//!
//! A transfer begins with the first mirror that answers. The others have a short grace. So all mirrors that are up
//! vote on what the data set is, and the same command means the same each time. Mirrors that answer later may still
//! join ([`crate::haul::transfer`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use inhaul_base::Span;
use inhaul_store::{Manifest, digest, printable};

use super::Outcome;
use crate::haul::destination;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Progress, Stop, Update, Waiting};
use inhaul_session::api::report::{SourceReport, SourceStatus};
use inhaul_session::api::request::{Location, Request};
use inhaul_session::api::source::{Server, Source};
use inhaul_session::session::connect::{Session, at_once};
use inhaul_session::session::early;
use inhaul_sources::RangeSource;
use inhaul_sources::opener::{Candidate, MirrorId, Opener, Reached, Tried};

/// After the first answer the others have twice as long as that took, at least and at most this.
const GRACE_MIN: Duration = Duration::from_millis(250);
const GRACE_MAX: Duration = Duration::from_secs(1);
/// Answers that contradict each other are not acted upon before so long, while another mirror may yet decide.
const TIE_MAX: Duration = Duration::from_secs(10);
/// Of several data sets, the one that cannot be reached holds the others up for so long.
const OTHERS_WAIT: Duration = Duration::from_secs(30);
/// How often the stop flag and the clock are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often the user is told what the transfer waits for.
const TOLD: Duration = Duration::from_secs(1);

/// A data set that was found on some of its mirrors.
#[derive(Debug)]
pub struct Found {
    pub request: Request,
    /// Its place among the requests.
    pub(crate) index: usize,
    pub manifest: Arc<Manifest>,
    pub identity: digest::Hash,
    pub sessions: Vec<Session>,
    /// The mirrors that are read by ranges.
    pub ranges: Vec<(Server, Arc<dyn RangeSource>)>,
    /// Mirrors that take no part, or not yet.
    pub(super) absent: Vec<SourceReport>,
    /// The mirrors among them that are still being tried.
    pub late: Vec<Server>,
    /// Of these, the ones that have not failed either.
    pub unheard: Vec<Server>,
    /// Why they do not.
    warnings: Vec<String>,
}

/// Connects to every mirror of every data set at once, and asks each for its data set; waits for those that are not
/// there.
///
/// # Errors
/// When the user stops it. What does not come of a data set stands in its outcome.
pub fn find_all(
    options: &GetOptions,
    opener: &Opener,
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
) -> Result<Vec<Outcome<Found>>, MoveError> {
    let began = Instant::now();
    let requests = destination::place(&options.requests, &options.destination)?;
    let mut asked: Vec<Asked<'_>> = requests.iter().enumerate().map(Asked::new).collect();
    for one in &asked {
        for Location { server, .. } in &one.request.mirrors {
            opener.open(MirrorId { request: one.index, server: server.clone() })?;
        }
    }
    let mut told_at = began;
    loop {
        if stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        let now = Instant::now();
        let first_found = asked.iter().filter_map(|one| one.first).map(|first| first.at).min();
        let is_late = Span::from_secs_f64(began.elapsed().as_secs_f64()) >= opener.retry_for()
            || first_found.is_some_and(|at| now >= at + OTHERS_WAIT);
        if asked.iter().all(|one| one.is_decided(now, is_late)) {
            return Ok(asked.into_iter().map(|one| (one.request.source(), one.agree())).collect());
        }
        if now >= told_at {
            told_at = now + TOLD;
            tell_waiting(&asked, began, hear);
        }
        // The grace may end in less.
        let until = asked.iter().filter_map(Asked::grace_ends).filter(|&at| at > now).min().unwrap_or(now + LOOK);
        if let Some(tried) = opener.next((until - now).min(LOOK)) {
            let one = &mut asked[tried.mirror.request];
            if let Some(news) = one.take(tried, now) {
                hear(Update::Warning(news));
            }
        }
    }
}

/// Tells what data sets are waited for that no mirror has answered for.
fn tell_waiting(asked: &[Asked<'_>], began: Instant, hear: &mut dyn FnMut(Update)) {
    let waiting = || asked.iter().filter(|one| one.first.is_none()).flat_map(|one| &one.failures);
    let Some((_, error)) = waiting().next() else { return };
    let seconds = began.elapsed().as_secs_f64();
    let servers = waiting().map(|(server, _)| server.to_string()).collect();
    let waiting = Some(Waiting { servers, seconds, reason: error.to_string() });
    hear(Update::Progress(Progress { seconds, waiting, ..Progress::default() }));
}

/// The first answer for a data set.
#[derive(Clone, Copy)]
struct First {
    at: Instant,
    /// How long it took, from the connection on.
    took: Duration,
}

/// A data set that its mirrors are being asked for.
struct Asked<'a> {
    index: usize,
    request: &'a Request,
    first: Option<First>,
    found: BTreeMap<Server, Candidate>,
    /// Why there is nothing of a mirror, or was nothing the last time.
    failures: BTreeMap<Server, MoveError>,
    /// The mirrors that may still answer.
    waiting: BTreeSet<Server>,
}

impl<'a> Asked<'a> {
    fn new((index, request): (usize, &'a Request)) -> Self {
        let waiting = request.mirrors.iter().map(|mirror| mirror.server.clone()).collect();
        let (found, failures) = (BTreeMap::new(), BTreeMap::new());
        Self { index, request, first: None, found, failures, waiting }
    }

    /// A try has come to something; what the user should hear of it.
    fn take(&mut self, tried: Tried, now: Instant) -> Option<String> {
        let Tried { mirror: MirrorId { server, .. }, took, result, again } = tried;
        if !again {
            self.waiting.remove(&server);
        }
        match result {
            Ok(candidate) => {
                self.failures.remove(&server);
                self.first = self.first.or(Some(First { at: now, took }));
                self.found.insert(server, candidate);
                None
            }
            Err(error) => {
                let is_news = again && self.first.is_none() && !self.failures.contains_key(&server);
                let news = is_news.then(|| format!("{error}; trying again, Ctrl-C ends it"));
                self.failures.insert(server, error);
                news
            }
        }
    }

    /// Until when the others may vote.
    fn grace_ends(&self) -> Option<Instant> {
        self.first.map(|first| first.at + (first.took * 2).clamp(GRACE_MIN, GRACE_MAX))
    }

    /// Whether no mirror has to be waited for any more. With `is_late`, mirrors that were tried once are not waited
    /// for.
    fn is_decided(&self, now: Instant, is_late: bool) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        match (self.first, self.grace_ends()) {
            (Some(first), Some(grace)) => now >= grace && (self.majority().is_some() || now >= first.at + TIE_MAX),
            _ => is_late && self.waiting.iter().all(|server| self.failures.contains_key(server)),
        }
    }

    /// The data set that more mirrors have than any other. Only the mirrors decide that say the most of it.
    fn majority(&self) -> Option<digest::Hash> {
        let most = self.found.values().map(Candidate::weight).max()?;
        let voters = || self.found.values().filter(|one| one.weight() == most);
        let votes = |identity| voters().filter(|one| one.identity == identity).count();
        let best = voters().map(|one| one.identity).max_by_key(|&identity| votes(identity))?;
        let is_tied = voters().any(|one| one.identity != best && votes(one.identity) == votes(best));
        (!is_tied).then_some(best)
    }

    /// Keeps the mirrors that have the same data set, if most of them agree; names the others.
    fn agree(mut self) -> Result<Found, MoveError> {
        let majority = self.majority();
        if self.found.is_empty() {
            let first = self.request.mirrors.iter().find_map(|mirror| self.failures.remove(&mirror.server));
            return Err(first.unwrap_or_else(|| MoveError::Usage("a source has no mirror".to_owned())));
        }
        let Some(identity) = majority else {
            return Err(MoveError::MirrorsDiffer { data_set: Box::new(self.request.source()) });
        };
        let (mut absent, mut late, mut unheard, mut warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut manifest: Option<Manifest> = None;
        let (mut sessions, mut ranges) = (Vec::new(), Vec::new());
        // Bytes are holes if all sessions say so: nothing else is compared of them.
        let chosen = self.found.values().find(|one| one.identity == identity).map(|one| one.manifest.clone());
        let chosen = chosen.ok_or_else(|| MoveError::Internal("no data set was chosen".to_owned()))?;
        // In the order in which the user names them.
        for Location { server, .. } in &self.request.mirrors {
            let mut status = SourceStatus::Lost;
            let why = match (self.found.remove(server), self.failures.remove(server)) {
                (Some(candidate), _) if candidate.has(identity, &chosen) => {
                    match candidate.reached {
                        Reached::Session(session) => {
                            sessions.push(*session);
                            match &mut manifest {
                                Some(manifest) => manifest.keep_common_holes(&candidate.manifest),
                                None => manifest = Some(candidate.manifest),
                            }
                        }
                        Reached::Ranges(server, source) => ranges.push((server, source)),
                    }
                    continue;
                }
                (Some(_), _) => {
                    status = SourceStatus::Different;
                    "its data set has other files or sizes than the others'".to_owned()
                }
                (None, Some(error)) => {
                    if matches!(error, MoveError::OtherVersion { .. }) {
                        status = SourceStatus::Different;
                    }
                    error.to_string()
                }
                (None, None) => {
                    unheard.push(server.clone());
                    "it has not answered yet".to_owned()
                }
            };
            let is_late = self.waiting.contains(server);
            let hope = if is_late { "; it joins if it answers later" } else { "" };
            warnings.push(format!("going on without {server}: {why}{hope}"));
            absent.push(SourceReport { address: server.to_string(), status, ..SourceReport::default() });
            if is_late {
                late.push(server.clone());
            }
        }
        let (request, manifest) = (self.request.clone(), Arc::new(manifest.unwrap_or(chosen)));
        Ok(Found { request, index: self.index, manifest, identity, sessions, ranges, absent, late, unheard, warnings })
    }
}

/// Asks each sender that has connected by itself (a put) for its data set.
pub(super) fn find_attached(
    options: &GetOptions,
    sessions: Vec<Session>,
    stop: &Stop,
) -> Result<Vec<Outcome<Found>>, MoveError> {
    type Job = Box<dyn FnOnce() -> Outcome<Found> + Send>;
    destination::check(&options.destination, sessions.len())?;
    let (attributes, early) = (options.attributes, early::wanted(options));
    let is_directory = destination::is_directory(&options.destination);
    let open = |(index, mut session): (usize, Session)| {
        Box::new(move || {
            let mut source = Source { mirrors: vec![session.server.clone()], path: String::new() };
            let found = session.open("", false, attributes, early).map(|manifest| {
                source.path = printable(manifest.name());
                // A put names its data set itself.
                let place = is_directory.then(|| manifest.name().to_vec());
                Found::of_one(Request { place, ..source.clone().into() }, index, session, manifest)
            });
            (source, found)
        }) as Job
    };
    at_once(sessions.into_iter().enumerate().map(open).collect(), stop)
}

impl Found {
    fn of_one(request: Request, index: usize, session: Session, manifest: Manifest) -> Self {
        let (absent, late, unheard, warnings) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let identity = manifest.identity();
        let (manifest, sessions, ranges) = (Arc::new(manifest), vec![session], Vec::new());
        Self { request, index, manifest, identity, sessions, ranges, absent, late, unheard, warnings }
    }

    /// What the user should know before the transfer begins.
    pub fn warnings(&self) -> Vec<String> {
        let skipped = self.manifest.skipped();
        let mut warnings = self.warnings.clone();
        if skipped.count > 0 {
            let named: Vec<String> = skipped.paths.iter().map(|path| format!("'{}'", printable(path))).collect();
            let more = match skipped.count - named.len() as u64 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let what = if skipped.count == 1 {
                "is a socket, a pipe, a device, or made when it is read (/proc, /sys)"
            } else {
                "are sockets, pipes, devices, or made when they are read (/proc, /sys)"
            };
            warnings.push(format!("{}{more} {what}, which cannot be moved: left out", named.join(", ")));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::session::control_stream::ControlStream;
    use std::net::{TcpListener, TcpStream};

    const MIRRORS: [&str; 3] = ["a", "b", "c"];

    fn request() -> Request {
        "inhaul://a,b,c/set".parse::<Source>().unwrap().into()
    }

    fn server(name: &str) -> Server {
        Server::new(name, inhaul_session::api::source::DEFAULT_PORT)
    }

    /// `name` answers after `took` that it has files of these sizes.
    fn answer(name: &str, took: Duration, sizes: &[u64]) -> Tried {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = ControlStream::new(tcp).unwrap();
        let session = Session::over(server(name), stream);
        let manifest = Arc::unwrap_or_clone(inhaul_session::session::groups::testing::manifest(sizes));
        let result = Ok(Candidate::new(Reached::Session(Box::new(session)), manifest));
        Tried { mirror: MirrorId { request: 0, server: server(name) }, took, result, again: false }
    }

    fn failure(name: &str, again: bool) -> Tried {
        let error = MoveError::Unreachable { server: server(name), detail: "nothing listens".to_owned() };
        let mirror = MirrorId { request: 0, server: server(name) };
        Tried { mirror, took: Duration::ZERO, result: Err(error), again }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_transfer_begins_a_short_grace_after_the_first_answer() {
        for (took, grace) in [(1, 250), (200, 400), (5000, 1000)] {
            let request = request();
            let (mut asked, now) = (Asked::new((0, &request)), Instant::now());
            assert!(!asked.is_decided(now + ms(60_000), false));
            asked.take(answer("b", ms(took), &[5]), now);
            assert!(!asked.is_decided(now + ms(grace - 1), false), "{took}");
            assert!(asked.is_decided(now + ms(grace), false), "{took}");
            let found = asked.agree().unwrap();
            assert_eq!((found.sessions.len(), found.late), (1, vec![server("a"), server("c")]));
        }
    }

    #[test]
    fn who_answers_within_the_grace_votes_and_nobody_waits_when_all_have() {
        let request = request();
        let (mut asked, now) = (Asked::new((0, &request)), Instant::now());
        for (name, size) in MIRRORS.iter().zip([7, 5, 5]) {
            assert!(!asked.is_decided(now, false));
            asked.take(answer(name, ms(1), &[size]), now);
        }
        assert!(asked.is_decided(now, false));
        let found = asked.agree().unwrap();
        assert_eq!(found.manifest.size(), 5);
        assert_eq!(found.sessions.iter().map(|s| s.server.host.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!((found.absent[0].status, found.late.len()), (SourceStatus::Different, 0));
    }

    #[test]
    fn a_tie_waits_for_who_may_decide_it_and_is_an_error_without() {
        let request = request();
        let (mut asked, now) = (Asked::new((0, &request)), Instant::now());
        asked.take(answer("a", ms(1), &[7]), now);
        asked.take(answer("b", ms(1), &[5]), now);
        assert!(!asked.is_decided(now + ms(9000), false));
        asked.take(failure("c", true), now);
        assert!(asked.is_decided(now + TIE_MAX, false));
        assert!(matches!(asked.agree(), Err(MoveError::MirrorsDiffer { .. })));
    }

    #[test]
    fn who_is_not_there_is_waited_for_and_named_once() {
        let request = request();
        let (mut asked, now) = (Asked::new((0, &request)), Instant::now());
        assert!(asked.take(failure("a", true), now).unwrap().contains("trying again"));
        assert_eq!(asked.take(failure("a", true), now), None);
        assert_eq!(asked.take(failure("b", false), now), None, "that one is final");
        assert!(!asked.is_decided(now, true), "c was never tried to the end");
        asked.take(failure("c", true), now);
        assert!(!asked.is_decided(now, false));
        assert!(asked.is_decided(now, true));
        assert!(matches!(asked.agree(), Err(MoveError::Unreachable { server, .. }) if server.host == "a"));
    }
}
