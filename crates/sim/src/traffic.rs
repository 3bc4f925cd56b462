//! Background traffic over UDP without congestion control: constant, or on and off.

use inhaul_base::{Bitrate, RandomStream, Span, Time};

use crate::agenda::ComponentId;
use crate::ids::NodeId;
use crate::spell::Spell;

/// When a background traffic sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All the time.
    Constant,
    /// In spells, beginning with an active one.
    OnOff {
        /// How long it sends.
        on: Spell,
        /// How long it pauses.
        off: Spell,
    },
}

/// UDP packets at a fixed rate from one host to another, without answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTraffic {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives; its endpoints do not see the packets, its ring and processor do.
    pub to: NodeId,
    /// Bits per second while it is on, IP and UDP headers included.
    pub rate: Bitrate,
    /// Length of each packet with all headers from IP up, in bytes.
    pub packet_bytes: u16,
    /// When it sends.
    pub pattern: Pattern,
    /// When it begins.
    pub start: Time,
    /// When it ends; `None`: never.
    pub stop: Option<Time>,
}

/// What became of a background traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficStats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that arrived and were taken in.
    pub received_packets: u64,
}

/// A background traffic while it runs.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) traffic: UdpTraffic,
    pub(crate) component: ComponentId,
    pub(crate) stats: TrafficStats,
    random: RandomStream,
    gap: Span,
    next: Time,
    /// End of the spell that is on.
    spell_end: Time,
}

impl Source {
    pub(crate) fn new(traffic: UdpTraffic, component: ComponentId, mut random: RandomStream) -> Self {
        let spell_end = match traffic.pattern {
            Pattern::Constant => Time::FAR_FUTURE,
            Pattern::OnOff { on, .. } => traffic.start + on.draw(&mut random),
        };
        let gap = traffic.rate.time_for(u64::from(traffic.packet_bytes)).max(Span::from_nanos(1));
        let stats = TrafficStats::default();
        let mut source = Self { traffic, component, stats, random, gap, next: traffic.start, spell_end };
        source.skip_pauses();
        source
    }

    /// When the next packet is due.
    pub(crate) fn due(&self) -> Option<Time> {
        Some(self.next).filter(|next| self.traffic.stop.is_none_or(|stop| *next < stop))
    }

    /// A packet has been sent.
    pub(crate) fn advance(&mut self) {
        self.stats.sent_packets += 1;
        self.next += self.gap;
        self.skip_pauses();
    }

    /// A packet that would fall into a pause is due when the next spell begins.
    fn skip_pauses(&mut self) {
        let Pattern::OnOff { on, off } = self.traffic.pattern else { return };
        while self.next >= self.spell_end && self.next < Time::FAR_FUTURE {
            let begin = self.spell_end + off.draw(&mut self.random);
            self.next = self.next.max(begin);
            self.spell_end = begin + on.draw(&mut self.random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::{Agenda, Component};

    fn times(pattern: Pattern, count: usize) -> Vec<u64> {
        let traffic = UdpTraffic {
            from: NodeId(0),
            to: NodeId(1),
            rate: Bitrate::from_mbps(12),
            packet_bytes: 1500,
            pattern,
            start: Time::ZERO,
            stop: None,
        };
        let component = Agenda::default().add(Component::Traffic(0));
        let mut source = Source::new(traffic, component, RandomStream::new(1, 1));
        let next = |_| {
            let due = source.due().unwrap();
            source.advance();
            due.as_nanos() / 1_000
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn due_constant_is_evenly_spaced() {
        assert_eq!(times(Pattern::Constant, 4), [0, 1_000, 2_000, 3_000]);
    }

    #[test]
    fn due_fixed_spells_begin_on() {
        let pattern =
            Pattern::OnOff { on: Spell::Fixed(Span::from_micros(2_500)), off: Spell::Fixed(Span::from_micros(10_000)) };
        assert_eq!(times(pattern, 7), [0, 1_000, 2_000, 12_500, 13_500, 14_500, 25_000]);
    }

    #[test]
    fn due_exponential_spells_are_on_for_their_part_of_the_time() {
        let spell = |millis| Spell::Exponential(Span::from_millis(millis));
        let count = 200_000;
        let end = times(Pattern::OnOff { on: spell(100), off: spell(300) }, count)[count - 1];
        let on = count as f64 * 1_000.0 / end as f64;
        // About 2,000 spells of each kind: the part has a standard deviation of 0.25 * 0.75 * sqrt(2 / 2,000) = 0.006.
        // Each spell sends a packet at its beginning, half a gap more than its length: 0.5 % of a spell of 100 ms.
        assert!((on - 0.25).abs() < 4.0 * 0.006, "{on}");
    }
}
