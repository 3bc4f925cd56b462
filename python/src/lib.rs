//! The native module of inhaul's Python package: a thin cover over the crate `inhaul`. The package's own modules make it
//! pleasant; see `inhaul/__init__.py`.
//!
//! Nothing here waits, or takes a lock of the engine's, while it holds the interpreter: the engine's threads take the
//! interpreter while they deliver.

mod job;
mod lab;
mod outside;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use inhaul::{Bitrate, Buffers, Client, DataSet, Destination, Error, Fallback, Handle, Hash, ListedKind, Server, Stop};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice};

use crate::job::{Made, PyJob, Shared};
use crate::outside::Outside;

/// How often it is looked whether the user has pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// The exception for an error: a class of `inhaul.errors`, by its cause.
fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let made = || {
        let module = py.import("inhaul.errors")?;
        module.getattr("make")?.call1((error.kind().code(), error.to_string()))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn usage(text: &str) -> PyErr {
    PyValueError::new_err(text.to_owned())
}

/// Runs what may wait, without the interpreter.
fn outside<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| raise(py, &error))
}

fn rate(text: Option<&str>) -> PyResult<Option<Bitrate>> {
    let parse = |text: &str| text.parse().map_err(|error| usage(&format!("'{text}' is no rate: {error}")));
    text.map(parse).transpose()
}

/// See `inhaul.Client`.
#[pyclass(name = "Client", module = "inhaul._inhaul", frozen)]
struct PyClient {
    client: Outside<Client>,
}

/// A path, its size, what it is and when it was last changed.
type Row = (Vec<u8>, u64, &'static str, f64);

/// How a client is made: see `inhaul.Client`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    state: Option<String>,
    accept_new: bool,
    ca: Option<String>,
    proxy: Option<String>,
    plaintext: bool,
    transport: Option<String>,
    parameters: Vec<(String, String)>,
    receive_rate: Option<String>,
    rate: Option<String>,
    mtu: Option<u16>,
    fallback: String,
    retry_for: f64,
    cache: Option<PathBuf>,
    cache_bytes: u64,
    tickets: Vec<String>,
    token_file: Option<PathBuf>,
}

#[pymethods]
impl PyClient {
    #[new]
    fn new(py: Python<'_>, options: Options) -> PyResult<Self> {
        let mut builder = Client::builder();
        builder = match options.state.as_deref() {
            None => builder.user_state(),
            Some("") => builder,
            Some(directory) => builder.state(directory),
        };
        if options.accept_new {
            builder = builder.accept_new();
        }
        if options.plaintext {
            builder = builder.plaintext();
        }
        if let Some(ca) = &options.ca {
            builder = builder.ca(ca);
        }
        if let Some(proxy) = &options.proxy {
            builder = builder.proxy(proxy);
        }
        if let Some(transport) = &options.transport {
            builder = builder.transport(transport);
        }
        for (name, value) in &options.parameters {
            builder = builder.parameter(name, value);
        }
        if let Some(limit) = rate(options.receive_rate.as_deref())? {
            builder = builder.receive_rate(limit);
        }
        if let Some(limit) = rate(options.rate.as_deref())? {
            builder = builder.rate(limit);
        }
        if let Some(mtu) = options.mtu {
            builder = builder.mtu(mtu);
        }
        builder = builder.fallback(match options.fallback.as_str() {
            "auto" => Fallback::Auto,
            "never" => Fallback::Never,
            "always" => Fallback::Always,
            other => return Err(usage(&format!("fallback is 'auto', 'never' or 'always', not '{other}'"))),
        });
        if let Some(cache) = options.cache {
            builder = builder.cache(cache, options.cache_bytes);
        }
        for ticket in &options.tickets {
            builder = builder.ticket(ticket);
        }
        if let Some(path) = options.token_file {
            builder = builder.token_file(path);
        }
        let patience = Duration::try_from_secs_f64(options.retry_for)
            .map_err(|_| usage("retry_for is a number of seconds, not below 0"))?;
        let client = outside(py, || builder.retry_for(patience).build())?;
        Ok(Self { client: Outside::new(client) })
    }

