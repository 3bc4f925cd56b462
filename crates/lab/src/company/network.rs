//! A shared network as it was drawn.

use super::kind::{Discipline, Kind, Place};

/// Bits of the largest packet.
pub(super) const PACKET_BITS: f64 = 1500.0 * 8.0;

/// A network that a seed has drawn.
#[derive(Clone, Debug)]
pub struct Network {
    /// The seed: the same number gives the same network.
    pub seed: u64,
    /// The rivals.
    pub kind: Kind,
    /// Where the bottleneck is.
    pub place: Place,
    /// Rate of the bottleneck, in bits per second.
    pub rate_bps: u64,
    /// Capacity of its queue, in packets.
    pub queue_packets: u64,
    /// How it drops packets.
    pub discipline: Discipline,
    /// The contestant's flows. Flows over the bottleneck come first.
    pub(super) own: Vec<Own>,
    /// How many cross it.
    pub(super) crossing: usize,
    /// Rate of the link behind the bottleneck; it matters in [`Place::Inner`].
    pub(super) access_bps: u64,
    /// Rate of the links of all other hosts.
    pub(super) side_bps: u64,
    pub(super) rivals: Vec<Rival>,
    pub(super) web: Option<Web>,
    pub(super) udp: Option<Udp>,
    /// What happens to the bottleneck.
    pub(super) course: Vec<Change>,
    /// The time over which rates are compared.
    pub(super) measure_s: [f64; 2],
    /// When the rivals leave, if they do.
    pub(super) leave_s: Option<f64>,
    pub(super) end_s: f64,
}

/// A flow of the contestant.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) rtt_ms: f64,
    /// Rate of its sender's link.
    pub(super) link_bps: u64,
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
}

/// A long flow of somebody else.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    pub(super) protocol: &'static str,
    pub(super) rtt_ms: f64,
    pub(super) start_s: f64,
}

/// Short transfers of somebody else.
#[derive(Clone, Debug)]
pub(super) struct Web {
    pub(super) arrivals_per_s: f64,
    pub(super) mean_bytes: u64,
    pub(super) rtt_ms: f64,
}

/// Datagrams that answer to nothing.
#[derive(Clone, Debug)]
pub(super) struct Udp {
    pub(super) bps: u64,
    /// How long it is on and off, in seconds, and whether these are means; `None`: always on.
    pub(super) spells: Option<(f64, f64, bool)>,
}

/// Something that happens to the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// It has another rate, in bits per second, from a time on.
    Rate(f64, u64),
    /// It is gone, or back.
    Up(f64, bool),
}

impl Network {
    /// What rivals of several protocols are called.
    pub const MIXED: &str = "mixed";

    /// Round-trip time of the first flow without queues, in milliseconds.
    pub fn rtt_ms(&self) -> f64 {
        self.own.first().map_or(0.0, |own| own.rtt_ms)
    }

    /// Capacity of the queue, in milliseconds at the rate of the start.
    pub fn queue_ms(&self) -> f64 {
        self.queue_packets as f64 * PACKET_BITS * 1e3 / self.rate_bps as f64
    }

    /// How long the run lasts, in seconds.
    pub fn duration_s(&self) -> f64 {
        self.end_s
    }

    /// The rivals' protocol; `mixed` for several, `none` without elastic rivals.
    pub fn rivals(&self) -> &'static str {
        let Some((first, others)) = self.rivals.split_first() else { return "none" };
        if others.iter().all(|rival| rival.protocol == first.protocol) { first.protocol } else { Self::MIXED }
    }

    /// How many elastic rivals there are.
    pub fn rival_count(&self) -> usize {
        self.rivals.len()
    }

    /// Whether the goals for networks without company hold here: at constant rates, with queues of 20 packets and more,
    /// and 400 kbit/s a flow and more.
    pub fn has_goals(&self) -> bool {
        let taken = self.udp.as_ref().map_or(0, |udp| udp.bps);
        let share = self.rate_bps.saturating_sub(taken) / (self.crossing.max(1) as u64);
        let least = self.own.iter().map(|own| own.link_bps.min(share)).min().unwrap_or(0);
        self.kind == Kind::Steady && self.queue_packets >= 20 && least >= 400_000
    }

    /// A description, for a line of a table or a title.
    pub fn about(&self) -> String {
        let mut parts = Vec::new();
        if let Some(first) = self.rivals.first() {
            let late = self.own.first().is_some_and(|own| own.start_s < first.start_s);
            let when = [late.then_some("late"), self.leave_s.map(|_| "leaving")];
            let when = when.into_iter().flatten().map(|word| format!(" {word}")).collect::<String>();
            parts.push(format!("{} {}{when}", self.rivals.len(), self.rivals()));
        }
        let turns = [
            self.course.iter().any(|change| matches!(change, Change::Rate(..))).then_some("rate changes"),
            self.course.iter().any(|change| matches!(change, Change::Up(..))).then_some("link vanishes"),
            self.web.as_ref().map(|_| "web"),
            self.udp.as_ref().map(|udp| if udp.spells.is_some() { "UDP on and off" } else { "UDP" }),
        ];
        parts.extend(turns.into_iter().flatten().map(str::to_owned));
        if parts.is_empty() { "no rivals".to_owned() } else { parts.join(", ") }
    }
}
