//! Laws that are written in Python, and their inputs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_lab::{FlowLaw, LawConfig};
use inhaul_transport::{AckSample, Law, Limits, LossSample, Pace, RateSample};
use pyo3::prelude::*;

use super::usage;

/// The first exception that a law has raised: the run cannot go on after it.
#[derive(Default)]
pub(crate) struct Trouble {
    is_there: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Trouble {
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: PyErr) {
        if !self.is_there.swap(true, Ordering::Relaxed) {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

/// Configuration of a law: see `inhaul.lab.LawConfig`.
#[pyclass(name = "LawConfig", module = "inhaul.lab", frozen, get_all)]
pub(crate) struct PyLawConfig {
    flow: String,
    initial_window_packets: u64,
    window_max_packets: u64,
    seed: u64,
}

/// See `inhaul_transport::RateSample`.
#[pyclass(name = "RateSample", module = "inhaul.lab", frozen, get_all)]
#[derive(Clone)]
pub(crate) struct PyRateSample {
    packets_per_s: f64,
    prior_delivered_packets: u64,
    delivered_packets: u64,
    lost_packets: u64,
    in_flight_at_send_packets: u64,
    app_limited: bool,
}

/// See `inhaul_transport::AckSample`.
#[pyclass(name = "AckSample", module = "inhaul.lab", frozen, get_all)]
pub(crate) struct PyAckSample {
    now_s: f64,
    delivered_packets: u64,
    lost_packets: u64,
    in_flight_packets: u64,
    packet_bytes: u64,
    rtt_ms: Option<f64>,
    smoothed_rtt_ms: f64,
    round_began: bool,
    window_limited: bool,
    held: bool,
    paced: bool,
    rate: Option<Py<PyRateSample>>,
}

/// See `inhaul_transport::LossSample`.
#[pyclass(name = "LossSample", module = "inhaul.lab", frozen, get_all)]
pub(crate) struct PyLossSample {
    now_s: f64,
    in_flight_packets: u64,
}

/// A law's limits for its sender: see `inhaul.lab.Limits`.
#[pyclass(name = "Limits", module = "inhaul.lab", frozen, get_all)]
pub(crate) struct PyLimits {
    window_packets: f64,
    pace_bps: Option<f64>,
    blocks: Option<u64>,
    slow_start: bool,
}

#[pymethods]
impl PyLimits {
    #[new]
    #[pyo3(signature = (window_packets, *, pace_bps=None, blocks=None, slow_start=false))]
    fn new(window_packets: f64, pace_bps: Option<f64>, blocks: Option<u64>, slow_start: bool) -> PyResult<Self> {
        if !window_packets.is_finite() || window_packets < 0.0 {
            return Err(usage(&format!("a window is a number of packets, not {window_packets}")));
        }
        if pace_bps.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return Err(usage("pace_bps is a number of bits per second, at least 1; None does not pace"));
        }
        if blocks == Some(0) || (blocks.is_some() && pace_bps.is_some()) {
            return Err(usage("packets are spread by pace_bps, or in at least one of blocks, not by both"));
        }
        Ok(Self { window_packets, pace_bps, blocks, slow_start })
    }
}

impl PyLimits {
    /// As a sender takes them: a packet may always be on its way, and not more than the flow's largest window.
    fn within(&self, window_max: u64) -> Limits {
        let pace = match (self.pace_bps, self.blocks) {
            (Some(rate), _) => Pace::Rate(Bitrate::from_bps(rate as u64)),
            (None, Some(blocks)) => Pace::Blocks(blocks),
            (None, None) => Pace::Unpaced,
        };
        Limits { window_packets: (self.window_packets as u64).clamp(1, window_max), pace }
    }
}

fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

fn ack_sample(py: Python<'_>, ack: &AckSample) -> PyResult<PyAckSample> {
    let rate = |rate: RateSample| {
        let sample = PyRateSample {
            packets_per_s: rate.packets_per_second,
            prior_delivered_packets: rate.prior_delivered,
            delivered_packets: rate.delivered,
            lost_packets: rate.lost,
            in_flight_at_send_packets: rate.in_flight_at_send,
            app_limited: rate.app_limited,
        };
        Py::new(py, sample)
    };
    Ok(PyAckSample {
        now_s: seconds(ack.now),
        delivered_packets: ack.delivered_packets,
        lost_packets: ack.lost_packets,
        in_flight_packets: ack.in_flight,
        packet_bytes: ack.packet_bytes,
        rtt_ms: ack.rtt.map(Span::as_millis_f64),
        smoothed_rtt_ms: ack.smoothed_rtt.as_millis_f64(),
        round_began: ack.round_began,
        window_limited: ack.window_limited,
        held: ack.held,
        paced: ack.paced,
        rate: ack.rate.map(rate).transpose()?,
    })
}

fn loss_sample(loss: &LossSample) -> PyLossSample {
    PyLossSample { now_s: seconds(loss.now), in_flight_packets: loss.in_flight }
}

/// A law of a flow, as an object of Python. After an exception it hears nothing more.
struct PyLaw {
    /// `None` if it could not be built.
    law: Option<Py<PyAny>>,
    window_max: u64,
    limits: Limits,
    slow_start: bool,
    rules_recovery: bool,
    trouble: Arc<Trouble>,
}

impl PyLaw {
    /// Calls a method of the law, and then asks for its new limits.
    fn tell(&mut self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>) {
        let Some(law) = self.law.as_ref().filter(|_| !self.trouble.is_there()) else { return };
        let asked = Python::attach(|py| {
            let law = law.bind(py);
            call(py, law)?;
            let limits = law.call_method0("limits")?;
            let limits = limits.cast::<PyLimits>().map_err(PyErr::from)?.get();
            Ok((limits.within(self.window_max), limits.slow_start))
        });
        match asked {
            Ok((limits, slow_start)) => (self.limits, self.slow_start) = (limits, slow_start),
            Err(error) => self.trouble.note(error),
        }
    }
}

impl Law for PyLaw {
    fn on_ack(&mut self, ack: &AckSample) {
        self.tell(|py, law| law.call_method1("on_ack", (ack_sample(py, ack)?,)).map(|_| ()));
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.tell(|_, law| law.call_method1("on_loss", (loss_sample(loss),)).map(|_| ()));
    }

    fn on_timeout(&mut self, loss: &LossSample, repeated: bool) {
        self.tell(|_, law| law.call_method1("on_timeout", (loss_sample(loss), repeated)).map(|_| ()));
    }

    fn on_recovered(&mut self, now: Time) {
        self.tell(|_, law| law.call_method1("on_recovered", (seconds(now),)).map(|_| ()));
    }

    fn on_spurious(&mut self, now: Time) {
        self.tell(|_, law| law.call_method1("on_spurious", (seconds(now),)).map(|_| ()));
    }

    fn on_idle(&mut self, now: Time) {
        self.tell(|_, law| law.call_method1("on_idle", (seconds(now),)).map(|_| ()));
    }

    fn rules_recovery(&self) -> bool {
        self.rules_recovery
    }

    fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}

/// Has a callable of Python build the laws of flows.
pub(crate) fn flow_law(factory: Py<PyAny>, trouble: Arc<Trouble>) -> FlowLaw {
    Arc::new(move |flow: &str, config: &LawConfig| {
        let built = Python::attach(|py| {
            let config = PyLawConfig {
                flow: flow.to_owned(),
                initial_window_packets: config.initial_window,
                window_max_packets: config.window_max,
                seed: config.seed,
            };
            let law = factory.bind(py).call1((config,))?;
            let rules_recovery = law.getattr("rules_recovery")?.is_truthy()?;
            Ok((law.unbind(), rules_recovery))
        });
        let (law, rules_recovery) = match built {
            Ok((law, rules_recovery)) => (Some(law), rules_recovery),
            Err(error) => {
                trouble.note(error);
                (None, false)
            }
        };
        let limits = Limits { window_packets: 1, pace: Pace::Unpaced };
        let trouble = trouble.clone();
        let mut law = PyLaw { law, window_max: config.window_max, limits, slow_start: false, rules_recovery, trouble };
        law.tell(|_, _| Ok(()));
        Box::new(law)
    })
}
