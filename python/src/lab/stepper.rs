//! The stepper: a simulated run that Python moves on.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use inhaul_base::{Span, Time};
use inhaul_lab::{Laws, Stepper};
use pyo3::prelude::*;

use super::law::{Trouble, flow_law};
use super::{PyLabScenario, raise, to_json, usage};

/// Events between two looks whether the user has pressed Ctrl-C.
const EVENTS: u64 = 10_000;

/// See `inhaul.lab.Stepper`.
#[pyclass(name = "LabStepper", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyLabStepper {
    stepper: Mutex<Stepper>,
    trouble: Arc<Trouble>,
}

impl PyLabStepper {
    /// The stepper, unless somebody has it: a law that is asked while time passes would wait for itself.
    fn stepper(&self) -> PyResult<MutexGuard<'_, Stepper>> {
        match self.stepper.try_lock() {
            Ok(stepper) => Ok(stepper),
            Err(TryLockError::Poisoned(stepper)) => Ok(stepper.into_inner()),
            Err(TryLockError::WouldBlock) => Err(usage(
                "the stepper is in the middle of a step: look at it before or after, not from a law or a thread",
            )),
        }
    }
}

/// The result of a stretch of events.
struct Stretch {
    events: u64,
    /// It ended for want of events before its end.
    is_at_end: bool,
}

#[pymethods]
impl PyLabStepper {
    /// `laws`: names of flows, and callables that build their laws.
    #[new]
    fn new(
        py: Python<'_>,
        scenario: &PyLabScenario,
        cell: usize,
        seed: u64,
        laws: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<Self> {
        let cells = &scenario.scenario.cells;
        let plan = cells.get(cell).map(|cell| cell.plan.clone());
        let plan = plan.ok_or_else(|| usage(&format!("there is no cell {cell}: the scenario has {}", cells.len())))?;
        let trouble = Arc::new(Trouble::default());
        let laws: Laws = laws.into_iter().map(|(name, factory)| (name, flow_law(factory, trouble.clone()))).collect();
        let stepper = py.detach(|| Stepper::new(plan, seed, &laws));
        let stepper = stepper.map_err(|error| raise(py, "usage", &error.to_string()))?;
        Ok(Self { stepper: Mutex::new(stepper), trouble })
    }

    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        Ok(self.stepper()?.now().as_secs_f64())
    }

    #[getter]
    fn end_s(&self) -> PyResult<f64> {
        Ok(self.stepper()?.end().as_secs_f64())
    }

    #[getter]
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.stepper()?.is_over())
    }

    /// Lets time pass until `until_s`, at most `events` of them. Returns how many there were.
    fn advance(&self, py: Python<'_>, until_s: f64, events: Option<u64>) -> PyResult<u64> {
        let now = self.stepper()?.now();
        if !until_s.is_finite() || until_s < 0.0 {
            return Err(usage(&format!("a time is a number of seconds from 0 up, not {until_s}")));
        }
        let until = Time::ZERO + Span::from_secs_f64(until_s);
        if until < now {
            return Err(usage(&format!("it is {now} already: time does not go back, make a new stepper")));
        }
        let mut made = 0;
        loop {
            let most = events.map_or(EVENTS, |events| (events - made).min(EVENTS));
            let stretch = self.stretch(py, until, most)?;
            made += stretch.events;
            if stretch.is_at_end || Some(made) == events {
                return Ok(made);
            }
        }
    }

    /// Lets the rest of the time pass, as a run that is not stepped does.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let look = {
                let stepper = self.stepper()?;
                if stepper.is_over() {
                    return Ok(());
                }
                stepper.next_look()
            };
            while !self.stretch(py, look, EVENTS)?.is_at_end {}
        }
    }

    /// The flows, as JSON.
    fn flows(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &self.stepper()?.flows())
    }

    /// The links, as JSON.
    fn links(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &self.stepper()?.links())
    }

    /// The run until now, as JSON.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &self.stepper()?.result())
    }
}

impl PyLabStepper {
    /// Lets time pass until `until`, at most `most` events.
    fn stretch(&self, py: Python<'_>, until: Time, most: u64) -> PyResult<Stretch> {
        py.check_signals()?;
        if self.trouble.is_there() {
            let text = "a law has raised an exception, so the run cannot go on: make a new stepper";
            return Err(raise(py, "simulation", text));
        }
        let mut stepper = self.stepper()?;
        let (mut asked, mut is_at_end) = (0, true);
        let stepper = &mut *stepper;
        let passed = py.detach(|| {
            stepper.advance(until, || {
                let goes_on = asked < most && !self.trouble.is_there();
                asked += u64::from(goes_on);
                is_at_end = goes_on;
                goes_on
            })
        });
        if let Some(raised) = self.trouble.take() {
            return Err(raised);
        }
        passed.map_err(|error| raise(py, "simulation", &error.to_string()))?;
        // The last time that it was asked, there was nothing left to do before the end.
        Ok(Stretch { events: asked - u64::from(is_at_end), is_at_end })
    }
}
