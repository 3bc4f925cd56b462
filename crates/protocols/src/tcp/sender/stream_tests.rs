//! A stream against a scripted receiver.

use super::*;
use crate::laws::{LawConfig, LawName};
use crate::tcp::wire::Blocks;
use proptest::prelude::*;

const RTT: Span = Span::from_millis(100);

struct Hand {
    stream: Stream,
    now: Time,
    sent: Vec<Next>,
}

impl Hand {
    /// With `window` segments in congestion avoidance-like state: nothing lost yet.
    fn new(law: LawName, window: u64) -> Self {
        let options = Options { initial_window: window, ..Options::default() };
        let config = LawConfig {
            initial_window: window,
            window_max: 1_000_000,
            fair_factor: 10.0,
            block_pacing: true,
            hystart: true,
            halves_slow_start: false,
            seed: 1,
        };
        let now = Time::ZERO + Span::from_secs(1);
        Self { stream: Stream::new(now, law.build(&config), &options), now, sent: Vec::new() }
    }

    /// Sends all segments that may be sent; returns them.
    fn send(&mut self) -> Vec<Next> {
        let mut sent = Vec::new();
        let mut may = Allowance { host: &mut RateLimit::default(), client: None };
        while let Some(next) = self.stream.next(self.now, true, &mut may) {
            match next {
                Next::Again(number) => {
                    self.stream.send_again(self.now, number);
                }
                Next::New => {
                    self.stream.send(self.now, ByteRange::at(0, 1_000));
                }
            }
            sent.push(next);
        }
        self.sent.extend(&sent);
        sent
    }

    /// Sends the whole window, however long that is spread. Returns how many left at once, and how many in all.
    fn send_spread(&mut self) -> (usize, usize) {
        let at_once = self.send().len();
        let mut all = at_once;
        while let Some(due) = self.stream.pace_due() {
            self.now = due;
            all += self.send().len();
        }
        (at_once, all)
    }

    /// An acknowledgement of the segments sent an RTT ago comes.
    fn ack(&mut self, acknowledged: u32, blocks: &[(u32, u32)]) -> Vec<Next> {
        self.ack_echoing(acknowledged, blocks, self.now - RTT)
    }

    fn ack_echoing(&mut self, acknowledged: u32, blocks: &[(u32, u32)], echo: Time) -> Vec<Next> {
        let mut list = Blocks::default();
        blocks.iter().for_each(|&(start, end)| list.push(Sequence::new(start), Sequence::new(end)));
        let ack = AckHeader {
            acknowledged: Sequence::new(acknowledged),
            echo: Timestamp::of(echo),
            window: 1_000_000,
            sent: Timestamp::default(),
            blocks: list,
        };
        self.stream.on_ack(self.now, &ack);
        self.send()
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
    }

    /// The loss probe that is due leaves.
    fn probe(&mut self) -> Vec<Next> {
        self.now = self.stream.probe_due.unwrap();
        self.stream.on_timeout(self.now);
        self.send()
    }

    /// The retransmission timeout passes, as if there had been no loss probe.
    fn time_out(&mut self) -> Vec<Next> {
        self.stream.probe_due = None;
        self.now = self.stream.rto_due.unwrap();
        self.stream.on_timeout(self.now);
        self.send()
    }
}

#[test]
fn limited_transmit_sends_new_segments_for_the_first_two_blocks() {
    // RFC 3042, with blocks: each reported segment lets a new one leave.
    let mut hand = Hand::new(LawName::Reno, 10);
    assert_eq!(hand.send(), [Next::New; 10]);
    hand.wait(RTT);
    assert_eq!(hand.ack(0, &[(1, 2)]), [Next::New]);
    assert_eq!(hand.ack(0, &[(1, 3)]), [Next::New]);
    assert_eq!(hand.stream.window(), 10);
    assert_eq!(hand.ack(0, &[(1, 4)]), [Next::Again(0)]);
}

