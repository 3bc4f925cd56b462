//! Where the bytes of reads go: memory of Python's objects, and files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use inhaul::{Buffers, Destination};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

/// Ranges from this length on are written into what their reader gets; shorter ones are copied there at the end, so that
/// nothing waits for the interpreter in between.
const WRITTEN_THROUGH_BYTES_MIN: usize = 1 << 20;

/// Memory of one range.
pub(crate) enum Memory {
    Own(Buffers),
    /// An `io.BytesIO`, and a view of its bytes. Its value is the bytes object that it wrote to itself: no copy is
    /// made: for long data a copy would take longer than the network, and block the interpreter.
    File {
        file: Py<PyAny>,
        view: Py<PyAny>,
    },
}

impl Memory {
    pub(crate) fn of(py: Python<'_>, len: usize) -> PyResult<Self> {
        if len < WRITTEN_THROUGH_BYTES_MIN {
            return Ok(Self::Own(Buffers(vec![vec![0; len]])));
        }
        // Zeros that the system gives when they are first touched. This object has no other holder, so it may be
        // written to.
        let zeros = py.get_type::<PyBytes>().call1((len,))?;
        let file = py.import("io")?.getattr("BytesIO")?.call1((zeros,))?;
        let view = file.call_method0("getbuffer")?.unbind();
        Ok(Self::File { file: file.unbind(), view })
    }

    /// The written bytes.
    pub(crate) fn bytes<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
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
pub(crate) struct Memories(pub(crate) Vec<Memory>);

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
pub(crate) struct Exported(pub(crate) Vec<Py<PyAny>>);

impl Destination for Exported {
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Python::attach(|py| {
            write_to_view(self.0.get(index).ok_or(io::ErrorKind::InvalidInput)?.bind(py), offset, bytes)
        })
    }
}

/// A part of a file.
pub(crate) struct Region {
    pub(crate) file: File,
    pub(crate) offset: u64,
}

impl Destination for Region {
    fn write(&mut self, _index: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.offset + offset)
    }
}
