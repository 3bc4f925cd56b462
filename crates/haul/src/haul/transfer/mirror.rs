//! One mirror of one object, and its statistics over all of its flows.

use inhaul_base::Time;
use inhaul_transport::{FlowStats, HeldBy, JoinFlow};

use inhaul_session::api::report::{SourceStatus, loss_ratio};
use inhaul_session::api::source::Server;

/// One mirror of one object, and its flow.
pub(crate) struct Mirror {
    pub(crate) server: Server,
    pub(super) object: usize,
    /// How it is doing; counters include what it did as `before`.
    pub(crate) stats: FlowStats,
    /// How it did as another flow, before it was lost and came back.
    pub(super) before: FlowStats,
    /// Bytes that it was the first to deliver.
    pub(crate) placed_bytes: u64,
    pub(crate) status: SourceStatus,
    pub(super) opened: Option<Time>,
    pub(super) ended: Option<Time>,
    /// Seconds that it was active as other flows.
    pub(super) active_before: f64,
    /// Whether data could come from it once, as this flow or as another.
    pub(super) has_opened: bool,
    /// How often in a row it was lost before it had stood for a while.
    pub(super) falls: u32,
    /// Groups that it delivered alone and that were wrong, although its digests agree with the others'.
    pub(super) wrong_groups: u64,
    /// Groups of which it has other bytes than most mirrors.
    pub(crate) different_groups: u64,
    /// What its flow begins with, if it has to: see [`super::early`].
    pub(super) deferred: Option<JoinFlow>,
    /// Whether the session is over.
    pub(super) disconnected: bool,
    /// What has held its rate, and how often it was seen.
    held: Vec<(HeldBy, u32)>,
    /// Both ends have agreed to leave its datagrams in the clear.
    pub(crate) plaintext: bool,
}

impl Mirror {
    /// One that has just joined.
    pub(super) fn new(server: Server, object: usize, plaintext: bool) -> Self {
        Self {
            server,
            object,
            stats: FlowStats::default(),
            before: FlowStats::default(),
            placed_bytes: 0,
            status: SourceStatus::Running,
            opened: None,
            ended: None,
            active_before: 0.0,
            has_opened: false,
            falls: 0,
            wrong_groups: 0,
            different_groups: 0,
            deferred: None,
            disconnected: false,
            held: Vec::new(),
            plaintext,
        }
    }

    /// Takes over what the mirror has done as another flow.
    pub(super) fn carry_on(&mut self, old: &Self) {
        self.falls = old.falls;
        self.wrong_groups = old.wrong_groups;
        self.different_groups += old.different_groups;
        self.has_opened = old.has_opened;
        self.held.clone_from(&old.held);
        self.placed_bytes += old.placed_bytes;
        self.active_before += old.active_before;
        if let (Some(opened), Some(ended)) = (old.opened, old.ended) {
            self.active_before += ended.since(opened).as_secs_f64();
        }
        self.before = old.stats;
    }

    /// How long the mirror was active, in seconds.
    pub(crate) fn active_seconds(&self, now: Time) -> f64 {
        let active = |opened| self.ended.unwrap_or(now).since(opened).as_secs_f64();
        self.active_before + self.opened.map_or(0.0, active)
    }

    /// Whether data comes from it.
    pub(super) fn is_active(&self) -> bool {
        self.status == SourceStatus::Running && self.opened.is_some() && self.ended.is_none()
    }

    /// Takes note of how its flow is doing.
    pub(super) fn measure(&mut self, flow: FlowStats) {
        let before = &self.before;
        self.stats = FlowStats {
            lost_packets: before.lost_packets + flow.lost_packets,
            received_packets: before.received_packets + flow.received_packets,
            retransmitted_bytes: before.retransmitted_bytes + flow.retransmitted_bytes,
            duplicate_bytes: before.duplicate_bytes + flow.duplicate_bytes,
            duplicate_packets: before.duplicate_packets + flow.duplicate_packets,
            ..flow
        };
    }

    /// Notes what holds its rate now.
    pub(super) fn note_held(&mut self) {
        // When all has come nothing holds it any more; of what comes at once that is all that is seen.
        let counts = self.is_active() || self.held.is_empty();
        let Some(held) = self.stats.held_by.filter(|_| counts) else { return };
        match self.held.iter_mut().find(|(known, _)| *known == held) {
            Some((_, times)) => *times += 1,
            None => self.held.push((held, 1)),
        }
    }

    /// What has held its rate for most of the time; the start counts only if there was nothing else.
    pub(crate) fn held_mostly(&self) -> Option<HeldBy> {
        let most = self.held.iter().max_by_key(|(held, times)| (*held != HeldBy::Starting, *times));
        most.map(|(held, _)| *held)
    }

    /// Data packets lost over data packets sent.
    pub(crate) fn loss_ratio(&self) -> f64 {
        loss_ratio(self.stats.lost_packets, self.stats.received_packets)
    }
}
