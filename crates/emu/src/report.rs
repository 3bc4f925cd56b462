//! The result of an emulation, and whether it is valid.

use std::net::Ipv4Addr;

use inhaul_base::{Bitrate, Span};
use inhaul_link::LinkStats;
use serde::Serialize;

use crate::engine::{EngineReport, LATENESS_MAX, Lateness};
use crate::grid::Grid;
use crate::message::DeviceCounters;
use crate::options::{Options, Wait};

/// A run is invalid when more than this part of the packets is late.
pub const LATE_PART_MAX: f64 = 0.01;

/// This many may be late, of any total.
const LATE_PACKETS_ALLOWED: u64 = 10;

/// A run is invalid if for more than this part of it, in stretches of a millisecond or more, the emulator could not
/// serve its devices. Meanwhile, packets wait in a queue that the grid does not have, and then come as a burst.
pub const STARVED_PART_MAX: f64 = 0.01;

/// The result of an emulation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Whether the host emulated the grid faithfully.
    pub valid: bool,
    /// If not, why.
    pub reasons: Vec<String>,
    /// How the emulator waited: `sleep` or `spin`.
    pub wait: Wait,
    /// Whether this machine's processors were kept awake.
    pub awake: bool,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// Time in which the emulator could not look at its devices, in stretches of more than a millisecond; in seconds.
    pub starved_s: f64,
    /// The longest such stretch, in milliseconds.
    pub stall_max_ms: f64,
    /// Processor time of the emulator's thread, in seconds.
    pub cpu_s: f64,
    /// How long that thread was ready to run and waited for a processor, in seconds; `None` if the kernel does not
    /// tell.
    pub processor_wait_s: Option<f64>,
    /// Processor time that the host of this virtual machine took from all of its processors together, in seconds;
    /// `None` if the kernel does not tell.
    pub stolen_s: Option<f64>,
    /// The links, in the order of the grid.
    pub links: Vec<LinkReport>,
    /// The hosts, in the order of the grid.
    pub hosts: Vec<HostReport>,
    /// Features that the grid lacks on this machine.
    pub warnings: Vec<String>,
}

/// A link's counters. Bytes count from IP up; each segment of a superpacket is a packet.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub name: String,
    /// The rate that was asked for, at first, in bits per second; `None`: no limit.
    pub rate_bps: Option<f64>,
    /// The propagation delay that was asked for, in milliseconds.
    pub delay_ms: f64,
    /// Its rate, in bits per second over the whole run.
    pub carried_bps: f64,
    /// The part of the run in which its transmitter was busy.
    pub utilisation: f64,
    /// Packets that were sent into it.
    pub offered_packets: u64,
    /// Packets that it carried to its end.
    pub carried_packets: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Packets that were dropped because its queue was full.
    pub queue_full_packets: u64,
    /// Packets that its queue discipline dropped before that.
    pub early_packets: u64,
    /// Packets that were lost on the wire.
    pub lost_packets: u64,
    /// Packets that were dropped because it was down.
    pub down_packets: u64,
    /// Copies that it made.
    pub duplicated_packets: u64,
    /// Part of the transmitted packets that was lost on the wire.
    pub loss_ratio: f64,
    /// The most bytes that ever waited.
    pub queue_bytes_max: u64,
}

/// A host's counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether its device handed over superpackets.
    pub superpackets: bool,
    /// Packets that the emulator took from it; a superpacket is one.
    pub sent_packets: u64,
    /// Packets that the emulator handed to it.
    pub received_packets: u64,
    /// Packets that it sent to addresses outside the grid.
    pub unroutable_packets: u64,
    /// Packets dropped outside of every emulated queue: by its device before the emulator read them, by its kernel
    /// when they were handed over, or by the emulator for lack of memory or because it did not understand them.
    pub hidden_drops: u64,
    /// Processor time of all processes in the host, with any parents, in seconds; `None`: the grid was killed.
    pub cpu_s: Option<f64>,
}

/// Facts for a report beside the engine's own.
pub(crate) struct Circumstances<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) options: Options,
    pub(crate) superpackets: &'a [bool],
    pub(crate) addresses: &'a [Ipv4Addr],
    /// `None`: the keeper did not answer.
    pub(crate) counters: Option<Vec<DeviceCounters>>,
    /// By host.
    pub(crate) cpu: Option<Vec<Span>>,
    pub(crate) warnings: Vec<String>,
}

