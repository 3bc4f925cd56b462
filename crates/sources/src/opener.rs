//! Opens data sets at their mirrors, each on a thread of its own, and tries again where one is not there just now. It
//! serves a transfer from its first contact to its end: mirrors that were lost on the way are opened again by the same
//! means, with the name looked up anew.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use inhaul_base::Span;
use inhaul_store::{Manifest, digest};
use inhaul_udp::Waker;

use super::kinds;
use super::ranges::{self, RangeSource};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, NetOptions, Stop};
use inhaul_session::api::request::Request;
use inhaul_session::api::source::Server;
use inhaul_session::session::backoff::Backoff;
use inhaul_session::session::connect::{Session, Wanted};
use inhaul_session::session::frame::SessionRole;
use inhaul_session::system::threads;

/// How soon a thread that waits notices that it is not needed any more.
const LOOK: Duration = Duration::from_millis(100);

/// A mirror of one of the data sets that are asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MirrorId {
    /// The data set, by its place among the requests.
    pub request: usize,
    pub server: Server,
}

/// How a mirror is reached that has answered.
#[derive(Debug)]
pub enum Reached {
    /// An inhaul server.
    Session(Box<Session>),
    /// Something that is read by ranges.
    Ranges(Server, Arc<dyn RangeSource>),
}

/// A mirror that has a data set, and what it says of it.
#[derive(Debug)]
pub struct Candidate {
    pub reached: Reached,
    pub manifest: Manifest,
    /// The manifest's, or that of samples.
    pub identity: digest::Hash,
    /// It is that of samples: see `ranges::sample`.
    sampled: bool,
}

impl Candidate {
    /// Of a mirror that says this of its data set.
    pub fn new(reached: Reached, manifest: Manifest) -> Self {
        Self { reached, identity: manifest.identity(), manifest, sampled: false }
    }

    /// How much it says of its data set: a session has digests, a sample is of some bytes, and others say only sizes.
    pub fn weight(&self) -> u8 {
        match self.reached {
            Reached::Session(_) => 2,
            Reached::Ranges(..) => u8::from(self.sampled),
        }
    }

    /// Whether it has the data set of this identity and manifest. What is read by ranges knows only sizes, and names of
    /// its own.
    pub fn has(&self, identity: digest::Hash, manifest: &Manifest) -> bool {
        match self.reached {
            _ if self.sampled => self.identity == identity,
            Reached::Session(_) => self.identity == identity,
            Reached::Ranges(..) => {
                let sizes = |manifest: &Manifest| manifest.entries().iter().map(|entry| entry.size).collect::<Vec<_>>();
                self.identity == identity || sizes(&self.manifest) == sizes(manifest)
            }
        }
    }
}

/// What became of a try.
#[derive(Debug)]
pub struct Tried {
    pub mirror: MirrorId,
    pub took: Duration,
    pub result: Result<Candidate, MoveError>,
    /// It is tried again.
    pub again: bool,
}

/// See the module's description. Dropping it ends all trying.
#[derive(Debug)]
pub struct Opener {
    shared: Arc<Shared>,
    sender: Sender<Tried>,
    tried: Receiver<Tried>,
}

#[derive(Debug)]
struct Shared {
    requests: Vec<Request>,
    net: NetOptions,
    owner: bool,
    attributes: bool,
    /// Bytes of content that a mirror may send with its first answer.
    early: u32,
    /// Mirrors are asked for their files' version.
    asks_version: bool,
    retry_for: Span,
    over: Stop,
    /// The versions that mirrors had when they were opened first.
    versions: Mutex<BTreeMap<MirrorId, String>>,
    waker: OnceLock<Waker>,
}

impl Opener {
    /// For the data sets of `options`. The content of a small one comes with its description, up to `early` bytes.
    pub fn new(options: &GetOptions, early: u32) -> Self {
        Self::asking(options, early, false)
    }

    /// The same; mirrors are asked for the version of their files, too.
    pub fn for_cache(options: &GetOptions) -> Self {
        Self::asking(options, 0, true)
    }