#[test]
fn a_lump_of_acknowledgements_lets_an_initial_window_leave_at_once_and_the_rest_spread() {
    let mut hand = Hand::new(LawName::Cubic, 10);
    hand.send();
    // Ten packets are clocked by five acknowledgements, then all by one.
    for (acknowledged, left) in [(2, 4), (4, 4), (6, 4), (8, 4), (10, 4)] {
        hand.wait(RTT / 5);
        assert_eq!(hand.ack(acknowledged, &[]), [Next::New].repeat(left));
    }
    hand.wait(RTT);
    let began = hand.now;
    let at_once = hand.ack(30, &[]).len();
    let (_, later) = hand.send_spread();
    assert!((10..=14).contains(&at_once), "{at_once}");
    assert_eq!(at_once + later, 40);
    // Twice the window a round trip.
    let took = hand.now.since(began);
    assert!(took > RTT / 4 && took < RTT * 3 / 4, "{took}");
}

#[test]
fn a_timeout_after_progress_cuts_again_and_one_without_does_not() {
    // RFC 5681 3.1. With a path that holds less than the threshold, a sender that kept it would overrun the path for
    // ever.
    let mut hand = Hand::new(LawName::Reno, 64);
    hand.send();
    hand.time_out();
    hand.time_out();
    let progress = |hand: &mut Hand, from: u32, to: u32| {
        for n in from..=to {
            hand.wait(Span::from_millis(1));
            hand.ack(n, &[]);
        }
    };
    // Slow start to half of 64, which is cut to half of that.
    progress(&mut hand, 1, 32);
    assert_eq!(hand.stream.window(), 32);
    hand.time_out();
    progress(&mut hand, 33, 50);
    assert_eq!(hand.stream.window(), 16);
}

#[test]
fn one_loss_is_repaired_in_a_round_trip_and_halves_the_window_once() {
    let mut hand = Hand::new(LawName::Reno, 100);
    hand.send();
    hand.wait(RTT);
    for n in 2..=100 {
        hand.ack(0, &[(1, n)]);
    }
    assert_eq!(hand.sent.iter().filter(|n| **n == Next::Again(0)).count(), 1);
    let next = hand.stream.board.next() as u32;
    hand.wait(RTT);
    hand.ack(next, &[]);
    assert_eq!(hand.stream.phase, Phase::Open);
    // Blocks before the third did not let slow start go on.
    assert_eq!(hand.stream.window(), 50);
    assert_eq!(hand.stream.lost, 1);
}

#[test]
fn fifty_losses_in_a_row_are_repaired_without_a_timeout() {
    let mut hand = Hand::new(LawName::Reno, 200);
    hand.send();
    hand.wait(RTT);
    for n in 51..=200 {
        hand.ack(0, &[(50, n)]);
    }
    let again: Vec<_> = hand.sent.iter().filter_map(|n| if let Next::Again(n) = n { Some(*n) } else { None }).collect();
    assert_eq!(again, (0..50).collect::<Vec<_>>());
    assert!(matches!(hand.stream.phase, Phase::Recovery { .. }));
}

#[test]
fn a_retransmission_that_is_lost_is_sent_again_a_round_trip_later_and_cuts_no_more() {
    // RFC 8985: a segment sent after it has come.
    let mut hand = Hand::new(LawName::Reno, 20);
    hand.send();
    hand.wait(RTT);
    for n in 2..=20 {
        hand.ack(0, &[(1, n)]);
    }
    let (again, next) = (hand.sent.iter().position(|n| *n == Next::Again(0)), hand.stream.board.next() as u32);
    assert!(again.is_some() && next > 21, "new segments left after it: {next}");
    hand.wait(RTT);
    let window = hand.stream.window();
    // Segments 20 and 21 left before it, by limited transmit.
    for n in 21..=22 {
        assert!(!hand.ack(0, &[(1, n)]).contains(&Next::Again(0)));
    }
    assert!(hand.ack(0, &[(1, 23)]).contains(&Next::Again(0)));
    assert!(matches!(hand.stream.phase, Phase::Recovery { .. }));
    assert_eq!((hand.stream.window(), hand.stream.lost), (window, 2));
}

