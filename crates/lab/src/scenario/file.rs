//! A scenario as it is in its file. docs/scenario.md explains every field.
//!
//! Fields that are checked against others carry their position in the text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_spanned::Spanned;

use super::units::{Duration, ParameterValue, QueueLength, Rate, Share, Size};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioFile {
    pub(crate) title: String,
    #[serde(default = "one")]
    pub(crate) seed: u64,
    pub(crate) repetitions: Option<Spanned<u32>>,
    pub(crate) duration: Spanned<Duration>,
    pub(crate) record: Option<Spanned<Duration>>,
    pub(crate) measure: Option<Spanned<MeasureFile>>,
    pub(crate) noise: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) sealed: bool,
    #[serde(default)]
    pub(crate) host_tcp: bool,
    pub(crate) topology: Spanned<TopologyFile>,
    #[serde(default)]
    pub(crate) hosts: Vec<HostFile>,
    #[serde(default)]
    pub(crate) flows: Vec<FlowFile>,
    #[serde(default)]
    pub(crate) background: BackgroundFile,
    #[serde(default)]
    pub(crate) changes: Vec<ChangeFile>,
    #[serde(default)]
    pub(crate) pcap: Vec<PcapFile>,
    #[serde(default)]
    pub(crate) sweep: Vec<Spanned<SweepFile>>,
}

const fn one() -> u64 {
    1
}

/// The part of the run that the metrics are about.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeasureFile {
    pub(crate) from: Option<Duration>,
    pub(crate) to: Option<Duration>,
}

/// The topology: exactly one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TopologyFile {
    pub(crate) star: Option<StarFile>,
    pub(crate) dumbbell: Option<DumbbellFile>,
    pub(crate) parking_lot: Option<ParkingLotFile>,
    pub(crate) graph: Option<GraphFile>,
}

/// Each sender on its own dedicated link; one access link to the receiver (gtp-2004 Figure 3b).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StarFile {
    #[serde(default = "receiver")]
    pub(crate) receiver: String,
    pub(crate) access: LinkFields,
    pub(crate) senders: Vec<BranchFile>,
}

fn receiver() -> String {
    "receiver".to_owned()
}

/// A sender of a star, or many alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchFile {
    pub(crate) name: Spanned<String>,
    pub(crate) count: Option<Spanned<u32>>,
    pub(crate) rtt: Spanned<Duration>,
    pub(crate) rtt_max: Option<Spanned<Duration>>,
    #[serde(default)]
    pub(crate) link: LinkFields,
}

/// Pairs of hosts whose paths share one link (fhstcp-2005 Figure 2).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumbbellFile {
    pub(crate) bottleneck: LinkFields,
    pub(crate) pairs: Vec<PairFile>,
}

/// A sender and a receiver of a dumbbell, or many alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairFile {
    pub(crate) sender: Spanned<String>,
    pub(crate) receiver: Spanned<String>,
    pub(crate) count: Option<Spanned<u32>>,
    pub(crate) rtt: Spanned<Duration>,
    pub(crate) rtt_max: Option<Spanned<Duration>>,
    #[serde(default)]
    pub(crate) link: LinkFields,
}

/// Links in a row; one path over all of them and one over each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParkingLotFile {
    pub(crate) hops: Vec<LinkFields>,
    #[serde(default)]
    pub(crate) access: LinkFields,
}

/// Any graph.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphFile {
    pub(crate) hosts: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) routers: Vec<Spanned<String>>,
    pub(crate) links: Vec<GraphLinkFile>,
}

/// A link of a graph: both ways, unless it says otherwise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphLinkFile {
    pub(crate) name: Spanned<String>,
    pub(crate) from: Spanned<String>,
    pub(crate) to: Spanned<String>,
    #[serde(default)]
    pub(crate) one_way: bool,
    pub(crate) link: LinkFields,
    pub(crate) back: Option<LinkFields>,
}

