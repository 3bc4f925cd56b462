//! Parts of data sets, read into memory while the sessions stay open: what the library and Python stand on.
//!
//! A [`Reader`] has one data thread, for all data sets that it opens. What is read is cut into parts (`parts`) that lie
//! within groups; they are received into memory (`memory`) over whatever transport protocol, proven (`check`) by
//! values that a mirror sends beside them, and by the hashes that the user expects, if there are any (`roots`).
//!
//! An open data set is an object that is held as a whole at first. Orders come by a queue: `Command::Want` makes ranges
//! wanted, and ranges that a caller waits for come before others; `Command::Unwant` takes them back. Several reads
//! share a part. A part lies in one group of 1 MiB. Its proof comes by the control stream: the values of the BLAKE3
//! tree beside it (`store/src/digest/proof.rs`), and, if the file's hash is pinned, the way from the group up to the
//! hash, as far as it is not known yet. Without a pin, the authenticated server vouches for the group's digest, as for
//! `get`. Proven bytes go to a `Destination`, and to a cache on disk (`cache`) that is asked before the mirrors.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where the clock is read and where waiting happens")]
#![allow(missing_docs, reason = "what is public here is for the other crates of inhaul: `inhaul` is the library")]

mod asked;
mod cache;
mod check;
mod delivery;
mod handle;
mod memory;
mod names;
mod order;
mod parts;
mod reading;
mod roots;
#[cfg(test)]
mod source_tests;
mod votes;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::JoinHandle;

use inhaul_base::{Bitrate, ByteRange, Span};
use inhaul_store::Manifest;
use inhaul_udp::Waker;

pub use self::cache::CacheOptions;
pub use self::handle::{Buffers, Destination, Handle, ReadProgress};
pub use self::order::SetStats;
pub use self::roots::Pins;

use self::asked::Asked;
use self::cache::Cache;
use self::handle::{Orders, Shared};
use self::names::Names;
use self::order::{Opening, Order, Read, SetId, Ticket};
use self::reading::{Reading, Settings};
use inhaul_engine::engine::Engine;
use inhaul_engine::engine::net::{self, Rates};
use inhaul_haul::haul::find_all;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, NetOptions, Stop};
use inhaul_session::api::request::Request;
use inhaul_session::system::threads;
use inhaul_sources::opener::Opener;

/// How a reader uses the network.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Limit of what this host takes in from all senders (C_r).
    pub receive_rate: Option<Bitrate>,
    /// Limit of each sender (R_app).
    pub rate: Option<Bitrate>,
    /// How long a data set may be without a server that can be reached, before what is read of it fails; zero: each
    /// server is tried once.
    pub retry_for: Span,
    /// What is read is kept on disk, and not asked for again.
    pub cache: Option<CacheOptions>,
    /// How the network is used.
    pub net: NetOptions,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let (receive_rate, rate, cache) = (None, None, None);
        Self { receive_rate, rate, retry_for: Span::from_secs(30), cache, net: NetOptions::default() }
    }
}

/// The data thread of a client. When the last that was made of it is dropped, it ends.
pub struct Reader {
    settings: Settings,
    /// `None` while it ends.
    orders: Option<Orders>,
    cache: Option<Cache>,
    /// The data thread's, and the cache's.
    threads: Vec<JoinHandle<()>>,
    tickets: AtomicU64,
}

impl Reader {
    /// Starts the data thread.
    ///
    /// # Errors
    /// When the system has no sockets or threads, or the options make no sense.
    pub fn start(options: ReadOptions) -> Result<Arc<Self>, MoveError> {
        let ReadOptions { receive_rate, rate, retry_for, cache, net } = options;
        let rates = Rates { host: receive_rate, flow: rate };
        net::check(&net, rates)?;
        let settings = Settings { net, rates, retry_for };
        let (cache, cache_thread) = cache.as_ref().map(Cache::start).transpose()?.unzip();
        let (sender, incoming) = channel();
        let (started, ready) = sync_channel::<Result<Waker, MoveError>>(1);
        let (own, kept) = (settings.clone(), cache.clone());
        let run = move || {
            let begin = || -> Result<(Engine, Reading), MoveError> {
                let engine = Engine::new()?;
                threads::become_data_thread(&own.net)?;
                let reading = Reading::new(own.clone(), kept, incoming, &engine)?;
                Ok((engine, reading))
            };
            let (mut engine, mut reading) = match begin() {
                Ok(begun) => begun,
                Err(error) => return drop(started.send(Err(error))),
            };
            engine.watch_thread(&own.net, false);
            let _ = started.send(Ok(engine.waker()));
            // A panic must not leave anybody waiting. What is left of the two is only used to say that.
            let ended = catch_unwind(AssertUnwindSafe(|| engine.run(&mut reading)));
            let has_died = ended.is_err();
            if let Err(error) =
                ended.unwrap_or_else(|_| Err(MoveError::Internal("the data thread has died".to_owned())))
            {
                log::error!("reading has ended: {error}");
                reading.end(&error);
            }
            if !has_died {
                engine.hang_up();
            }
        };
        let thread = threads::spawn_helper("inhaul-read", run)?;
        let died = || MoveError::Internal("the data thread has died".to_owned());
        let waker = ready.recv().map_err(|_| died())??;
        let orders = Orders { sender, waker };
        let threads = std::iter::once(thread).chain(cache_thread).collect();
        Ok(Arc::new(Self { settings, orders: Some(orders), cache, threads, tickets: AtomicU64::new(1) }))
    }

