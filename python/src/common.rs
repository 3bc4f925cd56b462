//! What all parts of the module need: errors, and words that become values.

use std::time::Duration;

use inhaul::{Bitrate, Error, Hash};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How often it is looked whether the user has pressed Ctrl-C.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The exception for an error: a class of `inhaul.errors`, by its cause.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let made = || {
        let module = py.import("inhaul.errors")?;
        module.getattr("make")?.call1((error.kind().code(), error.to_string()))
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

pub(crate) fn usage(text: &str) -> PyErr {
    PyValueError::new_err(text.to_owned())
}

/// Runs a function that may wait, without holding the interpreter.
pub(crate) fn outside<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| raise(py, &error))
}

pub(crate) fn rate(text: Option<&str>) -> PyResult<Option<Bitrate>> {
    let parse = |text: &str| text.parse().map_err(|error| usage(&format!("'{text}' is no rate: {error}")));
    text.map(parse).transpose()
}

pub(crate) const FORKED: &str = "it was made before this process was forked: make it anew here";

pub(crate) fn hash_of(text: &str) -> PyResult<Hash> {
    Hash::from_hex(text).map_err(|_| usage(&format!("'{text}' is no BLAKE3 hash: 64 hexadecimal digits")))
}

pub(crate) fn seconds(time: inhaul::Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}
