//! Opening the path and keeping it open: probes, their echoes, the MTU that comes through (PROTOCOL.md section 2.3).

use std::collections::VecDeque;

use inhaul_base::{Span, Time};
use inhaul_transport::kit::RttEstimator;

use crate::tcp::wire::HEADER_LEN;

/// Probes while the path is being opened: so often at first, then half as often each time, up to [`PROBE_GAP`].
const OPENING_GAP: Span = Span::from_millis(100);
/// Probes when it is open.
const PROBE_GAP: Span = Span::from_secs(1);
/// Probes that may be under way.
const PROBES_MAX: usize = 16;
/// How long opening a path is tried.
const OPENING_MAX: Span = Span::from_secs(10);
/// Beside half a round trip, larger probes than the one that came back are given so much time.
const OPENING_PATIENCE: Span = Span::from_millis(5);
/// Packet sizes to try if the largest does not come through.
const MTU_FALLBACKS: [u16; 3] = [1500, 1280, 576];

/// How far the path is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The sender's token or address is not known yet.
    Waiting,
    /// Probes are sent.
    Opening { since: Time, heard: Option<Time>, gap: Span },
    /// It is open.
    Open,
}

/// The path to one sender.
#[derive(Debug)]
pub(super) struct Path {
    phase: Phase,
    /// Bytes of IP and UDP header.
    headers: u16,
    mtu: u16,
    confirmed: u16,
    next_probe: Time,
    number: u32,
    /// The last probes that have not come back, and when they were sent.
    probes: VecDeque<(u32, Time)>,
    pub(super) rtt: RttEstimator,
}

impl Path {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            headers: 28,
            mtu: 0,
            confirmed: 0,
            next_probe: Time::FAR_FUTURE,
            number: 0,
            probes: VecDeque::new(),
            rtt: RttEstimator::default(),
        }
    }

    /// The sender can be probed, with packets of up to `mtu` bytes and `headers` of them for IP and UDP.
    pub(super) fn begin(&mut self, now: Time, mtu: u16, headers: u16) {
        self.phase = Phase::Opening { since: now, heard: None, gap: OPENING_GAP };
        (self.mtu, self.headers, self.next_probe) = (mtu, headers, now);
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The largest packet that came through, in bytes.
    pub(super) fn confirmed_mtu(&self) -> u16 {
        self.confirmed
    }

    /// The probes that are due: their numbers and padded lengths of UDP payload.
    pub(super) fn due_probes(&mut self, now: Time, mut send: impl FnMut(u32, u16)) {
        if now < self.next_probe {
            return;
        }
        let mut lengths = vec![HEADER_LEN as u16];
        let mut next = PROBE_GAP;
        if let Phase::Opening { gap, .. } = &mut self.phase {
            let smaller = MTU_FALLBACKS.into_iter().filter(|&mtu| mtu < self.mtu);
            lengths = std::iter::once(self.mtu).chain(smaller).map(|mtu| mtu - self.headers).collect();
            next = *gap;
            *gap = (*gap * 2).min(PROBE_GAP);
        }
        self.next_probe = now + next;
        for len in lengths {
            self.number += 1;
            if self.probes.len() == PROBES_MAX {
                self.probes.pop_front();
            }
            self.probes.push_back((self.number, now));
            send(self.number, len);
        }
    }

    /// A probe came back; each counts once, by our own record of when it left. `None` when it does not count; otherwise
    /// whether the path has just been found open.
    pub(super) fn on_echo(&mut self, now: Time, number: u32, len: u16) -> Option<bool> {
        let index = self.probes.iter().position(|probe| probe.0 == number)?;
        let (_, sent) = self.probes.remove(index)?;
        self.rtt.sample(now.since(sent));
        self.confirmed = self.confirmed.max(len.saturating_add(self.headers).min(self.mtu));
        let Phase::Opening { heard, .. } = &mut self.phase else { return Some(false) };
        heard.get_or_insert(now);
        Some(self.settle(now))
    }

    /// Whether the path has just been found open: the largest probe came back, or it had time enough to.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        let Phase::Opening { heard: Some(_), .. } = self.phase else { return false };
        if self.confirmed < self.mtu && now < self.settles() {
            return false;
        }
        self.phase = Phase::Open;
        self.next_probe = now + PROBE_GAP;
        true
    }

    fn settles(&self) -> Time {
        match self.phase {
            Phase::Opening { heard: Some(heard), .. } => {
                heard + self.rtt.smoothed().unwrap_or(OPENING_GAP) / 2 + OPENING_PATIENCE
            }
            _ => Time::FAR_FUTURE,
        }
    }

    /// Seconds of vain trying after which the path is given up, if it is time.
    pub(super) fn has_failed(&self, now: Time) -> Option<u64> {
        let Phase::Opening { since, heard: None, .. } = self.phase else { return None };
        (now >= since + OPENING_MAX).then_some(OPENING_MAX.as_nanos() / 1_000_000_000)
    }

    /// When this next needs attention.
    pub(super) fn due(&self) -> Time {
        let failing = match self.phase {
            Phase::Opening { since, heard: None, .. } => since + OPENING_MAX,
            _ => Time::FAR_FUTURE,
        };
        self.next_probe.min(self.settles()).min(failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn probes(path: &mut Path, now: Time) -> Vec<(u32, u16)> {
        let mut sent = Vec::new();
        path.due_probes(now, |number, len| sent.push((number, len)));
        sent
    }

    #[test]
    fn the_largest_packet_that_comes_back_is_used() {
        let mut path = Path::new();
        path.begin(at(0), 9000, 28);
        assert_eq!(probes(&mut path, at(0)), [(1, 8972), (2, 1472), (3, 1252), (4, 548)]);
        assert!(probes(&mut path, at(99)).is_empty());
        assert_eq!(path.on_echo(at(20), 2, 1472), Some(false));
        assert_eq!(path.on_echo(at(20), 2, 1472), None);
        assert_eq!(path.due(), at(35));
        assert!(!path.settle(at(34)) && path.settle(at(35)));
        assert_eq!((path.confirmed_mtu(), path.rtt.smoothed()), (1500, Some(Span::from_millis(20))));
    }

    #[test]
    fn the_path_opens_at_once_when_the_largest_comes_back_and_fails_when_nothing_does() {
        let mut path = Path::new();
        path.begin(at(0), 1500, 28);
        probes(&mut path, at(0));
        assert_eq!(path.has_failed(at(9_999)), None);
        assert_eq!(path.has_failed(at(10_000)), Some(10));
        assert_eq!(path.on_echo(at(20), 1, 1472), Some(true));
        assert!(path.is_open());
        assert_eq!(probes(&mut path, at(1_020)), [(4, 24)]);
    }
}