    fn orders(&self) -> Result<&Orders, MoveError> {
        self.orders.as_ref().ok_or(MoveError::Interrupted)
    }

    /// Opens a data set at its mirrors: its description comes, and the sessions stay open. `stop` ends the waiting.
    ///
    /// # Errors
    /// When no mirror has it, or most do not agree.
    pub fn open(self: &Arc<Self>, request: Request, stop: &Stop) -> Result<OpenSet, MoveError> {
        self.open_pinned(request, &Pins::default(), stop)
    }

    /// The same, of files that have known hashes: nothing else is ever taken for their bytes.
    ///
    /// # Errors
    /// As [`Reader::open`]; and when the files are not those that are pinned.
    pub fn open_pinned(self: &Arc<Self>, request: Request, pins: &Pins, stop: &Stop) -> Result<OpenSet, MoveError> {
        let options = self.options(request);
        let opener = if self.cache.is_some() { Opener::for_cache(&options) } else { Opener::new(&options, 0) };
        let found = find_all(&options, &opener, stop, &mut |_| {})?;
        let found = found.into_iter().next().map_or_else(|| Err(MoveError::Interrupted), |(_, found)| found)?;
        let manifest = Arc::clone(&found.manifest);
        let roots = pins.find(&manifest)?;
        let sizes = manifest.entries().iter().map(|entry| entry.size).collect();
        let names = Arc::new(Names::new(found.request.source().to_string(), found.identity, sizes, &roots));
        if let Some(cache) = &self.cache {
            found.sessions.iter().for_each(|session| cache.hear(&names, session));
        }
        let (reply, answer) = channel();
        let opening = Opening { found, opener, names: Arc::clone(&names), roots, reply };
        self.orders()?.give(Order::Open(Box::new(opening)));
        let id = answer.recv().map_err(|_| MoveError::Internal("the data thread has died".to_owned()))??;
        Ok(OpenSet { reader: Arc::clone(self), id, manifest, names })
    }

    fn options(&self, request: Request) -> GetOptions {
        GetOptions {
            receive_rate: self.settings.rates.host,
            rate: self.settings.rates.flow,
            retry_for: self.settings.retry_for,
            net: self.settings.net.clone(),
            ..GetOptions::new(vec![request], PathBuf::from("memory"))
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(orders) = self.orders.take() {
            drop(orders.sender);
            orders.waker.wake();
        }
        self.cache = None;
        // It may be one of these threads itself that drops the last handle; then the other one is not waited for either.
        let own = std::thread::current().id();
        if self.threads.iter().all(|thread| thread.thread().id() != own) {
            self.threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

/// A data set that is open. Dropping it closes its sessions.
pub struct OpenSet {
    reader: Arc<Reader>,
    id: SetId,
    manifest: Arc<Manifest>,
    names: Arc<Names>,
}

impl OpenSet {
    /// What the data set is made of.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Reads ranges of files, which are named by their index in the manifest, into `destination`. `urgent`: somebody
    /// waits for them; others are fetched when nothing is urgent.
    ///
    /// # Errors
    /// When a range ends beyond its file, or there is no such file. What goes wrong later the handle tells.
    pub fn read<D: Destination>(
        &self,
        ranges: Vec<(usize, ByteRange)>,
        destination: D,
        urgent: bool,
    ) -> Result<Handle<D>, MoveError> {
        let entries = self.manifest.entries();
        for (file, range) in &ranges {
            let entry = entries.get(*file).ok_or_else(|| MoveError::Usage(format!("there is no file {file}")))?;
            if range.end > entry.size {
                let path = inhaul_store::printable(&entry.path);
                let size = entry.size;
                return Err(MoveError::Usage(format!("{path}: {range} is beyond its end at {size}")));
            }
        }
        let total = ranges.iter().map(|(_, range)| range.len()).fold(0, u64::saturating_add);
        let shared = Shared::new(destination, total);
        let ticket = Ticket(self.reader.tickets.fetch_add(1, Ordering::Relaxed));
        let orders = self.reader.orders()?.clone();
        if total > 0 {
            let delivery = Arc::clone(&shared) as Arc<dyn delivery::Delivery>;
            let ranges = Asked::all_of(ranges);
            let read = Read { set: self.id, ticket, ranges, urgent, delivery };
            match &self.reader.cache {
                Some(cache) => cache.look(&self.names, read, orders.clone()),
                None => orders.give(Order::Read(read)),
            }
        }
        Ok(Handle { shared, ticket, orders, _keep: Arc::clone(&self.reader) as Arc<_> })
    }

    /// What has come for it so far.
    ///
    /// # Errors
    /// When the data thread has died.
    pub fn stats(&self) -> Result<SetStats, MoveError> {
        let (reply, answer) = channel();
        self.reader.orders()?.give(Order::Ask(self.id, reply));
        let stats = answer.recv().map_err(|_| MoveError::Internal("the data thread has died".to_owned()))?;
        Ok(SetStats { cached_bytes: self.names.cached_bytes(), ..stats })
    }
}

impl Drop for OpenSet {
    fn drop(&mut self) {
        if let Ok(orders) = self.reader.orders() {
            orders.give(Order::Close(self.id));
        }
    }
}
