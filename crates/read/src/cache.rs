//! A cache on disk before the network: what is there is delivered from there, the rest is asked of the mirrors, and what
//! they bring is kept once it is proven. It has a thread of its own, so that neither callers nor the data thread wait for
//! a disk.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use inhaul_store::digest::proof::{CHUNK_BYTES, chunk_bytes};
use inhaul_store::range_cache::RangeCache;

use super::asked::{Asked, cut};
use super::handle::Orders;
use super::names::Names;
use super::order::{Order, Read};
use inhaul_session::api::error::MoveError;
use inhaul_session::session::connect::Session;
use inhaul_session::system::threads;

/// Proven bytes that wait to be kept. What comes while there are so many is not kept.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// So much that is not there is asked for before the rest is looked for.
const MISSING_BYTES: u64 = 64 << 20;

/// A cache of what was read, on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Its directory, which processes of one user may share.
    pub directory: PathBuf,
    /// What it may take on the disk, in bytes: 64 MiB or more.
    pub bytes_max: u64,
}

/// A proven part of a group.
struct Proven {
    names: Arc<Names>,
    file: usize,
    /// The group, by its number in the file.
    group: u64,
    chunks: Range<u64>,
    bytes: Vec<u8>,
}

/// Where parts of a file are kept.
pub(super) struct Keep {
    pub(super) cache: Cache,
    pub(super) names: Arc<Names>,
    pub(super) file: usize,
}

impl Keep {
    /// Keeps a proven part of a group, which is given by its number in the file, unless too many wait.
    pub(super) fn part(self, group: u64, chunks: Range<u64>, bytes: &[u8]) {
        let Self { cache: Cache { jobs, waiting }, names, file } = self;
        let len = bytes.len() as u64;
        let has_room = waiting.fetch_add(len, Ordering::Relaxed) + len <= WAITING_BYTES_MAX;
        if !has_room || jobs.send(Job::Keep(Proven { names, file, group, chunks, bytes: bytes.to_vec() })).is_err() {
            waiting.fetch_sub(len, Ordering::Relaxed);
        }
    }
}

enum Job {
    /// What is there of a read is delivered, the rest ordered.
    Look(Arc<Names>, Read, Orders),
    /// A mirror of a data set says of which version its files are.
    Hear(Arc<Names>, String, [u8; 32]),
    Keep(Proven),
}

/// The way to the cache's thread, which ends with the last of them.
#[derive(Clone)]
pub(super) struct Cache {
    jobs: Sender<Job>,
    waiting: Arc<AtomicU64>,
}

impl Cache {
    /// Opens the cache, and starts its thread.
    pub(super) fn start(options: &CacheOptions) -> Result<(Self, JoinHandle<()>), MoveError> {
        let cache = RangeCache::open(&options.directory, options.bytes_max)
            .map_err(|error| MoveError::Usage(format!("cache {}: {error}", options.directory.display())))?;
        let (jobs, incoming) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&waiting);
        let thread = threads::spawn_helper("inhaul-cache", move || work(&cache, &incoming, &counter))?;
        Ok((Self { jobs, waiting }, thread))
    }

    /// A mirror has joined a data set, and may have said of which version its files are. Reads that come later, and
    /// what is kept from now on, go by that.
    pub(super) fn hear(&self, names: &Arc<Names>, session: &Session) {
        if let Some(version) = session.files_version {
            let _ = self.jobs.send(Job::Hear(Arc::clone(names), session.server.to_string(), version));
        }
    }

    /// Looks for what a read wants, and orders the rest.
    pub(super) fn look(&self, names: &Arc<Names>, read: Read, orders: Orders) {
        if let Err(unheard) = self.jobs.send(Job::Look(Arc::clone(names), read, orders))
            && let Job::Look(_, read, orders) = unheard.0
        {
            // A cache whose thread has died is none.
            orders.give(Order::Read(read));
        }
    }
}

/// The thread.
fn work(cache: &RangeCache, jobs: &Receiver<Job>, waiting: &AtomicU64) {
    let mut has_failed = false;
    for job in jobs {
        match job {
            Job::Look(names, read, orders) => look(cache, &names, read, &orders),
            Job::Hear(names, mirror, version) => names.hear(cache, &mirror, &version),
            Job::Keep(Proven { names, file, group, chunks, bytes }) => {
                let kept = cache.put(&names.of(file), group, &chunks, &bytes);
                waiting.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                if let Err(error) = kept
                    && !std::mem::replace(&mut has_failed, true)
                {
                    log::warn!("what is read cannot be kept in the cache: {error}");
                }
            }
        }
    }
}

fn look(cache: &RangeCache, names: &Names, read: Read, orders: &Orders) {
    let Read { set, ticket, urgent, delivery, ranges } = read;
    let order = |ranges: &mut Vec<Asked>| {
        let (ranges, delivery) = (std::mem::take(ranges), Arc::clone(&delivery));
        if !ranges.is_empty() {
            orders.give(Order::Read(Read { set, ticket, ranges, urgent, delivery }));
        }
    };
    let (mut missing, mut missing_bytes, mut bytes) = (Vec::<Asked>::new(), 0, Vec::new());
    for asked in ranges {
        let name = names.of(asked.file);
        for piece in cut(asked.range) {
            let within = chunk_bytes(names.size(asked.file), piece.group, &piece.chunks);
            let len = piece.range.len();
            bytes.clear();
            if cache.get(&name, piece.group, &piece.chunks, (within.end - within.start) as usize, &mut bytes) {
                let skip = (piece.range.start % CHUNK_BYTES) as usize;
                names.count_cached(len);
                delivery.write(asked.index, asked.offset_of(piece.range.start), &bytes[skip..skip + len as usize]);
                continue;
            }
            match missing.last_mut() {
                Some(last) if last.index == asked.index && last.range.end == piece.range.start => {
                    last.range.end = piece.range.end;
                }
                _ => missing.push(asked.part(piece.range)),
            }
            missing_bytes += len;
            if missing_bytes >= MISSING_BYTES {
                missing_bytes = 0;
                order(&mut missing);
            }
        }
        if delivery.is_over() {
            return;
        }
    }
    order(&mut missing);
}
