//! A stream against a scripted receiver.

use super::*;
use crate::laws::{LawConfig, LawName};
use crate::tcp::options::SenderKind;
use crate::tcp::wire::Blocks;

const RTT: Span = Span::from_millis(100);

struct Hand {
    stream: Ns2Stream,
    now: Time,
}

impl Hand {
    /// A window of `window` segments, nothing lost yet.
    fn new(window: u64) -> Self {
        let options = Options { initial_window: window, sender: SenderKind::Ns2, ..Options::default() };
        let config: LawConfig = options.law_config(1);
        let now = Time::ZERO + Span::from_secs(1);
        Self { stream: Ns2Stream::new(LawName::Reno.build(&config), &options), now }
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
        sent
    }

    /// An acknowledgement of the segments sent an RTT ago comes.
    fn ack(&mut self, acknowledged: u32, blocks: &[(u32, u32)]) -> Vec<Next> {
        let mut list = Blocks::default();
        blocks.iter().for_each(|&(start, end)| list.push(Sequence::new(start), Sequence::new(end)));
        let ack = AckHeader {
            acknowledged: Sequence::new(acknowledged),
            echo: Timestamp::of(self.now - RTT),
            window: 1_000_000,
            sent: Timestamp::default(),
            blocks: list,
        };
        self.stream.on_ack(self.now, &ack);
        self.send()
    }
}

#[test]
fn slow_start_counts_acknowledgements_and_sends_at_once() {
    let mut hand = Hand::new(2);
    assert_eq!(hand.send(), [Next::New; 2]);
    assert_eq!(hand.ack(1, &[]), [Next::New; 2]);
    // One acknowledgement of three is one step: the window slides by three and grows by one.
    assert_eq!(hand.ack(4, &[]), [Next::New; 4]);
    assert_eq!(hand.stream.window(), 4);
}

#[test]
fn the_pipe_counts_what_is_lost_until_retransmissions_are_acknowledged() {
    let mut hand = Hand::new(20);
    hand.send();
    // The first two and 6 to 9 are lost. Limited transmit, then recovery: 22 - 3 in the pipe, a window of 10.
    assert_eq!(hand.ack(0, &[(2, 3)]), [Next::New]);
    assert_eq!(hand.ack(0, &[(2, 4)]), [Next::New]);
    assert_eq!(hand.ack(0, &[(2, 5)]), [Next::Again(0)]);
    assert_eq!(hand.stream.window(), 10);
    assert_eq!(hand.ack(0, &[(2, 6)]), []);
    for end in 11..19 {
        assert_eq!(hand.ack(0, &[(10, end), (2, 6)]), [], "{end}");
    }
    // The tenth acknowledgement since makes room for one: the lowest gap, then the next.
    assert_eq!(hand.ack(0, &[(10, 19), (2, 6)]), [Next::Again(1)]);
    assert_eq!(hand.ack(0, &[(10, 20), (2, 6)]), [Next::Again(6)]);
    // Something new in order counts twice.
    assert_eq!(hand.ack(1, &[(10, 22), (2, 6)]), [Next::Again(7), Next::Again(8)]);
    // It ends when all that was outstanding is acknowledged, and does not grow the window.
    assert_eq!(hand.ack(22, &[]).len(), 10);
    assert_eq!((hand.stream.window(), hand.stream.recovery), (10, None));
}

#[test]
fn a_timeout_forgets_what_was_reported_and_no_recovery_begins_before_all_is_acknowledged() {
    let mut hand = Hand::new(8);
    hand.send();
    hand.ack(0, &[(4, 5)]);
    hand.now = hand.stream.rto_due.unwrap();
    hand.stream.on_timeout(hand.now);
    assert_eq!(hand.send(), [Next::Again(0)]);
    assert_eq!(hand.stream.window(), 1);
    assert_eq!(hand.ack(1, &[]), [Next::Again(1), Next::Again(2)]);
    for end in 6..9 {
        assert_eq!(hand.ack(1, &[(5, end)]).iter().filter(|next| **next == Next::Again(1)).count(), 0);
    }
    assert_eq!(hand.stream.recovery, None);
    // Segments that have come are skipped, and needless retransmissions do not count as lost.
    let lost = hand.stream.lost;
    let sent = hand.ack(8, &[(2, 3)]);
    assert_eq!(hand.stream.lost, lost - 1 + sent.iter().filter(|next| **next != Next::New).count() as u64);
    assert!(sent.first().is_some_and(|next| matches!(next, Next::Again(8) | Next::New)), "{sent:?}");
}

#[test]
fn the_timeout_is_a_second_at_least_doubles_and_is_restarted() {
    let options = Options { rto_min: Span::from_secs(1), ..Options::default() };
    let mut hand = Hand::new(2);
    hand.stream = Ns2Stream::new(LawName::Reno.build(&options.law_config(1)), &options);
    hand.send();
    assert_eq!(hand.stream.loss_due(), Some(hand.now + NS2_RTO_INITIAL));
    hand.ack(1, &[]);
    assert_eq!(hand.stream.loss_due(), Some(hand.now + Span::from_secs(1)));
    hand.now += Span::from_secs(1);
    hand.stream.on_timeout(hand.now);
    assert_eq!(hand.stream.loss_due(), Some(hand.now + Span::from_secs(2)));
}
