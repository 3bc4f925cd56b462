//! Spreads a window over time, in the way that its law sets.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::Pace;
use inhaul_transport::kit::RatePacer;

/// What late wake-ups left over is kept for so long.
const LATENESS_KEPT: Span = Span::from_millis(1);

/// If a clocked window is paced, its rate is this many windows per round trip, as in Linux (`tcp_pacing_ss_ratio`,
/// `tcp_pacing_ca_ratio`).
const SLOW_START_GAIN: f64 = 2.0;
const AVOIDANCE_GAIN: f64 = 1.2;
/// Hosts whose acknowledgements come in lumps are late at timers, too: these must not slow the flow down.
const CLOCK_LATENESS_KEPT: Span = Span::from_millis(10);

/// The part of it that leaves at once, as Linux's segments do (`sk_pacing_shift`), so that a host that is often late is
/// not slowed down.
const CLOCK_BURST: Span = Span::from_millis(1);

/// The window of a sender, and the state for pacing it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// In packets.
    pub(super) packets: u64,
    /// Bytes of a packet.
    pub(super) packet: u64,
    /// The smoothed round-trip time; zero until measured.
    pub(super) rtt: Span,
    /// Whether it may double in a round trip.
    pub(super) slow_start: bool,
    /// Most packets that may leave at once: the initial window.
    pub(super) burst: u64,
}

impl Window {
    /// The rate at which a clocked window is broken up; `None` before a round-trip time is known.
    fn clock_rate(&self) -> Option<Bitrate> {
        let gain = if self.slow_start { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
        (self.rtt > Span::ZERO).then(|| Bitrate::of(self.packets.saturating_mul(self.packet), self.rtt).mul_f64(gain))
    }
}

/// What holds packets back beside the window.
#[derive(Clone, Debug)]
pub(super) enum Pacing {
    /// Nothing does.
    Unpaced,
    /// Acknowledgements do, unless they come in lumps.
    Clocked(AckClock),
    /// An even rate.
    Rate(RatePacer),
    /// Blocks.
    Blocks(BlockPacer),
}

impl Pacing {
    /// Takes over the law's window.
    pub(super) fn set(&mut self, now: Time, pace: Pace, window: Window) {
        let packet = window.packet;
        match (pace, &mut *self) {
            (Pace::Unpaced, _) => match (window.clock_rate(), &mut *self) {
                (None, _) => *self = Self::Unpaced,
                (Some(rate), Self::Clocked(clock)) => clock.pacer.set(now, rate, packet),
                (Some(rate), _) => *self = Self::Clocked(AckClock::new(now, rate, &window)),
            },
            (Pace::Rate(rate), Self::Rate(pacer)) => pacer.set(now, rate, packet),
            (Pace::Rate(rate), _) => *self = Self::Rate(RatePacer::new(now, rate, packet, LATENESS_KEPT)),
            (Pace::Blocks(blocks), Self::Blocks(pacer)) => pacer.set(blocks, window.packets, window.rtt),
            (Pace::Blocks(blocks), _) => *self = Self::Blocks(BlockPacer::new(now, blocks, window.packets, window.rtt)),
        }
    }

    /// Whether a packet of `packet` bytes may leave.
    pub(super) fn allows(&mut self, now: Time, packet: u64) -> bool {
        match self {
            Self::Unpaced => true,
            Self::Clocked(clock) => clock.allows(now, packet),
            Self::Rate(pacer) => pacer.allows(now, packet),
            Self::Blocks(pacer) => pacer.allows(now),
        }
    }

    /// A packet of `packet` bytes left.
    pub(super) fn spend(&mut self, packet: u64) {
        match self {
            Self::Unpaced => {}
            Self::Clocked(clock) => clock.spend(packet),
            Self::Rate(pacer) => pacer.spend(packet),
            Self::Blocks(pacer) => pacer.sent += 1,
        }
    }

    /// When the next packet may leave.
    pub(super) fn due(&self, packet: u64) -> Time {
        match self {
            Self::Unpaced => Time::ZERO,
            Self::Clocked(clock) => clock.pacer.due(packet),
            Self::Rate(pacer) => pacer.due(packet),
            Self::Blocks(pacer) => pacer.due(),
        }
    }

    /// An acknowledgement came, or nothing is on its way that one could come for.
    pub(super) fn tick(&mut self) {
        if let Self::Clocked(clock) = self {
            clock.ticked = true;
        }
    }

    /// Congestion: blocks are counted anew (fhstcp-2005 Figure 1).
    pub(super) fn on_congestion(&mut self) {
        if let Self::Blocks(pacer) = self {
            pacer.sent = 0;
        }
    }
}

/// Acknowledgements clock what leaves (RFC 5681), in bursts of bounded size.
///
/// Where each second packet is acknowledged and a host reads acknowledgements as they come, none lets more than some
/// packets leave, and this does nothing. But a host that reads many packets at once acknowledges them at once, or
/// reads many acknowledgements before it sends. Then a large part of the window would leave as one burst, and overflow
/// a queue that is shorter than the window. So the burst is at most an initial window (RFC 9002 7.7), and the rest is
/// paced.
#[derive(Clone, Debug)]
pub(super) struct AckClock {
    pacer: RatePacer,
    burst: u64,
    /// Packets that may leave regardless of the pacer.
    free: u64,
    /// An acknowledgement came since `free` was filled.
    ticked: bool,
    /// When `free` was filled. Acknowledgements read at one time count as one.
    filled: Time,
}

impl AckClock {
    fn new(now: Time, rate: Bitrate, window: &Window) -> Self {
        let pacer = RatePacer::in_bursts(now, rate, window.packet, CLOCK_LATENESS_KEPT, CLOCK_BURST);
        Self { pacer, burst: window.burst, free: window.burst, ticked: false, filled: now }
    }