#[test]
fn after_a_timeout_a_lost_retransmission_is_congestion_once_more() {
    // As Linux: from Loss to Recovery, with another cut.
    let mut hand = Hand::new(LawName::Reno, 64);
    hand.send();
    hand.time_out();
    hand.wait(RTT);
    assert_eq!(hand.ack(1, &[]), [Next::Again(1), Next::Again(2)]);
    hand.wait(RTT);
    // Of the two the second came.
    assert_eq!(hand.ack(1, &[(2, 3)])[0], Next::Again(1));
    assert!(matches!(hand.stream.phase, Phase::Recovery { .. }));
}

#[test]
fn a_timeout_leaves_what_was_just_sent_on_its_way() {
    // RFC 8985 6.3, and tcp_enter_loss: the window has room for it, and for one more.
    let mut hand = Hand::new(LawName::Reno, 10);
    hand.send();
    hand.wait(RTT);
    hand.ack(4, &[]);
    // Ten that were sent late, because the window allowed for them only now.
    let sent = hand.now;
    hand.stream.rto_due = Some(sent + RTT / 2);
    assert_eq!(hand.time_out()[0], Next::Again(4));
    // Segments 4 to 9 are lost; of the eight sent 50 ms ago none is.
    assert_eq!((hand.stream.lost, hand.stream.window()), (6, 9));
}

#[test]
fn blocks_alone_do_not_let_the_window_grow_after_a_timeout() {
    let mut hand = Hand::new(LawName::Reno, 64);
    hand.send();
    hand.time_out();
    hand.wait(RTT);
    assert_eq!(hand.stream.window(), 1);
    hand.ack(0, &[(10, 30)]);
    assert_eq!(hand.stream.window(), 1);
    hand.ack(1, &[(10, 30)]);
    assert_eq!(hand.stream.window(), 2);
}

/// Ten segments. The first eight have been acknowledged; there are no new ones to send.
fn with_a_tail() -> Hand {
    let mut hand = Hand::new(LawName::Reno, 10);
    hand.send();
    hand.stream.window_max = 2;
    hand.wait(RTT);
    hand.ack(8, &[]);
    hand
}

#[test]
fn a_lost_tail_is_probed_for_after_two_round_trips_and_is_congestion() {
    let mut hand = with_a_tail();
    let (since, window) = (hand.now, hand.stream.window());
    assert_eq!(hand.probe(), [Next::Again(9)], "the last one");
    assert_eq!(hand.now.since(since), RTT * 2 + PROBE_SLACK);
    assert_eq!(hand.stream.probe_due, None, "one probe at a time");
    hand.wait(RTT);
    // The last had come: segment 8 was lost, too.
    hand.stream.window_max = 100;
    assert_eq!(hand.ack(8, &[(9, 10)])[0], Next::Again(8));
    assert!(hand.stream.window() < window);
    hand.wait(RTT);
    hand.ack(10, &[]);
    assert_eq!(hand.stream.phase, Phase::Open);
}

#[test]
fn a_probe_that_repaired_the_only_loss_cuts_the_window_and_one_in_vain_does_not() {
    for (in_vain, reported) in [(false, false), (true, true), (true, false)] {
        let mut hand = with_a_tail();
        hand.stream.window_max = 1;
        hand.ack(9, &[]);
        let window = hand.stream.window();
        // One segment: its acknowledgement may be delayed.
        let due = hand.now + RTT * 2 + ACK_DELAY;
        assert_eq!((hand.stream.probe_due, hand.probe()), (Some(due), vec![Next::Again(9)]));
        hand.wait(RTT);
        hand.ack(10, &[]);
        if in_vain {
            // The original came and the probe came: a duplicate, reported (RFC 2883) or not.
            hand.ack(10, if reported { &[(9, 10)] } else { &[] });
        }
        hand.stream.window_max = 100;
        hand.send();
        hand.wait(RTT);
        hand.ack(12, &[]);
        assert_eq!(hand.stream.window() < window, !in_vain, "{in_vain} {reported}");
    }
}

