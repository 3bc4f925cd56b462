//! The text: names and units by OpenMetrics 1.0.

use std::fmt;

use inhaul_mover::{Count, Counters, Refusal};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All numbers as they are now.
///
/// # Errors
/// Never, as it is written to memory.
pub(super) fn encode(counters: &Counters) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("inhaul_build", "The program", version);
    registry.register_collector(Box::new(Snapshot::of(counters)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}

/// Numbers at one moment.
#[derive(Debug)]
struct Snapshot {
    counters: Vec<Family<u64>>,
    gauges: Vec<Family<i64>>,
    process: Process,
}

/// A name without its unit and without `_total`, and its description.
#[derive(Debug)]
struct Family<V> {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    /// The label's name, if there is one, with a value for each of its values; else one value.
    label: Option<&'static str>,
    values: Vec<(&'static str, V)>,
}

impl<V> Family<V> {
    fn one(name: &'static str, help: &'static str, value: V) -> Self {
        Self { name, help, unit: None, label: None, values: vec![("", value)] }
    }

    fn by(name: &'static str, help: &'static str, label: &'static str, values: Vec<(&'static str, V)>) -> Self {
        Self { name, help, unit: None, label: Some(label), values }
    }

    fn bytes(self) -> Self {
        Self { unit: Some(Unit::Bytes), ..self }
    }
}

impl Snapshot {
    fn of(counters: &Counters) -> Self {
        let of = Count::get;
        let refusals = Refusal::ALL.into_iter().map(|cause| (cause.name(), counters.refused(cause))).collect();
        let fetches = vec![("done", of(&counters.fetches_done)), ("broken", of(&counters.fetches_broken))];
        let audit = vec![
            ("written", of(&counters.audit_lines)),
            ("left_out", of(&counters.audit_left_out)),
            ("failed", of(&counters.audit_failures)),
        ];
        let counted = vec![
            Family::one("inhaul_connections", "Connections that were taken", of(&counters.connections)),
            Family::one(
                "inhaul_half_open_dropped",
                "Connections that were closed before they were let in, because newer ones needed their place",
                of(&counters.half_open_dropped),
            ),
            Family::one("inhaul_sessions", "Sessions that were let in", of(&counters.sessions)),
            Family::by("inhaul_fetches", "Fetches that have ended", "outcome", fetches),
            Family::by("inhaul_refusals", "Clients that did not get what they came for", "cause", refusals),
            Family::one("inhaul_sent", "Content of files that was sent", of(&counters.sent_bytes)).bytes(),
            Family::one("inhaul_sent_datagrams", "Datagrams that were sent", of(&counters.sent_datagrams)),
            Family::one("inhaul_retransmitted", "Content that was sent again", of(&counters.retransmitted_bytes))
                .bytes(),
            Family::one("inhaul_kernel_drops", "Datagrams that the kernel dropped", of(&counters.kernel_drops)),
            Family::by("inhaul_audit_lines", "Lines of the audit log", "state", audit),
            Family::one("inhaul_data_thread_turns", "Turns of the data thread's loop", of(&counters.turns)),
        ];
        let gauge = |count: &Count| i64::try_from(count.get()).unwrap_or(i64::MAX);
        let gauges = vec![
            Family::one("inhaul_half_open_connections", "Connections not let in yet", gauge(&counters.half_open)),
            Family::one("inhaul_sessions_open", "Sessions that are open", gauge(&counters.sessions_open)),
            Family::one("inhaul_orders_open", "Puts and copies that are under way", gauge(&counters.orders_open)),
        ];
        Self { counters: counted, gauges, process: Process::now() }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.counters {
            write(&mut encoder, family, MetricType::Counter, |value| ConstCounter::new(*value))?;
        }
        for family in &self.gauges {
            write(&mut encoder, family, MetricType::Gauge, |value| ConstGauge::new(*value))?;
        }
        self.process.encode(&mut encoder)
    }
}

fn write<V, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    family: &Family<V>,
    kind: MetricType,
    metric: impl Fn(&V) -> M,
) -> fmt::Result {
    let mut out = encoder.encode_descriptor(family.name, &format!("{}.", family.help), family.unit.as_ref(), kind)?;
    let Some(label) = family.label else {
        return family.values.first().map_or(Ok(()), |(_, number)| metric(number).encode(out));
    };
    family.values.iter().try_for_each(|(value, number)| metric(number).encode(out.encode_family(&[(label, *value)])?))
}

/// Resources of the process, with the names of Prometheus's own clients.
#[derive(Debug)]
struct Process {
    cpu_seconds: f64,
    resident_bytes: i64,
    descriptors: i64,
}

impl Process {
    /// Zero if the system does not report the value.
    fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let pages = std::fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<i64>().ok()).unwrap_or(0);
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9,
            resident_bytes: pages.saturating_mul(rustix::param::page_size() as i64),
            descriptors: i64::try_from(descriptors).unwrap_or(i64::MAX),
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let cpu = Family::one("process_cpu", "Processor time", self.cpu_seconds);
        let cpu = Family { unit: Some(Unit::Seconds), ..cpu };
        write(encoder, &cpu, MetricType::Counter, |value| ConstCounter::new(*value))?;
        let memory = Family::one("process_resident_memory", "Memory", self.resident_bytes).bytes();
        write(encoder, &memory, MetricType::Gauge, |value| ConstGauge::new(*value))?;
        let open = Family::one("process_open_fds", "Open file descriptors", self.descriptors);
        write(encoder, &open, MetricType::Gauge, |value| ConstGauge::new(*value))
    }
}

#[cfg(test)]
mod tests;