    fn asking(options: &GetOptions, early: u32, asks_version: bool) -> Self {
        let (sender, tried) = channel();
        let shared = Shared {
            requests: options.requests.clone(),
            net: options.net.clone(),
            owner: options.owner,
            attributes: options.attributes,
            early,
            asks_version,
            retry_for: options.retry_for,
            over: Stop::new(),
            versions: Mutex::default(),
            waker: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), sender, tried }
    }

    /// How long the user has mirrors waited for without a byte; zero: each is tried once.
    pub fn retry_for(&self) -> Span {
        self.shared.retry_for
    }

    /// Whether nothing is being tried.
    pub(crate) fn is_idle(&self) -> bool {
        // This end, and one for each thread.
        Arc::strong_count(&self.shared) == 1
    }

    /// Begins to try a mirror.
    pub fn open(&self, mirror: MirrorId) -> Result<(), MoveError> {
        self.start(mirror, Backoff::after(0)?, false)
    }

    /// Begins to try a mirror that was lost for the `times`th time in a row, after a moment.
    pub(crate) fn reopen(&self, mirror: MirrorId, times: u32) -> Result<(), MoveError> {
        self.start(mirror, Backoff::after(times.saturating_sub(1))?, true)
    }

    fn start(&self, mirror: MirrorId, backoff: Backoff, waits_first: bool) -> Result<(), MoveError> {
        let (shared, sender) = (Arc::clone(&self.shared), self.sender.clone());
        threads::spawn_helper("inhaul-open", move || shared.run(&mirror, backoff, waits_first, &sender)).map(drop)
    }

    /// Has this waker called whenever a try has come to something.
    pub(crate) fn wake(&self, waker: Waker) {
        // One engine drives a transfer.
        let _ = self.shared.waker.set(waker);
    }

    /// What became of a try, if one ends within `wait`.
    pub fn next(&self, wait: Duration) -> Option<Tried> {
        // The channel cannot be closed: this end has a sender too.
        self.tried.recv_timeout(wait).ok()
    }

    /// What became of a try that has ended already.
    pub(crate) fn try_next(&self) -> Option<Tried> {
        self.tried.try_recv().ok()
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.shared.over.stop();
    }
}

impl Shared {
    fn run(&self, mirror: &MirrorId, mut backoff: Backoff, waits_first: bool, sender: &Sender<Tried>) {
        if waits_first && !self.wait(backoff.next_wait()) {
            return;
        }
        loop {
            let began = Instant::now();
            // One that was lost has brought its content before, or never.
            let result = self.attempt(mirror, if waits_first { 0 } else { self.early });
            let is_passing = result.as_ref().is_err_and(MoveError::is_passing);
            let again = is_passing && self.retry_for > Span::ZERO;
            let tried = Tried { mirror: mirror.clone(), took: began.elapsed(), result, again };
            if sender.send(tried).is_err() {
                return;
            }
            if let Some(waker) = self.waker.get() {
                waker.wake();
            }
            if !again || !self.wait(backoff.next_wait()) {
                return;
            }
        }
    }

    fn attempt(&self, mirror: &MirrorId, early: u32) -> Result<Candidate, MoveError> {
        let MirrorId { request, server } = mirror;
        let request = &self.requests[*request];
        if let Some(url) = &server.url {
            let (manifest, source) = kinds::open(server, url, &self.net.trust)?;
            request.check(server, &manifest)?;
            self.check_version(mirror, source.version())?;
            // Where an inhaul server is among the mirrors, its digests say more.
            let has_digests = request.mirrors.iter().any(|mirror| mirror.server.url.is_none());
            let sample = || ranges::sample(&*source, &manifest, &|rest| self.wait(rest));
            let sampled = (source.seeks() && !has_digests).then(sample).transpose()?;
            let reached = Reached::Ranges(server.clone(), source);
            let mut candidate = Candidate::new(reached, manifest);
            if let Some(identity) = sampled {
                (candidate.identity, candidate.sampled) = (identity, true);
            }
            return Ok(candidate);
        }
        let mut session = Session::connect(server, SessionRole::Fetch, Wanted::of(&self.net))?;
        session.probe_early(&self.net);
        let path = request.path_at(server).unwrap_or_default();
        if self.asks_version {
            session.ask_version()?;
        }
        let manifest = session.open(path, self.owner, self.attributes, early)?;
        request.check(server, &manifest)?;
        Ok(Candidate::new(Reached::Session(Box::new(session)), manifest))
    }

    /// A mirror that is opened again must have the version that it had, as far as it says.
    fn check_version(&self, mirror: &MirrorId, version: Option<String>) -> Result<(), MoveError> {
        let Some(version) = version else { return Ok(()) };
        let mut known = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match known.entry(mirror.clone()).or_insert_with(|| version.clone()) {
            before if *before == version => Ok(()),
            _ => Err(MoveError::SourceChanged { server: mirror.server.clone() }),
        }
    }

    /// Waits; false when it is all over.
    fn wait(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        while !self.over.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
        false
    }
}