impl Report {
    pub(crate) fn new(engine: &EngineReport, circumstances: &Circumstances<'_>) -> Self {
        let Circumstances { grid, options, counters, warnings, .. } = circumstances;
        let seconds = engine.span.as_secs_f64();
        let links = grid.links.iter().zip(&engine.links).map(|(link, stats)| {
            let asked = LinkReport {
                name: link.name.clone(),
                rate_bps: link.spec.rate.map(Bitrate::as_f64),
                delay_ms: link.spec.delay.as_millis_f64(),
                ..LinkReport::default()
            };
            asked.with(stats, seconds)
        });
        let mut report = Self {
            valid: true,
            reasons: Vec::new(),
            wait: options.wait,
            awake: options.awake,
            seconds,
            lateness: engine.lateness,
            starved_s: engine.starved.as_secs_f64(),
            stall_max_ms: engine.stall_max.as_millis_f64(),
            cpu_s: engine.cpu.as_secs_f64(),
            processor_wait_s: engine.waited.map(Span::as_secs_f64),
            stolen_s: engine.stolen.map(Span::as_secs_f64),
            links: links.collect(),
            hosts: (0..grid.hosts.len()).map(|host| host_report(host, engine, circumstances)).collect(),
            warnings: warnings.clone(),
        };
        report.judge(engine, grid, counters.is_some());
        report
    }

    /// Finds the reasons not to believe it.
    fn judge(&mut self, engine: &EngineReport, grid: &Grid, counted: bool) {
        let mut reasons = Vec::new();
        let Lateness { packets, late_packets: late, .. } = self.lateness;
        if late > LATE_PACKETS_ALLOWED && late as f64 > LATE_PART_MAX * packets as f64 {
            reasons.push(format!(
                "the host is too slow or too busy: {late} of {packets} packets ({:.1} %) were delivered more than {LATENESS_MAX} late; \
                 at most {:.0} % may be",
                late as f64 / packets as f64 * 100.0,
                LATE_PART_MAX * 100.0
            ));
        }
        if self.starved_s > STARVED_PART_MAX * self.seconds {
            reasons.push(format!(
                "the emulator was starved for {:.2} s of {:.2} s, up to {:.1} ms at a time: other programs take the processors",
                self.starved_s, self.seconds, self.stall_max_ms
            ));
        }
        if !reasons.is_empty() && self.stolen_s.is_some_and(|stolen| stolen > STARVED_PART_MAX * self.seconds) {
            let stolen = self.stolen_s.unwrap_or_default();
            let advice = if self.awake { "" } else { "; '--awake' keeps it from taking idle ones" };
            reasons.push(format!(
                "this is a virtual machine, and its host took {stolen:.2} s of its processors meanwhile{advice}"
            ));
        }
        for host in self.hosts.iter().filter(|host| host.hidden_drops > 0) {
            reasons.push(format!(
                "{} packets of '{}' were dropped outside of every emulated queue: the host is too slow, or out of memory",
                host.hidden_drops, host.name
            ));
        }
        reasons
            .extend(engine.gone.iter().map(|host| format!("the device of '{}' has vanished", grid.hosts[*host].name)));
        if !counted {
            reasons.push("the counters of the devices could not be read: the grid was killed".to_owned());
        }
        self.valid = reasons.is_empty();
        self.reasons = reasons;
    }
}

impl LinkReport {
    fn with(self, stats: &LinkStats, seconds: f64) -> Self {
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let transmitted = stats.carried.packets + stats.lost.packets;
        Self {
            carried_bps: per_second(stats.carried.bytes as f64 * 8.0),
            utilisation: per_second(stats.busy.as_secs_f64()),
            offered_packets: stats.offered.packets,
            carried_packets: stats.carried.packets,
            carried_bytes: stats.carried.bytes,
            queue_full_packets: stats.queue_full.packets,
            early_packets: stats.early.packets,
            lost_packets: stats.lost.packets,
            down_packets: stats.down.packets,
            duplicated_packets: stats.duplicated.packets,
            loss_ratio: if transmitted > 0 { stats.lost.packets as f64 / transmitted as f64 } else { 0.0 },
            queue_bytes_max: stats.queue_bytes_max,
            ..self
        }
    }
}