    /// Opens a data set. `pins`: paths, and BLAKE3 hashes in hexadecimal digits.
    fn open(&self, py: Python<'_>, source: String, pins: Vec<(Vec<u8>, String)>) -> PyResult<PyJob> {
        let parse = |(path, hash): (Vec<u8>, String)| Ok((path, hash_of(&hash)?));
        let pins = pins.into_iter().map(parse).collect::<PyResult<Vec<_>>>()?;
        self.work(py, move |client, _| made_set(client.open_pinned(&source, pins)?))
    }

    /// The same, of a data set whose list of files has this root: a BLAKE3 hash in hexadecimal digits.
    fn open_rooted(&self, py: Python<'_>, source: String, root: &str) -> PyResult<PyJob> {
        let root = hash_of(root)?;
        self.work(py, move |client, _| made_set(client.open_rooted(&source, root)?))
    }

    /// What there is at a source: paths, sizes, kinds and times; not more rows than `rows_max`.
    fn entries(&self, py: Python<'_>, source: String, recursive: bool, rows_max: usize) -> PyResult<PyJob> {
        self.work(py, move |client, _| {
            let mut rows: Vec<Row> = Vec::new();
            client.list_each(&source, recursive, |item| {
                let kind = match item.kind {
                    ListedKind::File => "file",
                    ListedKind::Directory => "directory",
                    ListedKind::Link => "link",
                    ListedKind::Special => "other",
                };
                rows.push((item.path, item.size, kind, seconds(item.modified)));
                rows.len() < rows_max
            })?;
            let made: Made = Box::new(move |py| {
                let made = |(path, size, kind, time): Row| (PyBytes::new(py, &path), size, kind, time);
                Ok(PyList::new(py, rows.into_iter().map(made))?.into_any().unbind())
            });
            Ok(made)
        })
    }

    /// Every file at a source: its path, and its BLAKE3 hash in hexadecimal digits.
    fn checksums(&self, py: Python<'_>, source: String) -> PyResult<PyJob> {
        self.work(py, move |client, _| {
            let items = client.checksums(&source)?;
            let made: Made = Box::new(move |py| {
                let made =
                    |(item, hash): (inhaul::Listed, Hash)| (PyBytes::new(py, &item.path), hash.to_hex().to_string());
                Ok(PyList::new(py, items.into_iter().map(made))?.into_any().unbind())
            });
            Ok(made)
        })
    }

    /// Fetches data sets to files; `only`: these files of each.
    #[pyo3(signature = (sources, destination, *, include, exclude, only, checksum, existing))]
    #[expect(clippy::too_many_arguments, reason = "the keywords of a Python function")]
    fn get(
        &self,
        py: Python<'_>,
        sources: Vec<String>,
        destination: PathBuf,
        include: Vec<String>,
        exclude: Vec<String>,
        only: Option<Vec<Vec<u8>>>,
        checksum: bool,
        existing: &str,
    ) -> PyResult<PyJob> {
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let mut get = self.here()?.get(&sources, destination).map_err(|error| raise(py, &error))?;
        for pattern in &include {
            get = get.include(pattern);
        }
        for pattern in &exclude {
            get = get.exclude(pattern);
        }
        if let Some(only) = only {
            get = get.only(only);
        }
        if checksum {
            get = get.checksum();
        }
        let transfer = get.existing(what_exists(existing)?).start().map_err(|error| raise(py, &error))?;
        PyJob::begin(py, transfer.stop(), move |shared| follow(shared, transfer))
    }

    /// Sends files and directories to a server.
    fn put(&self, py: Python<'_>, paths: Vec<PathBuf>, destination: &str, existing: &str) -> PyResult<PyJob> {
        let put = self.here()?.put(paths, destination).map_err(|error| raise(py, &error))?;
        let transfer = put.existing(what_exists(existing)?).start().map_err(|error| raise(py, &error))?;
        PyJob::begin(py, transfer.stop(), move |shared| follow(shared, transfer))
    }
}

impl PyClient {
    fn here(&self) -> PyResult<&Client> {
        if self.client.is_here() { Ok(&self.client) } else { Err(usage(FORKED)) }
    }

