//! A flow's knowledge of its rivals (PROTOCOL.md 7.7).

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;

use super::cross_traffic::CrossTraffic;
use super::shadow::Shadow;

/// Flows that saw the same queue may share a place for so long, as far as can be told.
const COMPANIONS_SPAN: Span = Span::from_secs(20);
const COMPANIONS_MAX: usize = 16;
/// They did if it showed this many times.
const COMPANIONS_TIMES: u32 = 3;

/// How a flow competes.
#[derive(Debug, Default)]
pub(super) struct Rivalry {
    pub(super) shadow: Option<Shadow>,
    /// Cross traffic on its path.
    pub(super) cross_traffic: CrossTraffic,
    /// Others of our flows that may share a place on its path, and when that showed last.
    companions: Vec<(FlowId, Time, u32)>,
    /// Its requested rate has jumped.
    pub(super) retell: bool,
    /// The window of the last time, and when that ended.
    pub(super) kept: Option<(Time, f64)>,
    /// The last arrival rate without rivals.
    pub(super) calm: Bitrate,
    /// The flow's share of a given capacity.
    pub(super) share: Option<Bitrate>,
    /// Part of the window that is asked for.
    pub(super) ease: f64,
}

impl Rivalry {
    /// Whether it competes.
    pub(super) fn is_on(&self) -> bool {
        self.shadow.is_some()
    }

    /// Whether it competes on its own path.
    pub(super) fn is_on_path(&self) -> bool {
        self.is_on() && self.cross_traffic.is_competing()
    }

    /// The data set counts as this many TCP flows from now on.
    pub(super) fn set_worth(&mut self, worth: f64) {
        self.kept = None;
        if let Some(shadow) = &mut self.shadow {
            shadow.set_worth(worth);
            self.retell = true;
        }
    }

    /// Others of our flows saw a queue that may be the same.
    pub(super) fn meet(&mut self, now: Time, others: impl Iterator<Item = FlowId>) {
        self.companions.retain(|(_, at, _)| now.since(*at) <= COMPANIONS_SPAN);
        for other in others {
            if let Some((_, at, times)) = self.companions.iter_mut().find(|(known, ..)| *known == other) {
                (*at, *times) = (now, *times + 1);
            } else if self.companions.len() < COMPANIONS_MAX {
                self.companions.push((other, now, 1));
            }
        }
    }

    pub(super) fn is_companion(&self, other: FlowId) -> bool {
        self.companions.iter().any(|(known, _, times)| *known == other && *times >= COMPANIONS_TIMES)
    }
}