/// Properties of a link: the elements of `inhaul_link::LinkSpec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFields {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Duration>,
    pub(crate) jitter: Option<Duration>,
    #[serde(default)]
    pub(crate) jitter_reorders: bool,
    pub(crate) queue: Option<Spanned<QueueLength>>,
    pub(crate) red: Option<Spanned<RedFile>>,
    pub(crate) codel: Option<Spanned<CoDelFile>>,
    pub(crate) ecn: Option<Spanned<bool>>,
    pub(crate) loss: Option<Share>,
    pub(crate) burst_loss: Option<Spanned<GilbertElliottFile>>,
    pub(crate) lose_packets: Option<Spanned<Vec<u64>>>,
    pub(crate) reordering: Option<ReorderingFile>,
    pub(crate) marking: Option<Share>,
    pub(crate) duplication: Option<Share>,
}

/// Random early detection.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedFile {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) probability: Share,
    #[serde(default = "red_weight")]
    pub(crate) weight: f64,
    #[serde(default = "red_mean_packet")]
    pub(crate) mean_packet: u32,
}

const fn red_weight() -> f64 {
    0.002
}

const fn red_mean_packet() -> u32 {
    1500
}

/// Controlled delay.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoDelFile {
    pub(crate) target: Option<Duration>,
    pub(crate) interval: Option<Duration>,
}

/// The Gilbert-Elliott channel.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GilbertElliottFile {
    pub(crate) to_bad: Share,
    pub(crate) to_good: Share,
    pub(crate) loss_in_good: Option<Share>,
    pub(crate) loss_in_bad: Share,
}

/// Packets that are held back.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReorderingFile {
    pub(crate) probability: Share,
    pub(crate) by: Duration,
}

/// A host's end system.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostFile {
    pub(crate) name: Spanned<String>,
    pub(crate) packet_rate: Option<Spanned<f64>>,
    pub(crate) ring: Option<Spanned<usize>>,
    pub(crate) send_buffer: Option<Size>,
    pub(crate) noise: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) tasks: Vec<TaskFile>,
    pub(crate) scheduler: Option<Spanned<SchedulerFile>>,
}

/// What shares a host's processor among tasks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchedulerFile {
    pub(crate) kind: SchedulerName,
    #[serde(default)]
    pub(crate) nice: i8,
    pub(crate) interrupt: Option<Duration>,
    #[serde(default)]
    pub(crate) interrupts: InterruptsFile,
    #[serde(default)]
    pub(crate) monitor: MonitorName,
    pub(crate) tick: Option<Duration>,
    pub(crate) delta: Option<u8>,
    pub(crate) much: Option<f64>,
    pub(crate) pause_min: Option<Duration>,
    pub(crate) base_slice: Option<Duration>,
    pub(crate) quota: Option<Duration>,
    pub(crate) period: Option<Duration>,
    #[serde(default)]
    pub(crate) tasks: Vec<ScheduledTaskFile>,
}

/// What interrupts cost, beside `interrupt`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InterruptsFile {
    pub(crate) full: Option<Duration>,
    pub(crate) each: Option<Duration>,
    pub(crate) coalesce: Option<Duration>,
    #[serde(default)]
    pub(crate) memory: f64,
    pub(crate) descriptors: Option<usize>,
    pub(crate) budget: Option<usize>,
    #[serde(default)]
    pub(crate) elsewhere: bool,
}

/// The pauses that endpoints are told of.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MonitorName {
    /// All.
    #[default]
    On,
    /// Pauses in which holding pays.
    Auto,
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SchedulerName {
    /// That of Linux 2.6.
    O1,
    /// Earliest eligible virtual deadline first.
    Eevdf,
}

/// A task that competes for a processor with a scheduler, or many alike.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduledTaskFile {
    #[serde(default = "one_task")]
    pub(crate) count: u16,
    #[serde(default)]
    pub(crate) nice: i8,
    #[serde(default)]
    pub(crate) memory: f64,
    pub(crate) paging: Option<Duration>,
    pub(crate) runs: Option<Duration>,
    pub(crate) sleeps: Option<Duration>,
    #[serde(default)]
    pub(crate) random: bool,
    pub(crate) start: Option<Duration>,
}

const fn one_task() -> u16 {
    1
}

