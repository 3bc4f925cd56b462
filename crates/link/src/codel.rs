//! Controlled delay: RFC 8289.

use inhaul_base::{Span, Time};

use crate::CoDelSpec;

/// Bytes of a full-sized packet, until a larger one is seen. A queue of less than one such packet is not standing.
const FULL_PACKET: u32 = 1500;

/// CoDel's state (RFC 8289 section 5.2, names as there).
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    spec: CoDelSpec,
    max_packet: u32,
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
}

impl CoDel {
    pub(crate) fn new(spec: CoDelSpec) -> Self {
        let (first_above, dropping, drop_next, count, last_count) = (None, false, Time::ZERO, 0, 0);
        Self { spec, max_packet: FULL_PACKET, first_above, dropping, drop_next, count, last_count }
    }

    /// Whether the packet whose turn comes at `now` is dropped. It waited for `sojourn`, and `behind` bytes still
    /// wait.
    ///
    /// RFC 8289 section 5.5 (deque) loops over the packets that leave at one time. Here it is called once for each.
    pub(crate) fn drops(&mut self, now: Time, bytes: u32, sojourn: Span, behind: u64) -> bool {
        self.max_packet = self.max_packet.max(bytes);
        let ok_to_drop = self.ok_to_drop(now, sojourn, behind);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            } else if now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                self.drop_next = self.control_law(self.drop_next);
                return true;
            }
            return false;
        }
        if ok_to_drop {
            self.dropping = true;
            // Section 5.5: soon after the last dropping state, start near the rate that controlled the queue then.
            let delta = self.count - self.last_count;
            let recent = now.since(self.drop_next) < self.spec.interval * 16;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        ok_to_drop
    }

    /// Section 5.6 (dodeque): whether the delay has been above the target for at least an interval.
    fn ok_to_drop(&mut self, now: Time, sojourn: Span, behind: u64) -> bool {
        if sojourn < self.spec.target || behind <= u64::from(self.max_packet) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.spec.interval);
                false
            }
            Some(due) => now >= due,
        }
    }

    /// Section 5.4: the next drop comes sooner the longer the queue stands. A square root is exact on every machine.
    fn control_law(&self, from: Time) -> Time {
        from + self.spec.interval.mul_f64(1.0 / f64::from(self.count.max(1)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDING: u64 = 1_000_000;

    /// When packets are dropped if one leaves each millisecond after `sojourn` ms, for `millis` ms.
    fn drops(codel: &mut CoDel, from: u64, millis: u64, sojourn: u64, behind: u64) -> Vec<u64> {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let waited = Span::from_millis(sojourn);
        (from..from + millis).filter(|now| codel.drops(at(*now), 1500, waited, behind)).collect()
    }

    #[test]
    fn drops_come_faster_while_the_queue_stands() {
        let mut codel = CoDel::new(CoDelSpec::RFC_8289);
        // The first after one interval, then at intervals of 100 / sqrt(count) ms: 100, 70.7, 57.7, 50, 44.7.
        assert_eq!(drops(&mut codel, 0, 440, 6, STANDING), [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn drops_nothing_below_the_target_or_with_less_than_a_packet_behind() {
        let mut codel = CoDel::new(CoDelSpec::RFC_8289);
        assert_eq!(drops(&mut codel, 0, 1000, 4, STANDING), [0; 0]);
        assert_eq!(drops(&mut codel, 1000, 1000, 50, 1500), [0; 0]);
    }

    #[test]
    fn drops_go_on_near_the_rate_that_worked() {
        let mut codel = CoDel::new(CoDelSpec::RFC_8289);
        let first = drops(&mut codel, 0, 440, 6, STANDING);
        drops(&mut codel, 440, 10, 1, STANDING);
        // Six drops before: the second state starts at count 5, the gap after its first drop is 100 / sqrt(5) = 44.7
        // ms.
        let second = drops(&mut codel, 450, 150, 6, STANDING);
        assert_eq!((first.len(), second), (6, vec![550, 595]));
    }
}
