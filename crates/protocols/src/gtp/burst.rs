//! The longest burst that a path has carried: longer bursts let both hosts rest longer between two of them, if they
//! cause no loss.
//!
//! A wake-up costs a host as much as sending some ten packets, so bursts should be long; but a burst that comes in
//! faster than the rate of the path's narrowest link waits in a queue, and packets beyond the queue's size are lost.
//! The queue's size is unknown. So bursts grow a little after each series of RTTs without loss, and become short again
//! for a long time after a loss.

/// Bursts grow after this many RTTs at one rate and without loss, and again after as many more.
const QUIET_RTTS: u32 = 16;
/// They grow by this fraction, or by a packet: a queue that is too short loses at most this increment.
const GROWTH_PART: u64 = 8;
/// After a loss, no longer burst is tried for this many RTTs at first, and for twice as many after each further loss.
const HOLD_RTTS: u32 = 256;
const HOLD_RTTS_MAX: u32 = 16_384;

/// The known bound of the bursts that a path can carry.
#[derive(Clone, Copy, Debug)]
pub struct BurstBound {
    /// Bytes of IP packets that the path has borne back to back, and a little more.
    bytes: u64,
    /// The longest burst that came since something was last learnt, and one packet of it.
    longest: u64,
    packet: u64,
    /// RTT at one rate without loss.
    quiet: u32,
    hold: u32,
    next_hold: u32,
    /// Whether the bound has changed since the sender was told.
    changed: bool,
}

impl Default for BurstBound {
    fn default() -> Self {
        Self { bytes: 0, longest: 0, packet: 0, quiet: 0, hold: 0, next_hold: HOLD_RTTS, changed: false }
    }
}

impl BurstBound {
    /// A burst of these bytes and packets came, or the rest of it after losses.
    pub fn on_burst(&mut self, bytes: u64, packets: u64) {
        if bytes > self.longest {
            self.longest = bytes;
            self.packet = bytes.div_ceil(packets.max(1));
        }
    }

    /// The rate has changed.
    pub fn on_rate(&mut self) {
        self.quiet = 0;
        self.longest = 0;
    }

    /// An RTT has passed in which data came; `lost` says whether some of it was lost.
    pub fn on_rtt(&mut self, lost: bool) {
        if lost {
            // Bursts that were short anyway are not to blame.
            if self.quiet >= QUIET_RTTS && self.bytes > 0 {
                self.bytes /= 2;
                self.changed = true;
                self.hold = self.next_hold;
                self.next_hold = (self.next_hold * 2).min(HOLD_RTTS_MAX);
            }
            self.quiet = 0;
            self.longest = 0;
            return;
        }
        self.hold = self.hold.saturating_sub(1);
        self.quiet = self.quiet.saturating_add(1);
        if !self.quiet.is_multiple_of(QUIET_RTTS) {
            return;
        }
        let borne = std::mem::take(&mut self.longest);
        let next = borne + (borne / GROWTH_PART).max(self.packet);
        if self.hold == 0 && next > self.bytes {
            self.bytes = next;
            self.changed = true;
        }
        self.changed |= self.quiet == QUIET_RTTS;
    }

    /// Most bytes that may leave back to back: at least `least`, and at most `most`, by the bursts that the path has
    /// carried.
    pub fn bytes(&self, least: u64, most: u64) -> u64 {
        if self.quiet < QUIET_RTTS { least } else { self.bytes.min(most).max(least) }
    }

    /// Whether the bound has changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTTs with bursts of the greatest allowed length, over a path whose queue holds `queue` bytes. Returns the lost
    /// bytes.
    fn live(bound: &mut BurstBound, rtts: u32, queue: u64) -> u64 {
        let mut lost = 0;
        for _ in 0..rtts {
            let burst = bound.bytes(30_000, 120_000) / 1_500 * 1_500;
            let lost_now = burst.saturating_sub(queue);
            bound.on_burst(burst - lost_now, (burst - lost_now) / 1_500);
            bound.on_rtt(lost_now > 0);
            lost += lost_now;
        }
        lost
    }

    #[test]
    fn bursts_grow_to_the_most_where_nothing_is_lost() {
        let mut bound = BurstBound::default();
        assert_eq!(bound.bytes(30_000, 120_000), 30_000);
        assert_eq!(live(&mut bound, 300, 1_000_000), 0);
        assert_eq!(bound.bytes(30_000, 120_000), 120_000);
        // The burst of a lower rate still bounds it.
        assert_eq!(bound.bytes(1_500, 12_000), 12_000);
    }

    #[test]
    fn a_short_queue_loses_little_and_ever_less() {
        let mut bound = BurstBound::default();
        let first = live(&mut bound, 1_000, 60_000);
        assert!(first > 0 && first <= 4 * 60_000 / GROWTH_PART, "{first} bytes");
        assert!(bound.bytes(30_000, 120_000) <= 60_000);
        let later = live(&mut bound, 10_000, 60_000);
        assert!(later <= 5 * 60_000 / GROWTH_PART, "{later} bytes in ten times as long");
    }

    #[test]
    fn bursts_are_short_while_a_rate_is_looked_for() {
        let mut bound = BurstBound::default();
        live(&mut bound, 300, 1_000_000);
        bound.on_rate();
        assert_eq!(bound.bytes(30_000, 120_000), 30_000);
        live(&mut bound, QUIET_RTTS, 1_000_000);
        assert_eq!(bound.bytes(30_000, 120_000), 120_000, "the learnt bound is kept");
    }

    #[test]
    fn loss_of_other_causes_leaves_bursts_as_they_are() {
        let mut bound = BurstBound::default();
        for k in 0..10_000 {
            bound.on_burst(30_000, 20);
            bound.on_rtt(k % 10 == 0);
        }
        assert_eq!(bound.bytes(30_000, 120_000), 30_000);
    }

    #[test]
    fn slow_flows_get_longer_by_whole_packets() {
        let mut bound = BurstBound::default();
        for _ in 0..200 {
            let packets = (bound.bytes(1_500, 12_000) / 1_500).max(1);
            bound.on_burst(packets * 1_500, packets);
            bound.on_rtt(false);
        }
        assert_eq!(bound.bytes(1_500, 12_000), 12_000);
        assert!(bound.take_change() && !bound.take_change());
    }
}