#[test]
fn a_probe_sends_something_new_if_there_is_something() {
    let mut hand = Hand::new(LawName::Reno, 10);
    hand.send();
    hand.wait(RTT);
    hand.ack(1, &[]);
    let (window, next) = (hand.stream.window(), hand.stream.board.next());
    assert_eq!(hand.stream.board.pipe(), window, "the window is full");
    assert_eq!(hand.probe(), [Next::New]);
    assert_eq!(hand.stream.board.next(), next + 1);
}

#[test]
fn packets_that_change_places_are_waited_for_once_that_is_known() {
    let mut hand = Hand::new(LawName::Reno, 20);
    hand.send();
    hand.wait(RTT);
    // Segment 0 comes after 1 and 2: not lost yet (RFC 8985 6.2: DupThresh), and reordering is seen.
    hand.ack(0, &[(1, 3)]);
    hand.ack(3, &[]);
    let before = hand.stream.lost;
    for n in 5..=15 {
        assert!(!hand.ack(3, &[(4, n)]).iter().any(|next| matches!(next, Next::Again(_))));
    }
    // A quarter of the least round-trip time later it is lost.
    let due = hand.stream.late_due.unwrap();
    assert_eq!(due, hand.now + RTT / 4);
    hand.now = due;
    hand.stream.on_timeout(due);
    assert_eq!((hand.send()[0], hand.stream.lost - before), (Next::Again(3), 1));
    assert!(matches!(hand.stream.phase, Phase::Recovery { .. }));
}

#[test]
fn a_repair_of_nothing_but_duplicates_is_taken_back() {
    let mut hand = Hand::new(LawName::Reno, 100);
    hand.send();
    hand.wait(RTT);
    for n in 2..=10 {
        hand.ack(0, &[(1, n)]);
    }
    assert!(hand.sent.contains(&Next::Again(0)));
    assert_eq!(hand.stream.window(), 50);
    // The original comes, and then the retransmission.
    hand.wait(Span::from_millis(10));
    hand.ack(10, &[]);
    assert_eq!(hand.stream.window(), 50);
    hand.wait(RTT);
    hand.ack(20, &[(0, 1)]);
    assert_eq!(hand.stream.phase, Phase::Open);
    assert!(hand.stream.window() >= 100, "{}", hand.stream.window());
    // Once for the segments in flight: a receiver that reports this of everything costs no more.
    for n in 22..=30 {
        hand.ack(20, &[(21, n)]);
    }
    let window = hand.stream.window();
    hand.wait(RTT);
    hand.ack(21, &[(20, 21), (21, 30)]);
    assert_eq!(hand.stream.window(), window);
}

#[test]
fn timeouts_double_and_a_sample_ends_that() {
    let mut hand = Hand::new(LawName::Reno, 2);
    hand.send();
    let mut gaps = Vec::new();
    for _ in 0..8 {
        let before = hand.now;
        hand.time_out();
        gaps.push(hand.now.since(before).as_secs_f64());
    }
    // RFC 6298 2.1, 5.5: from one second, doubled, up to our limit.
    assert_eq!(gaps, [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0]);
    hand.wait(RTT);
    hand.ack(1, &[]);
    // One sample of 100 ms: variation 50 ms, so 100 + 4 x 50.
    assert_eq!(hand.stream.rto(), Span::from_millis(300));
}

#[test]
fn a_timeout_that_was_a_mistake_is_taken_back() {
    let mut hand = Hand::new(LawName::Reno, 40);
    hand.send();
    hand.wait(RTT);
    hand.ack(2, &[]);
    let window = hand.stream.window();
    let sent = hand.now - RTT;
    assert_eq!(hand.time_out(), [Next::Again(2)]);
    // The originals' acknowledgements were only late: the echo is older than the retransmission (RFC 3522).
    hand.wait(Span::from_millis(1));
    hand.ack_echoing(4, &[], sent);
    assert_eq!(hand.stream.phase, Phase::Open);
    assert!(hand.stream.window() >= window, "{} after {window}", hand.stream.window());
    // And when it is not, the window grows from one segment.
    hand.time_out();
    hand.wait(RTT);
    hand.ack(5, &[]);
    assert!(matches!(hand.stream.phase, Phase::Loss { .. }));
    assert_eq!(hand.stream.window(), 2);
}