    fn work(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Client, &Shared) -> Result<Made, Error> + Send + 'static,
    ) -> PyResult<PyJob> {
        let stop = Stop::new();
        let client = self.here()?.until(&stop);
        PyJob::begin(py, stop, move |shared| work(&client, shared))
    }
}

const FORKED: &str = "it was made before this process was forked: make it anew here";

fn hash_of(text: &str) -> PyResult<Hash> {
    Hash::from_hex(text).map_err(|_| usage(&format!("'{text}' is no BLAKE3 hash: 64 hexadecimal digits")))
}

fn made_set(set: DataSet) -> Result<Made, Error> {
    let set = Outside::new(Arc::new(set));
    Ok(Box::new(move |py| Ok(Py::new(py, PyDataSet { set: Mutex::new(Some(set)) })?.into_any())))
}

fn what_exists(word: &str) -> PyResult<inhaul::Existing> {
    match word {
        "refuse" => Ok(inhaul::Existing::Refuse),
        "replace" => Ok(inhaul::Existing::Replace),
        "update" => Ok(inhaul::Existing::Update),
        "keep" => Ok(inhaul::Existing::Keep),
        other => Err(usage(&format!("existing is 'refuse', 'replace', 'update' or 'keep', not '{other}'"))),
    }
}

/// Follows a transfer to its end: bytes of the data sets, and seconds.
fn follow(shared: &Shared, transfer: inhaul::Transfer) -> Result<Made, Error> {
    while let Some(progress) = transfer.progress() {
        shared.tell((progress.bytes, progress.total_bytes, progress.goodput_bps));
    }
    let (report, result) = transfer.join();
    result?;
    Ok(Box::new(move |py| Ok((report.bytes, report.seconds).into_pyobject(py)?.into_any().unbind())))
}

