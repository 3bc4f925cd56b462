//! Whether a path's marks of congestion (ECN) mean a queue.

/// Marks are judged over at least this many packets, and whole RTTs.
const MARKS_PACKETS: u64 = 32;
/// More than this part of the packets is marked by no queue that is given way to, ...
const MARKS_PART: f64 = 0.95;
/// ... for this many of these periods in a row.
const MARKS_TIMES: u32 = 3;

/// Packets that came marked. A path that marks every packet is detected: some devices overwrite the bits of ECN. Its
/// marks no longer count; losses and delays do, as on a path without marks (PROTOCOL.md 6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    received: u64,
    marked: u64,
    times: u32,
    distrusted: bool,
}

impl Marks {
    /// Packets came, marked or not. Returns how many marks count.
    pub(super) fn count(&mut self, packets: u64, congested: bool) -> u64 {
        self.received += packets;
        if self.distrusted || !congested {
            return 0;
        }
        self.marked += packets;
        packets
    }

    /// An RTT has ended. Returns whether the marks turn out to mean nothing.
    pub(super) fn end_rtt(&mut self) -> bool {
        if self.distrusted || self.received < MARKS_PACKETS {
            return false;
        }
        let is_most = self.marked as f64 > MARKS_PART * self.received as f64;
        self.times = if is_most { self.times + 1 } else { 0 };
        self.distrusted = self.times >= MARKS_TIMES;
        (self.received, self.marked) = (0, 0);
        self.distrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTTs of 40 packets with these numbers of marks: how many marks count in each.
    fn counted(marks: &mut Marks, marked: &[u64]) -> Vec<u64> {
        let rtt = |&marked: &u64| {
            let counted = marks.count(marked, true) + marks.count(40 - marked, false);
            marks.end_rtt();
            counted
        };
        marked.iter().map(rtt).collect()
    }

    #[test]
    fn a_path_that_marks_every_packet_is_distrusted_soon() {
        assert_eq!(counted(&mut Marks::default(), &[40, 40, 40, 40, 1]), [40, 40, 40, 0, 0]);
        assert_eq!(counted(&mut Marks::default(), &[39, 39, 39, 39]), [39, 39, 39, 0]);
    }

    #[test]
    fn marks_of_a_queue_count_for_ever() {
        let queue = [20, 40, 40, 1, 38, 38, 38, 38, 0, 40, 20, 3, 40, 2];
        assert_eq!(counted(&mut Marks::default(), &queue), queue);
        // Few packets are judged together.
        let mut marks = Marks::default();
        for _ in 0..3 {
            marks.count(10, true);
            assert!(!marks.end_rtt());
        }
        assert_eq!(marks.times, 0);
    }
}