/// Other work that takes a host's processor: on, off, on, ...
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskFile {
    pub(crate) share: Share,
    pub(crate) on: Duration,
    pub(crate) off: Duration,
    #[serde(default)]
    pub(crate) random: bool,
    pub(crate) start: Option<Duration>,
}

/// A flow, or one for each host that a pattern matches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowFile {
    pub(crate) name: Spanned<String>,
    pub(crate) protocol: Spanned<String>,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Spanned<ParameterValue>>,
    pub(crate) from: Spanned<String>,
    pub(crate) to: Spanned<String>,
    pub(crate) count: Option<Spanned<u32>>,
    pub(crate) start: Option<Spanned<Duration>>,
    pub(crate) spread: Option<Duration>,
    pub(crate) stop: Option<Spanned<Duration>>,
    pub(crate) lasts: Option<Spanned<Duration>>,
    pub(crate) size: Option<Size>,
    pub(crate) mirrors: Option<Spanned<String>>,
    pub(crate) group: Option<String>,
    #[serde(default)]
    pub(crate) background: bool,
    pub(crate) application_rate: Option<Rate>,
    pub(crate) link_rate: Option<Rate>,
    pub(crate) send_rate: Option<Spanned<Rate>>,
    pub(crate) receive_rate: Option<Spanned<Rate>>,
    pub(crate) mtu: Option<Spanned<u16>>,
}

/// Traffic that is not measured.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackgroundFile {
    #[serde(default)]
    pub(crate) web: Vec<WebFile>,
    #[serde(default)]
    pub(crate) udp: Vec<UdpFile>,
}

/// Short transfers with heavy-tailed sizes, like those of the web.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebFile {
    pub(crate) name: Spanned<String>,
    pub(crate) protocol: Spanned<String>,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, Spanned<ParameterValue>>,
    pub(crate) from: Spanned<String>,
    pub(crate) to: Spanned<String>,
    pub(crate) arrivals_per_s: Spanned<f64>,
    pub(crate) mean_size: Spanned<Size>,
    pub(crate) shape: Spanned<f64>,
    pub(crate) size_max: Option<Spanned<Size>>,
    pub(crate) start: Option<Spanned<Duration>>,
    pub(crate) stop: Option<Spanned<Duration>>,
    pub(crate) mtu: Option<Spanned<u16>>,
}

/// Datagrams at a constant rate, or on and off.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UdpFile {
    pub(crate) from: Spanned<String>,
    pub(crate) to: Spanned<String>,
    pub(crate) rate: Rate,
    pub(crate) on: Option<Spanned<Duration>>,
    pub(crate) off: Option<Duration>,
    #[serde(default)]
    pub(crate) random: bool,
    pub(crate) start: Option<Spanned<Duration>>,
    pub(crate) stop: Option<Spanned<Duration>>,
    pub(crate) packet: Option<Spanned<u16>>,
}

/// Something that happens during the run: to a link, or to a flow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeFile {
    pub(crate) at: Spanned<Duration>,
    pub(crate) link: Option<Spanned<String>>,
    pub(crate) rate: Option<Rate>,
    pub(crate) up: Option<bool>,
    pub(crate) flow: Option<Spanned<String>>,
    pub(crate) send_rate: Option<Rate>,
    pub(crate) receive_rate: Option<Rate>,
    pub(crate) policy: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) stop: bool,
}

/// A link whose packets are written to a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PcapFile {
    pub(crate) link: Spanned<String>,
    pub(crate) file: String,
}

/// One dimension of a sweep. Values are read from the document, where they keep their form; here only the shape is
/// checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepFile {
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) values: Vec<IgnoredAny>,
    pub(crate) range: Option<RangeFile>,
    #[serde(default)]
    pub(crate) cases: Vec<CaseFile>,
}

/// Numbers from one to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeFile {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) steps: u32,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) logarithmic: bool,
}

/// Several settings that belong together, under a name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseFile {
    #[serde(rename = "name")]
    pub(crate) _name: String,
    #[serde(default, rename = "set")]
    pub(crate) _set: BTreeMap<String, IgnoredAny>,
}