fn seconds(time: inhaul::Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// See `inhaul.DataSet`.
#[pyclass(name = "DataSet", module = "inhaul._inhaul", frozen)]
struct PyDataSet {
    /// `None` when it was closed.
    set: Mutex<Option<Outside<Arc<DataSet>>>>,
}

impl PyDataSet {
    fn set(&self) -> PyResult<Outside<Arc<DataSet>>> {
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let set = set.clone().ok_or_else(|| usage("the data set is closed"))?;
        if set.is_here() { Ok(set) } else { Err(usage(FORKED)) }
    }
}

/// A path and where a range begins and ends.
type Place = (Vec<u8>, u64, u64);

fn places(ranges: &[Place]) -> Vec<(&[u8], std::ops::Range<u64>)> {
    ranges.iter().map(|(path, start, end)| (path.as_slice(), *start..*end)).collect()
}

#[pymethods]
impl PyDataSet {
    /// Its address, without tickets.
    #[getter]
    fn source(&self) -> PyResult<String> {
        Ok(self.set()?.source())
    }

    /// Whether it is one file, whose path is empty.
    #[getter]
    fn is_file(&self) -> PyResult<bool> {
        Ok(self.set()?.is_file())
    }

    /// Paths, sizes and times of all files.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let set = self.set()?;
        let rows: Vec<_> =
            set.files().map(|file| (PyBytes::new(py, file.path), file.size, seconds(file.modified))).collect();
        PyList::new(py, rows)
    }

    /// Paths of all directories.
    fn directories<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let set = self.set()?;
        let paths: Vec<_> = set.directories().map(|path| PyBytes::new(py, path)).collect();
        PyList::new(py, paths)
    }

    /// Paths of all symbolic links.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let set = self.set()?;
        let paths: Vec<_> = set.links().map(|path| PyBytes::new(py, path)).collect();
        PyList::new(py, paths)
    }

    /// Begins to read ranges into memory of its own.
    fn start(&self, py: Python<'_>, ranges: Vec<Place>, ahead: bool) -> PyResult<PyRead> {
        let set = self.set()?;
        let places = places(&ranges);
        let mut memory = Vec::with_capacity(places.len());
        for (path, range) in &places {
            let len = range.end.saturating_sub(range.start);
            // Not more than the file has: memory is taken before anybody looks.
            let fits = set.stat(path).is_some_and(|file| range.end <= file.size);
            memory.push(Memory::of(py, if fits { len as usize } else { 0 })?);
        }
        let memory = Memories(memory);
        let start = || if ahead { set.read_ahead(&places, memory) } else { set.read_ranges(&places, memory) };
        Ok(PyRead::of(Running::Memory(outside(py, start)?)))
    }

    /// Begins to read ranges into views of bytes, which are as long as the ranges.
    fn start_into(&self, py: Python<'_>, ranges: Vec<Place>, views: Vec<Py<PyAny>>) -> PyResult<PyRead> {
        let set = self.set()?;
        if views.len() != ranges.len() {
            return Err(usage("there must be a buffer for each range"));
        }
        for (view, (path, start, end)) in views.iter().zip(&ranges) {
            let buffer = PyBuffer::<u8>::get(view.bind(py))?;
            if buffer.readonly() || !buffer.is_c_contiguous() {
                return Err(usage("a buffer must be writable, and its bytes must follow each other"));
            }
            if buffer.len_bytes() as u64 != end.saturating_sub(*start) {
                let (len, path) = (buffer.len_bytes(), String::from_utf8_lossy(path));
                return Err(usage(&format!("{path}: a buffer of {len} bytes for those from {start} to {end}")));
            }
        }
        let places = places(&ranges);
        let destination = Exported(views);
        let handle = outside(py, || set.read_ranges(&places, destination))?;
        Ok(PyRead::of(Running::Exported(handle)))
    }

    /// Begins to read a range into a file, from `offset` on.
    fn start_file(&self, py: Python<'_>, place: Place, path: PathBuf, offset: u64) -> PyResult<PyRead> {
        let set = self.set()?;
        let file = File::options().write(true).create(true).truncate(false).open(&path)?;
        let ranges = [place];
        let handle = outside(py, || set.read_ranges(&places(&ranges), Region { file, offset }))?;
        Ok(PyRead::of(Running::File(handle)))
    }

    /// What has come for it so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let set = self.set()?;
        let stats = outside(py, || set.stats())?;
        let dict = PyDict::new(py);
        dict.set_item("wanted_bytes", stats.wanted_bytes)?;
        dict.set_item("cached_bytes", stats.cached_bytes)?;
        dict.set_item("placed_bytes", stats.placed_bytes)?;
        dict.set_item("proof_bytes", stats.proof_bytes)?;
        dict.set_item("proof_requests", stats.proof_requests)?;
        dict.set_item("parts", stats.parts)?;
        dict.set_item("mirrors", stats.mirrors)?;
        dict.set_item("rtt_seconds", stats.rtt_seconds)?;
        Ok(dict)
    }

    /// Closes its sessions. What is being read goes on.
    fn close(&self) {
        drop(self.set.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Ranges from this length on are written into what their reader gets; shorter ones are copied there at the end, so that
/// nothing waits for the interpreter in between.
const WRITTEN_THROUGH_BYTES_MIN: usize = 1 << 20;

/// Memory of one range.
enum Memory {
    Own(Buffers),
    /// An `io.BytesIO`, and a view of its bytes. Its value is the bytes object that it wrote to itself: no copy is made,
    /// which would take longer than the network for what is long, and the interpreter with it.
    File {
        file: Py<PyAny>,
        view: Py<PyAny>,
    },
}

impl Memory {
    fn of(py: Python<'_>, len: usize) -> PyResult<Self> {
        if len < WRITTEN_THROUGH_BYTES_MIN {
            return Ok(Self::Own(Buffers(vec![vec![0; len]])));
        }
        // Zeros that the system gives when they are first touched. Nobody else has this object, so it is written to.
        let zeros = py.get_type::<PyBytes>().call1((len,))?;
        let file = py.import("io")?.getattr("BytesIO")?.call1((zeros,))?;
        let view = file.call_method0("getbuffer")?.unbind();
        Ok(Self::File { file: file.unbind(), view })
    }

    /// What was written.
    fn bytes<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Own(Buffers(own)) => Ok(PyBytes::new(py, own.first().map_or(&[], Vec::as_slice)).into_any()),
            Self::File { file, view } => {
                view.call_method0(py, "release")?;
                file.bind(py).call_method0("getvalue")
            }
        }
    }
}

