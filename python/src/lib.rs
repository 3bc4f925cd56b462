//! The native module of inhaul's Python package: a thin cover over the crate `inhaul`. The package's own modules make it
//! pleasant; see `inhaul/__init__.py`.
//!
//! Nothing here waits, or takes a lock of the engine's, while it holds the interpreter: the engine's threads take the
//! interpreter while they deliver.

mod client;
mod common;
mod data_set;
mod job;
mod lab;
mod memory;
mod outside;
mod read;
mod server;

use pyo3::prelude::*;

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
    use super::{client::PyClient, client::PyPolicyDial, data_set::PyDataSet, read::PyRead, server::PyServer};
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