    fn allows(&mut self, now: Time, packet: u64) -> bool {
        if self.ticked && now > self.filled {
            (self.free, self.ticked, self.filled) = (self.burst, false, now);
        }
        self.free > 0 || self.pacer.allows(now, packet)
    }

    fn spend(&mut self, packet: u64) {
        if self.free > 0 {
            self.free -= 1;
        } else {
            self.pacer.spend(packet);
        }
    }
}

/// Block pacing (fhstcp-2005 Figure 1): a window leaves as blocks, one each `RTT / k`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPacer {
    /// Packets of a block ("block").
    block: u64,
    /// From the beginning of one block to that of the next: RTT / k.
    gap: Span,
    /// Packets of this block that have left ("number").
    sent: u64,
    /// When this block began ("time_0").
    began: Time,
}

impl BlockPacer {
    fn new(now: Time, blocks: u64, window: u64, rtt: Span) -> Self {
        let mut pacer = Self { block: 1, gap: Span::ZERO, sent: 0, began: now };
        pacer.set(blocks, window, rtt);
        pacer
    }

    fn set(&mut self, blocks: u64, window: u64, rtt: Span) {
        // Figure 1: "if (k > cwnd) k = cwnd"
        let blocks = blocks.clamp(1, window.max(1));
        self.block = window.div_ceil(blocks).max(1);
        self.gap = rtt / blocks;
    }

    fn due(&self) -> Time {
        if self.sent < self.block { Time::ZERO } else { self.began + self.gap }
    }

    /// Whether a packet may leave: of this block, or the first of the next when its time has come.
    fn allows(&mut self, now: Time) -> bool {
        if self.sent >= self.block {
            if now < self.due() {
                return false;
            }
            self.sent = 0;
        }
        if self.sent == 0 {
            self.began = now;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn window(packets: u64, rtt_ms: u64, slow_start: bool) -> Window {
        Window { packets, packet: 1000, rtt: Span::from_millis(rtt_ms), slow_start, burst: 10 }
    }

    /// Packets that leave at `now`, of `count`.
    fn send(pacing: &mut Pacing, now: Time, count: u64) -> u64 {
        (0..count)
            .take_while(|_| {
                pacing.allows(now, 1000) && {
                    pacing.spend(1000);
                    true
                }
            })
            .count() as u64
    }

    #[test]
    fn acknowledgements_that_come_one_by_one_clock_what_leaves() {
        let mut pacing = Pacing::Unpaced;
        for k in 0..1_000 {
            // Two packets each, 10 us apart: in slow start four leave, ten times as fast as a window of 8000 in a
            // round trip.
            let now = at(1) + Span::from_micros(10) * k;
            pacing.tick();
            pacing.set(now, Pace::Unpaced, window(8_000, 200, true));
            assert_eq!(send(&mut pacing, now, 4), 4, "{k}");
        }
    }

    #[test]
    fn what_a_lump_of_acknowledgements_lets_leave_is_spread() {
        for (slow_start, ms) in [(true, 100), (false, 167)] {
            let mut pacing = Pacing::Unpaced;
            pacing.set(at(0), Pace::Unpaced, window(1_000, 200, slow_start));
            let mut left = 0;
            // All at one time, as from a thread that did not run for a while.
            for _ in 0..100 {
                pacing.tick();
                left += send(&mut pacing, at(1), 1_000 - left);
            }
            // An initial window, two packets and those of a millisecond.
            assert!((10..=23).contains(&left), "{left}");
            let mut now = at(1);
            while left < 1_000 {
                now += Span::from_micros(100);
                left += send(&mut pacing, now, 1_000 - left);
            }
            let took = now.since(at(1)).as_secs_f64() * 1e3;
            assert!((took / f64::from(ms) - 1.0).abs() < 0.05, "{took} ms for {ms} ms");
        }
    }

    #[test]
    fn an_initial_window_leaves_at_once_before_a_round_trip_is_known_and_when_nothing_is_on_its_way() {
        let mut pacing = Pacing::Unpaced;
        pacing.set(at(0), Pace::Unpaced, window(100, 0, true));
        assert_eq!(send(&mut pacing, at(0), 100), 100);
        pacing.set(at(0), Pace::Unpaced, window(10, 200, true));
        assert!(send(&mut pacing, at(0), 100) < 20);
        pacing.tick();
        assert_eq!(send(&mut pacing, at(1), 10), 10);
    }

    #[test]
    fn blocks_leave_a_part_of_the_rtt_apart() {
        // fhstcp-2005 Figure 1 with c = 10 and an RTT of 200 ms: k = 3 blocks, here of 10 packets.
        let mut pacing = Pacing::Unpaced;
        let mut left = Vec::new();
        for ms in 0..200 {
            pacing.set(at(ms), Pace::Blocks(3), window(30, 200, false));
            while left.len() < 30 && pacing.allows(at(ms), 1000) {
                pacing.spend(1000);
                left.push(ms);
            }
        }
        assert_eq!(left, [[0; 10], [67; 10], [134; 10]].concat());
    }

    #[test]
    fn blocks_begin_anew_at_congestion() {
        let mut pacing = Pacing::Unpaced;
        pacing.set(at(0), Pace::Blocks(2), window(4, 100, false));
        for _ in 0..2 {
            assert!(pacing.allows(at(1), 1000));
            pacing.spend(1000);
        }
        assert!(!pacing.allows(at(1), 1000));
        assert_eq!(pacing.due(1000), at(51));
        pacing.on_congestion();
        assert!(pacing.allows(at(1), 1000));
    }
}
