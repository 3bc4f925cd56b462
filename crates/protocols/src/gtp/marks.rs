//! Whether a path's marks of congestion (ECN) mean a queue.

use inhaul_base::Span;

/// A mark counts if its packet met a queue of at least this length: one on an empty path asks for nothing.
const MARKS_QUEUE: Span = Span::from_millis(2);
/// More than this part of the packets that meet no queue is marked by no queue ...
const MARKS_FREE_PART: f64 = 0.01;
/// ... this many RTTs and packets after the last packet with a queue: RED marks by a mean of the queue, which lags behind it.
const MARKS_FREE_RTTS: u32 = 8;
const MARKS_FREE_PACKETS: u64 = 2_000;
/// Marks are judged over at least this many packets, and whole RTTs.
const MARKS_PACKETS: u64 = 32;
/// More than this part of the packets is marked by no queue that is given way to, ...
const MARKS_PART: f64 = 0.95;
/// ... for this many of these periods in a row.
const MARKS_TIMES: u32 = 3;

/// Packets that came marked. A path that marks every packet, or packets that met no queue, is detected: some devices
/// overwrite the bits of ECN. Its marks no longer count; losses and delays do, as on a path without marks
/// (PROTOCOL.md 6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    all: Tally,
    /// Packets that came long after a queue.
    free: Tally,
    /// RTTs and packets since the last packet that met a queue.
    since_queue: (u32, u64),
    /// Periods in a row with too many marks: of all packets, and of packets that met no queue.
    times: u32,
    free_times: u32,
    distrusted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    received: u64,
    marked: u64,
}

impl Tally {
    fn add(&mut self, packets: u64, congested: bool) {
        self.received += packets;
        self.marked += if congested { packets } else { 0 };
    }

    /// Whether more than `part` of the packets were marked; nothing while there are too few. Begins anew.
    fn take(&mut self, part: f64) -> Option<bool> {
        let Self { received, marked } = *self;
        if received < MARKS_PACKETS {
            return None;
        }
        *self = Self::default();
        Some(marked as f64 > part * received as f64)
    }
}

impl Marks {
    /// Packets came, marked or not, that met a queue of this length. Returns how many marks count.
    pub(super) fn count(&mut self, packets: u64, congested: bool, queue: Span) -> u64 {
        if self.distrusted {
            return 0;
        }
        self.all.add(packets, congested);
        if queue >= MARKS_QUEUE {
            self.since_queue = (0, 0);
            return if congested { packets } else { 0 };
        }
        self.since_queue.1 += packets;
        if self.since_queue.0 >= MARKS_FREE_RTTS && self.since_queue.1 >= MARKS_FREE_PACKETS {
            self.free.add(packets, congested);
        }
        0
    }

    /// An RTT has ended. Returns whether the marks turn out to mean nothing.
    pub(super) fn end_rtt(&mut self) -> bool {
        if self.distrusted {
            return false;
        }
        self.since_queue.0 += 1;
        for (tally, part, times) in
            [(&mut self.all, MARKS_PART, &mut self.times), (&mut self.free, MARKS_FREE_PART, &mut self.free_times)]
        {
            if let Some(is_more) = tally.take(part) {
                *times = if is_more { *times + 1 } else { 0 };
            }
        }
        self.distrusted = self.times.max(self.free_times) >= MARKS_TIMES;
        self.distrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_QUEUE: Span = Span::ZERO;
    const QUEUE: Span = Span::from_millis(5);

    /// RTTs of 40 packets that meet this queue, with these numbers of marks: how many marks count in each.
    fn counted(marks: &mut Marks, queue: Span, marked: &[u64]) -> Vec<u64> {
        let rtt = |&marked: &u64| {
            let counted = marks.count(marked, true, queue) + marks.count(40 - marked, false, queue);
            marks.end_rtt();
            counted
        };
        marked.iter().map(rtt).collect()
    }

    #[test]
    fn a_path_that_marks_every_packet_is_distrusted_soon() {
        assert_eq!(counted(&mut Marks::default(), QUEUE, &[40, 40, 40, 40, 1]), [40, 40, 40, 0, 0]);
        assert_eq!(counted(&mut Marks::default(), QUEUE, &[39, 39, 39, 39]), [39, 39, 39, 0]);
    }

    #[test]
    fn marks_without_a_queue_count_for_nothing_and_make_others_suspect() {
        let mut marks = Marks::default();
        assert_eq!(counted(&mut marks, NO_QUEUE, &[2; 52]), [0; 52]);
        assert_eq!(counted(&mut marks, QUEUE, &[3]), [3], "not yet");
        assert_eq!(counted(&mut marks, NO_QUEUE, &[2; 53]), [0; 53]);
        assert_eq!(counted(&mut marks, QUEUE, &[3, 40]), [0, 0]);
    }

    #[test]
    fn marks_that_outlast_a_queue_are_no_habit() {
        let mut marks = Marks::default();
        for _ in 0..9 {
            assert_eq!(counted(&mut marks, QUEUE, &[20]), [20]);
            assert_eq!(counted(&mut marks, NO_QUEUE, &[9; 20]), [0; 20]);
            assert_eq!(counted(&mut marks, NO_QUEUE, &[0; 60]), [0; 60]);
        }
    }

    #[test]
    fn marks_of_a_queue_count_for_ever() {
        let queue = [20, 40, 40, 1, 38, 38, 38, 38, 0, 40, 20, 3, 40, 2];
        assert_eq!(counted(&mut Marks::default(), QUEUE, &queue), queue);
        // Few packets are judged together.
        let mut marks = Marks::default();
        for _ in 0..3 {
            marks.count(10, true, QUEUE);
            assert!(!marks.end_rtt());
        }
        assert_eq!(marks.times, 0);
    }
}