/// Memory of each range of a read.
struct Memories(Vec<Memory>);

impl Destination for Memories {
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.0.get_mut(index).ok_or(io::ErrorKind::InvalidInput)? {
            Memory::Own(own) => own.write(0, offset, bytes),
            Memory::File { view, .. } => Python::attach(|py| write_to_view(view.bind(py), offset, bytes)),
        }
    }
}

/// Writes to the bytes of a view. A view of the place is taken for each write, which keeps the memory from moving, and
/// checks that it is still there.
fn write_to_view(view: &Bound<'_, PyAny>, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let start = offset as isize;
    let place = PySlice::new(view.py(), start, start + bytes.len() as isize, 1);
    let place = PyBuffer::<u8>::get(&view.get_item(place).map_err(io::Error::other)?).map_err(io::Error::other)?;
    place.copy_from_slice(view.py(), bytes).map_err(io::Error::other)
}

/// Memory of other objects, such as arrays: views of their bytes.
struct Exported(Vec<Py<PyAny>>);

impl Destination for Exported {
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Python::attach(|py| {
            write_to_view(self.0.get(index).ok_or(io::ErrorKind::InvalidInput)?.bind(py), offset, bytes)
        })
    }
}

/// A part of a file.
struct Region {
    file: File,
    offset: u64,
}

impl Destination for Region {
    fn write(&mut self, _index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.offset + offset)
    }
}

/// A running read.
enum Running {
    Memory(Handle<Memories>),
    Exported(Handle<Exported>),
    File(Handle<Region>),
}

impl Running {
    fn wait(&self, timeout: Duration) -> bool {
        match self {
            Self::Memory(handle) => handle.wait(timeout),
            Self::Exported(handle) => handle.wait(timeout),
            Self::File(handle) => handle.wait(timeout),
        }
    }

    fn progress(&self) -> (u64, u64) {
        let progress = match self {
            Self::Memory(handle) => handle.progress(),
            Self::Exported(handle) => handle.progress(),
            Self::File(handle) => handle.progress(),
        };
        (progress.bytes, progress.total_bytes)
    }

    fn cancel(&self) {
        match self {
            Self::Memory(handle) => handle.cancel(),
            Self::Exported(handle) => handle.cancel(),
            Self::File(handle) => handle.cancel(),
        }
    }

    fn on_end(&self, then: impl Fn() + Send + Sync + 'static) {
        match self {
            Self::Memory(handle) => handle.on_end(then),
            Self::Exported(handle) => handle.on_end(then),
            Self::File(handle) => handle.on_end(then),
        }
    }

    /// What has come, once it has ended; a file is synced.
    fn take(&self) -> Result<Vec<Memory>, Error> {
        let sync = |region: Region| region.file.sync_data().map_err(|source| Error::Sink { source });
        match self {
            Self::Memory(handle) => handle.try_take().map(|taken| taken.map(|Memories(memory)| memory)),
            Self::Exported(handle) => handle.try_take().map(|taken| taken.map(|_| Vec::new())),
            Self::File(handle) => handle.try_take().map(|taken| taken.and_then(sync).map(|()| Vec::new())),
        }
        .unwrap_or(Err(Error::Interrupted))
    }
}

/// A running read: see `inhaul.Read`.
#[pyclass(name = "Read", module = "inhaul._inhaul", frozen)]
struct PyRead {
    /// `None` when its result was taken. Not held while somebody waits.
    read: Mutex<Option<Outside<Arc<Running>>>>,
}

impl PyRead {
    fn of(running: Running) -> Self {
        Self { read: Mutex::new(Some(Outside::new(Arc::new(running)))) }
    }

    fn with<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Running) -> T + Send) -> PyResult<T> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = read.ok_or_else(|| usage("the result of this read was taken"))?;
        if !read.is_here() {
            return Err(usage("it was begun before this process was forked: begin it anew here"));
        }
        Ok(py.detach(move || look(&read)))
    }
}

