//! Clients, and their operations.

use std::path::PathBuf;
use std::time::Duration;

use inhaul::{Client, DataSet, Error, Fallback, Hash, ListedKind, PolicyDial, Stop};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::common::{FORKED, hash_of, outside, raise, rate, seconds, usage};
use crate::data_set::PyDataSet;
use crate::job::{Made, PyJob, Shared};
use crate::outside::Outside;

/// See `inhaul.Client`.
#[pyclass(name = "Client", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyClient {
    client: Outside<Client>,
}

/// A path, its size, its kind and the time of its last change.
type Row = (Vec<u8>, u64, &'static str, f64);

/// How a client is made: see `inhaul.Client`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    state: Option<String>,
    accept_new: bool,
    ca: Option<String>,
    proxy: Option<String>,
    plaintext: bool,
    transport: Option<String>,
    parameters: Vec<(String, String)>,
    policy: Option<String>,
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
        if let Some(policy) = &options.policy {
            builder = builder.policy(policy_of(policy)?);
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

    /// Lists a source: paths, sizes, kinds and times; at most `rows_max` rows.
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
    #[pyo3(signature = (sources, destination, *, include, exclude, only, checksum, existing, dial))]
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
        dial: Option<&PyPolicyDial>,
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
        if let Some(dial) = dial {
            get = get.policy_dial(dial.0.clone());
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

fn made_set(set: DataSet) -> Result<Made, Error> {
    let set = PyDataSet::of(set);
    Ok(Box::new(move |py| Ok(Py::new(py, set)?.into_any())))
}

/// The policy of transfers, to be changed from any thread while data comes: `dial.set("low")`. Every transfer that was
/// given the dial follows it. A dial cannot be pickled.
#[pyclass(name = "PolicyDial", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyPolicyDial(PolicyDial);

#[pymethods]
impl PyPolicyDial {
    #[new]
    fn new() -> Self {
        Self(PolicyDial::default())
    }

    /// Changes the policy to "fair", "low", "high", or, where a receive rate was given, "fixed".
    fn set(&self, policy: &str) -> PyResult<()> {
        self.0.set(policy_of(policy)?);
        Ok(())
    }
}

fn policy_of(word: &str) -> PyResult<inhaul::Policy> {
    word.parse().map_err(|error| usage(&format!("{error}, not '{word}'")))
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

/// Follows a transfer to its end: bytes of the data sets, and its report, as JSON.
fn follow(shared: &Shared, transfer: inhaul::Transfer) -> Result<Made, Error> {
    while let Some(progress) = transfer.progress() {
        shared.tell((progress.bytes, progress.total_bytes, progress.goodput_bps));
    }
    let (report, result) = transfer.join();
    result?;
    let json = serde_json::to_string(&report).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(Box::new(move |py| Ok((report.bytes, json).into_pyobject(py)?.into_any().unbind())))
}
