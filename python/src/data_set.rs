//! Open data sets.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use inhaul::{DataSet, Item, ItemKind};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::common::{FORKED, outside, seconds, usage};
use crate::memory::{Exported, Memories, Memory, Region};
use crate::outside::Outside;
use crate::read::{PyRead, Running};

/// See `inhaul.DataSet`.
#[pyclass(name = "DataSet", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyDataSet {
    /// `None` when it was closed.
    set: Mutex<Option<Outside<Arc<DataSet>>>>,
}

impl PyDataSet {
    pub(crate) fn of(set: DataSet) -> Self {
        Self { set: Mutex::new(Some(Outside::new(Arc::new(set)))) }
    }

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

    /// All that is in it: path, kind, permissions, time in nanoseconds since 1970, and where it leads.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let set = self.set()?;
        let row = |item: Item<'_>| {
            let (kind, to) = match item.kind {
                ItemKind::Directory => ("directory", &[][..]),
                ItemKind::Symlink(target) => ("symlink", target),
                ItemKind::HardLink(file) => ("hardlink", file),
                _ => ("file", &[][..]),
            };
            let modified = i128::from(item.modified.seconds) * 1_000_000_000 + i128::from(item.modified.nanos);
            (PyBytes::new(py, item.path), kind, item.mode, modified, PyBytes::new(py, to))
        };
        PyList::new(py, set.items().map(row).collect::<Vec<_>>())
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

    /// Its traffic so far.
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

    /// Closes its sessions. Running reads continue.
    fn close(&self) {
        drop(self.set.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