#[pymethods]
impl PyRead {
    /// Bytes that are there, and all.
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.with(py, Running::progress)
    }

    /// Ends it now.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Running::cancel)
    }

    /// Calls `then`, on whatever thread, when it has ended.
    fn on_end(&self, py: Python<'_>, then: Py<PyAny>) -> PyResult<()> {
        let call = move || {
            Python::attach(|py| {
                // Its event loop may be closed: then nobody waits.
                if let Err(error) = then.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        };
        self.with(py, move |read| read.on_end(call))
    }

    /// Waits for its end: the bytes of each range, where they have memory of their own.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        while !self.with(py, |read| read.wait(LOOK))? {
            if let Err(interrupt) = py.check_signals() {
                self.with(py, Running::cancel)?;
                return Err(interrupt);
            }
        }
        let taken = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let read = taken.ok_or_else(|| usage("the result of this read was taken"))?;
        let memory = outside(py, || read.take())?;
        let bytes = memory.into_iter().map(|memory| memory.bytes(py)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, bytes)
    }
}

/// A server for tests and for programs that offer data: see `inhaul.Server`.
#[pyclass(name = "Server", module = "inhaul._inhaul", frozen)]
struct PyServer {
    /// `None` when it was stopped.
    server: Mutex<Option<Outside<Server>>>,
}

impl PyServer {
    fn with<T>(&self, look: impl FnOnce(&Server) -> T) -> PyResult<T> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(|server| look(server)).ok_or_else(|| usage("the server has ended"))
    }
}

#[pymethods]
impl PyServer {
    /// Starts one.
    #[staticmethod]
    fn start(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        listen: &str,
        public: bool,
        state: Option<PathBuf>,
        send_rate: Option<String>,
    ) -> PyResult<PyJob> {
        let listen: std::net::SocketAddr =
            listen.parse().map_err(|_| usage(&format!("'{listen}' is no address and port")))?;
        let mut builder = Server::builder().listen(listen);
        for path in paths {
            builder = builder.offer(path);
        }
        if public {
            builder = builder.public();
        }
        if let Some(state) = state {
            builder = builder.state(state);
        }
        if let Some(limit) = rate(send_rate.as_deref())? {
            builder = builder.send_rate(limit);
        }
        PyJob::begin(py, Stop::new(), move |_| {
            let server = Outside::new(builder.start()?);
            let made: Made = Box::new(move |py| Ok(Py::new(py, Self { server: Mutex::new(Some(server)) })?.into_any()));
            Ok(made)
        })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> PyResult<String> {
        self.with(|server| server.address().to_string())
    }

    /// The address of what lies at a path.
    fn address_of(&self, path: &str) -> PyResult<String> {
        self.with(|server| server.address_of(path))
    }

    /// Ends it, unless it is another process's.
    fn stop(&self, py: Python<'_>) -> PyResult<PyJob> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.and_then(Outside::into_inner);
        PyJob::begin(py, Stop::new(), move |_| {
            server.map_or(Ok(()), Server::stop)?;
            let made: Made = Box::new(|py| Ok(py.None()));
            Ok(made)
        })
    }
}

/// The native module.
#[pymodule]
mod _inhaul {
    #[pymodule_export]
    use super::job::PyJob;
    #[pymodule_export]
    use super::lab::{
        PyAckSample, PyLabExperiment, PyLabScenario, PyLabStepper, PyLawConfig, PyLimits, PyLossSample, PyRateSample,
        lab_experiment, lab_experiments, lab_judge,
    };
    #[pymodule_export]
    use super::outside::forks;
    use super::outside::{note_end, note_fork};
    #[pymodule_export]
    use super::{PyClient, PyDataSet, PyRead, PyServer};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    #[pymodule_init]
    fn begin(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        py.import("atexit")?.call_method1("register", (wrap_pyfunction!(note_end, py)?,))?;
        let in_child = PyDict::new(py);
        in_child.set_item("after_in_child", wrap_pyfunction!(note_fork, py)?)?;
        py.import("os")?.call_method("register_at_fork", (), Some(&in_child))?;
        Ok(())
    }
}