fn host_report(host: usize, engine: &EngineReport, circumstances: &Circumstances<'_>) -> HostReport {
    let seen = engine.ports.get(host).copied().unwrap_or_default();
    let counted = circumstances.counters.as_ref().and_then(|all| all.get(host)).copied().unwrap_or_default();
    // A packet that the host's kernel did not take is in the device's counter too, or in neither counter.
    let inward = counted.inward_drops.max(seen.rejected);
    HostReport {
        name: circumstances.grid.hosts[host].name.clone(),
        address: circumstances.addresses[host].to_string(),
        superpackets: circumstances.superpackets[host],
        sent_packets: seen.read,
        received_packets: seen.written,
        unroutable_packets: seen.unroutable,
        hidden_drops: inward + counted.outward_drops + seen.malformed + seen.no_memory,
        cpu_s: circumstances.cpu.as_ref().and_then(|all| all.get(host)).map(|cpu| cpu.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::PortCounts;
    use crate::grid::{GridLink, Host};
    use inhaul_link::LinkSpec;

    /// An engine's counters of ten seconds without faults.
    fn seen() -> EngineReport {
        EngineReport {
            span: Span::from_secs(10),
            links: vec![LinkStats::default()],
            ports: vec![PortCounts::default(); 2],
            lateness: Lateness { packets: 10_000, late_packets: 100, ..Lateness::default() },
            starved: Span::from_millis(100),
            stall_max: Span::from_millis(20),
            cpu: Span::ZERO,
            waited: None,
            stolen: Some(Span::from_secs(5)),
            gone: vec![],
        }
    }

    fn report_of(engine: &EngineReport, counters: Option<Vec<DeviceCounters>>) -> Report {
        let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
        let link = GridLink { name: "l".to_owned(), spec: LinkSpec::ideal() };
        let grid = Grid { hosts: vec![host("a"), host("b")], links: vec![link], ..Grid::default() };
        let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let warnings = Vec::new();
        let (options, superpackets) = (Options::default(), &[false; 2]);
        Report::new(
            engine,
            &Circumstances { grid: &grid, options, superpackets, addresses: &addresses, counters, cpu: None, warnings },
        )
    }

    #[test]
    fn judge_believes_a_run_within_the_limits_and_says_what_is_beyond() {
        type Spoil = fn(&mut EngineReport, &mut Option<Vec<DeviceCounters>>);
        let cases: [(Spoil, Option<&str>); 8] = [
            (|_, _| {}, None),
            (|engine, _| (engine.lateness.packets, engine.lateness.late_packets) = (20, 10), None),
            (
                |engine, _| engine.lateness.late_packets = 101,
                Some("101 of 10000 packets (1.0 %) were delivered more than 500.0 us late"),
            ),
            (|engine, _| engine.starved = Span::from_millis(101), Some("starved for 0.10 s of 10.00 s, up to 20.0 ms")),
            (|engine, _| engine.ports[1].no_memory = 3, Some("3 packets of 'b' were dropped outside")),
            (
                |_, counters| counters.as_mut().unwrap()[0].outward_drops = 2,
                Some("2 packets of 'a' were dropped outside"),
            ),
            (|engine, _| engine.gone = vec![1], Some("the device of 'b' has vanished")),
            (|_, counters| *counters = None, Some("could not be read")),
        ];
        for (number, (spoil, reason)) in cases.into_iter().enumerate() {
            let (mut engine, mut counters) = (seen(), Some(vec![DeviceCounters::default(); 2]));
            spoil(&mut engine, &mut counters);
            let report = report_of(&engine, counters);
            assert_eq!((report.valid, report.reasons.is_empty()), (reason.is_none(), reason.is_none()), "{number}");
            assert!(reason.is_none_or(|reason| report.reasons[0].contains(reason)), "{:?}", report.reasons);
            // Stolen time is reported if it may be the cause, and is no fault on its own.
            let slow = number == 2 || number == 3;
            assert_eq!(report.reasons.iter().any(|reason| reason.contains("host took 5.00 s")), slow, "{number}");
        }
    }

    #[test]
    fn new_counts_what_a_kernel_did_not_take_once() {
        let mut engine = seen();
        engine.ports[0].rejected = 5;
        let counters = vec![DeviceCounters { inward_drops: 5, outward_drops: 1 }, DeviceCounters::default()];
        assert_eq!(report_of(&engine, Some(counters)).hosts[0].hidden_drops, 6);
    }
}
