//! A source for tests that does everything that real ones do wrong. Each is made under a name, by which URLs find it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inhaul_base::{ByteRange, Span};
use inhaul_store::Manifest;

use super::ranges::{RangeSource, ReadFailure, Remedy, manifest_of_file};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;

/// What a fake source does.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// It cannot be opened before so long after it was made.
    pub opens_after: Duration,
    /// It has other bytes than it should, from here on, so many.
    pub lies: ByteRange,
    /// It waits so long before each piece of 64 KiB.
    pub drips: Duration,
    /// It is away for so long, once it has delivered so many bytes.
    pub leaves: Option<(u64, Duration)>,
    /// Every so many requests it says that it has too much to do, and how long it wants to be left alone.
    pub busy: Option<(u64, Duration)>,
    /// Every so many requests its connection was closed after half of what was asked for.
    pub cuts: Option<u64>,
    /// It claims a size that is not that of its data.
    pub claims: Option<u64>,
    /// Requests that it serves at once.
    pub lanes: u32,
}

#[derive(Debug)]
struct State {
    data: Arc<Vec<u8>>,
    manners: Manners,
    made: Instant,
    left_at: Mutex<Option<Instant>>,
    delivered: AtomicU64,
    requests: AtomicU64,
}

static FAKES: Mutex<BTreeMap<String, Arc<State>>> = Mutex::new(BTreeMap::new());

/// Makes a source of `data` that is found by `fake://NAME/file`, and returns that URL.
pub fn make(name: &str, data: &Arc<Vec<u8>>, manners: Manners) -> String {
    let state = State {
        data: Arc::clone(data),
        manners,
        made: Instant::now(),
        left_at: Mutex::new(None),
        delivered: AtomicU64::new(0),
        requests: AtomicU64::new(0),
    };
    FAKES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(state));
    format!("fake://{name}/file")
}

/// Bytes that the source of this name has delivered.
pub fn delivered(name: &str) -> u64 {
    FAKES.lock().unwrap()[name].delivered.load(Ordering::Relaxed)
}

pub(super) fn open(server: &Server, name: &str) -> Result<(Manifest, Arc<dyn RangeSource>), MoveError> {
    let name = name.trim_end_matches("/file");
    let state = Arc::clone(&FAKES.lock().unwrap()[name]);
    if state.made.elapsed() < state.manners.opens_after || state.is_away() {
        return Err(MoveError::Unreachable { server: server.clone(), detail: "it is not there yet".to_owned() });
    }
    let size = state.manners.claims.unwrap_or(state.data.len() as u64);
    let manifest = manifest_of_file(server, b"file".to_vec(), size, 0o644, (1_700_000_000, 0))?;
    Ok((manifest, Arc::new(Fake { server: server.clone(), state })))
}

impl State {
    fn is_away(&self) -> bool {
        let left_at = *self.left_at.lock().unwrap();
        left_at.zip(self.manners.leaves).is_some_and(|(at, (_, away))| at.elapsed() < away)
    }
}

#[derive(Debug)]
struct Fake {
    server: Server,
    state: Arc<State>,
}

impl Fake {
    fn failure(&self, detail: &str, remedy: Remedy) -> ReadFailure {
        let error = MoveError::ServerLost { server: self.server.clone(), detail: detail.to_owned() };
        ReadFailure { error, remedy }
    }
}

impl RangeSource for Fake {
    fn lanes(&self) -> u32 {
        self.state.manners.lanes.max(1)
    }

    fn rtt(&self) -> Span {
        Span::from_millis(1)
    }

    fn version(&self) -> Option<String> {
        None
    }

    fn read(&self, range: ByteRange, take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), ReadFailure> {
        let State { data, manners, requests, delivered, left_at, .. } = &*self.state;
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        let every = |each: u64| number.is_multiple_of(each);
        if let Some((_, rest)) = manners.busy.filter(|(each, _)| every(*each)) {
            return Err(self.failure("429 Too Many Requests", Remedy::AskAfter(rest)));
        }
        let cut = manners.cuts.filter(|each| every(*each)).map(|_| range.start + range.len() / 2);
        let mut at = range.start;
        while at < range.end {
            if self.state.is_away() {
                return Err(self.failure("it has gone", Remedy::GiveUp));
            }
            if cut.is_some_and(|cut| at >= cut) {
                return Err(self.failure("the connection was closed", Remedy::AskAgain));
            }
            std::thread::sleep(manners.drips);
            let end = (at + (64 << 10)).min(range.end);
            // Of what it claims beyond its data it has zeros.
            let mut piece: Vec<u8> = data.iter().copied().skip(at as usize).take((end - at) as usize).collect();
            piece.resize((end - at) as usize, 0);
            for lie in manners.lies.start.max(at)..manners.lies.end.min(end) {
                piece[(lie - at) as usize] ^= 0xff;
            }
            let all = delivered.fetch_add(end - at, Ordering::Relaxed) + (end - at);
            if manners.leaves.is_some_and(|(after, _)| all >= after) {
                left_at.lock().unwrap().get_or_insert_with(Instant::now);
            }
            at = end;
            if take(&piece).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}