#[test]
fn nothing_is_sent_beyond_what_the_receiver_takes() {
    let mut hand = Hand::new(LawName::Reno, 100);
    hand.stream.receiver_takes = 7;
    assert_eq!(hand.send().len(), 7);
}

#[test]
fn a_window_that_idled_starts_anew() {
    let mut hand = Hand::new(LawName::Reno, 10);
    for round in 1..=4 {
        let (_, sent) = hand.send_spread();
        hand.wait(RTT);
        let upto = hand.stream.board.next() as u32;
        assert!(sent > 0 || round == 1);
        hand.stream.on_ack(
            hand.now,
            &AckHeader {
                acknowledged: Sequence::new(upto),
                echo: Timestamp::of(hand.now - RTT),
                window: 1_000_000,
                sent: Timestamp::default(),
                blocks: Blocks::default(),
            },
        );
    }
    assert_eq!(hand.stream.window(), 160);
    // RFC 5681 4.1: after more than a retransmission timeout, the restart window.
    hand.wait(Span::from_secs(2));
    assert_eq!(hand.send().len(), 10);
}

proptest! {
    /// For all acknowledgements, including impossible ones, nothing breaks, and the segments in flight stay bounded.
    #[test]
    fn hostile_acknowledgements_harm_no_other_flow(
        law in 1..=LawName::ALL.len() as u8,
        acks in prop::collection::vec((0..80u32, prop::collection::vec((any::<u32>(), 0..100u32), 0..4), any::<u32>()), 1..60),
        far in any::<bool>(),
    ) {
        let mut hand = Hand::new(LawName::from_code(law).unwrap(), 10);
        hand.stream.window_max = 500;
        hand.send();
        for (acknowledged, blocks, echo) in acks {
            hand.wait(Span::from_millis(10));
            let blocks: Vec<_> = blocks
                .into_iter()
                .map(|(start, len)| {
                    let start = if far { start } else { start % 100 };
                    (start, start.wrapping_add(len))
                })
                .collect();
            let echo = Time::from_nanos(u64::from(echo) * 1_000);
            hand.ack_echoing(acknowledged, &blocks, echo);
            let board = &hand.stream.board;
            prop_assert!(board.next() - board.first() <= 500);
            prop_assert!(board.pipe() <= 2 * 500);
            if hand.stream.rto_due.is_some_and(|due| due <= hand.now) {
                hand.time_out();
            }
        }
        // It always gets on: either something is on its way and a timeout is due, or something new may leave.
        prop_assert!(hand.stream.board.is_empty() || hand.stream.rto_due.is_some());
    }
}

#[test]
fn a_restarted_stream_goes_on_behind_all_that_was_sent() {
    let mut hand = Hand::new(LawName::Reno, 10);
    assert_eq!(hand.send().len(), 10);
    hand.now += Span::from_secs(2);
    assert!(!hand.stream.restart(hand.now, Sequence::new(9)), "segment 9 is on its way");
    assert!(hand.stream.restart(hand.now, Sequence::new(1_000_000)));
    assert_eq!((hand.stream.board.first(), hand.stream.board.next()), (1_000_000, 1_000_000));
    // One segment; an old acknowledgement no longer applies.
    assert_eq!(hand.send(), [Next::New]);
    assert_eq!(hand.ack(5, &[(7, 9)]), []);
    assert_eq!(hand.ack(1_000_001, &[]), [Next::New, Next::New]);
}

#[test]
fn packets_that_grow_beyond_what_was_paced_wait_until_they_may_leave() {
    let mut hand = Hand::new(LawName::Bbr, 10);
    hand.stream.set_packet_bytes(hand.now, 576);
    hand.send();
    hand.wait(RTT);
    // A law that keeps a rate: some 10 packets of 576 bytes in 100 ms.
    hand.ack(10, &[]);
    assert!(matches!(hand.stream.pace(), Pace::Rate(_)));
    hand.stream.set_packet_bytes(hand.now, 9_000);
    for _ in 0..100 {
        hand.send();
        let Some(due) = hand.stream.pace_due() else { return };
        assert!(due > hand.now, "time must pass until {due:?}");
        hand.now = due;
    }
}
