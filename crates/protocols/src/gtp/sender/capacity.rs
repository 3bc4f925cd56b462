//! SendCapacity: measures R_send if it was not given (gtp-2004 4.2: "senders may be able to explicitly specify the
//! bandwidth", future work). An addition to the paper (PROTOCOL.md 7.10).
//!
//! A receiver that shares a sender's link with others sees a narrow path, and cannot know that it is shared. The sender
//! sees all of its flows. If the flows of several receivers are cut within the same look, its own link was full, and
//! its capacity is the rate at which data left meanwhile. From then on the flows share that capacity max-min fairly, as
//! if it had been given. No flow fills the link, so flows below their share find that there is more.

use std::collections::BTreeSet;
use std::net::IpAddr;

use inhaul_base::{Bitrate, Span, Time};

use crate::gtp::discover::{BINDS, MARGIN};

/// From one look at the flows to the next.
pub(super) const LOOK: Span = Span::from_secs(1);
/// A flow was cut if its receiver requests less than this part of its last requested rate, or of its told limit.
const CUT: f64 = 0.995;
/// The link is full if flows with this part of the sent data are cut within a look.
const CUT_PART: f64 = 0.6;
/// One such look may be chance: two within this many looks count.
const SIGN_LOOKS: u32 = 8;
/// The part left unused at first, beside the margin, so that the queue drains.
const SEND_DRAIN: f64 = 0.02;
/// First step of a test, as a part of the found capacity; and the maximum, reached by doubling while tests pass.
const SEND_STEP: (f64, f64) = (0.01, 0.25);
/// What carries a step of more than this was not found, but became more, or was never full.
const MORE_STEP: f64 = 0.08;
/// A new result within this part counts as the same.
const SAME_LINK: f64 = 0.05;
/// Looks until a test: at first, and the range after tests that found the same again.
const TEST_FIRST: u32 = 1;
const TEST_AGAIN: (u32, u32) = (4, 16);
/// A limit that does not bind for this many looks is forgotten.
const IDLE_LOOKS: u32 = 16;
/// Looks without a search after a false result: least and most.
const DEAF: (u32, u32) = (8, 128);

/// One flow in a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Its receiver.
    pub(super) receiver: IpAddr,
    /// Its sent bytes since the last look.
    pub(super) sent: Bitrate,
    /// Its requested rate, now and at the last look.
    pub(super) requested: (Bitrate, Bitrate),
    /// The limit that its receiver was told.
    pub(super) told: Option<Bitrate>,
}

impl Seen {
    fn was_cut(&self) -> bool {
        let before = self.told.into_iter().fold(self.requested.1, Bitrate::min);
        self.requested.0 < before.mul_f64(CUT)
    }
}

/// R_send, as far as it was found.
#[derive(Debug)]
pub(super) struct SendCapacity {
    due: Option<Time>,
    found: Option<Found>,
    /// Looks in which a second sign of a full link counts.
    suspected: u32,
    /// Looks in which nothing is found, and how many there will be next time.
    deaf: (u32, u32),
}

/// The found capacity.
#[derive(Debug)]
struct Found {
    /// What left when the link was full.
    cap: Bitrate,
    /// By which part more is tried; 0 while nothing is tested.
    step: f64,
    /// A queue is to drain.
    drains: bool,
    /// Looks until the next test, and their planned number.
    hold: u32,
    wait: u32,
    /// Looks in which it did not bind.
    idle: u32,
}

impl Found {
    fn new(cap: Bitrate) -> Self {
        Self { cap, step: 0.0, drains: true, hold: TEST_FIRST, wait: TEST_FIRST, idle: 0 }
    }

    fn limit(&self) -> Bitrate {
        let drain = if self.drains { SEND_DRAIN } else { 0.0 };
        self.cap.mul_f64(if self.step > 0.0 { 1.0 + self.step } else { 1.0 - MARGIN - drain })
    }

    /// Whether a test has found it again where it was.
    fn is_confirmed(&self) -> bool {
        self.wait > TEST_FIRST
    }

    /// The link is full, and `came` left. In a test, this does not contradict the found capacity.
    fn refute(&mut self, came: Bitrate) {
        let is_same = (came.as_f64() / self.cap.as_f64() - 1.0).abs() < SAME_LINK;
        let (cap, wait) = match is_same {
            true if self.step > 0.0 => (came.max(self.cap), (2 * self.wait).clamp(TEST_AGAIN.0, TEST_AGAIN.1)),
            true => (came, self.wait),
            false => (came, TEST_FIRST),
        };
        *self = Self { wait, hold: wait, ..Self::new(cap) };
    }

    /// All of it left, and the link is not full.
    fn pass(&mut self, came: Bitrate) {
        (self.drains, self.idle) = (false, 0);
        if self.hold > 0 {
            self.hold -= 1;
        } else if self.step <= 0.0 {
            self.step = SEND_STEP.0;
        } else if came >= self.cap.mul_f64(1.0 + self.step / 2.0) {
            (self.cap, self.step) = (came, (2.0 * self.step).min(SEND_STEP.1));
        }
    }
}

impl Default for SendCapacity {
    fn default() -> Self {
        Self { due: None, found: None, suspected: 0, deaf: (0, DEAF.0) }
    }
}

impl SendCapacity {
    /// The most that may be sent; `None`: nothing was found.
    pub(super) fn limit(&self) -> Option<Bitrate> {
        self.found.as_ref().map(Found::limit)
    }

    /// When it looks next.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Flows of several receivers are there: it looks.
    pub(super) fn begin(&mut self, now: Time) {
        self.due.get_or_insert(now + LOOK);
    }

    /// The rest belongs to one receiver, which finds it itself.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Looks at the flows that have sent something.
    pub(super) fn look(&mut self, now: Time, seen: &[Seen]) {
        self.due = Some(now + LOOK);
        let receivers: BTreeSet<IpAddr> = seen.iter().map(|flow| flow.receiver).collect();
        if receivers.len() < 2 {
            self.found = None;
            return;
        }
        let sent: f64 = seen.iter().map(|flow| flow.sent.as_f64()).sum();
        let came = Bitrate::from_f64(sent);
        let is_full = is_full(seen, sent);
        // One sign may be chance, except in a test.
        let tests = self.found.as_ref().is_some_and(|found| found.step > 0.0);
        let is_sure = is_full && (tests || self.suspected > 0);
        self.suspected = if is_full { SIGN_LOOKS } else { self.suspected.saturating_sub(1) };
        match &mut self.found {
            None if self.deaf.0 > 0 => self.deaf.0 -= 1,
            None if is_sure => self.found = Some(Found::new(came)),
            None => {}
            Some(found) if is_sure => {
                found.refute(came);
                if found.is_confirmed() {
                    self.deaf.1 = DEAF.0;
                }
            }
            Some(_) if is_full => {}
            Some(found) if sent >= BINDS * found.limit().as_f64() => found.pass(came),
            Some(found) => {
                found.idle += 1;
                if found.idle > IDLE_LOOKS {
                    if found.step > MORE_STEP && !found.is_confirmed() {
                        // Receivers were cut at the same time by chance.
                        self.deaf = (self.deaf.1, (2 * self.deaf.1).min(DEAF.1));
                    }
                    self.found = None;
                }
            }
        }
    }
}

/// Whether flows of several receivers, with most of the sent data, were cut.
fn is_full(seen: &[Seen], sent: f64) -> bool {
    let cut = || seen.iter().filter(|flow| flow.was_cut());
    let receivers: BTreeSet<IpAddr> = cut().map(|flow| flow.receiver).collect();
    receivers.len() >= 2 && cut().map(|flow| flow.sent.as_f64()).sum::<f64>() >= CUT_PART * sent
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: f64 = 100.0;

    /// Receivers that request `wanted` Mbit/s each, over one link: a flow with more than fits is cut to its delivered
    /// rate.
    struct Network {
        capacity: SendCapacity,
        now: Time,
        link: f64,
        asked: Vec<f64>,
        before: Vec<f64>,
        wanted: Vec<f64>,
    }

    impl Network {
        fn new(wanted: &[f64]) -> Self {
            let capacity = SendCapacity::default();
            let asked = wanted.to_vec();
            Self { capacity, now: Time::ZERO, link: LINK, before: asked.clone(), asked, wanted: wanted.to_vec() }
        }

        fn limit(&self) -> Option<f64> {
            self.capacity.limit().map(|limit| limit.as_f64() / 1e6)
        }

        /// A look passes: flows are scaled to the limit, then to the link; then they ask for a little more.
        fn look(&mut self) {
            let sum: f64 = self.asked.iter().sum();
            let sent = sum.min(self.limit().unwrap_or(f64::INFINITY));
            let is_full = sent > self.link;
            let part = sent.min(self.link) / sum;
            self.before.clone_from(&self.asked);
            for (asked, wanted) in self.asked.iter_mut().zip(&self.wanted) {
                *asked = if is_full { *asked * part * 0.97 } else { (*asked * 1.02).min(*wanted) };
            }
            let mbps = |rate: f64| Bitrate::from_f64(rate * 1e6);
            let flow = |(k, (asked, before)): (usize, (&f64, &f64))| Seen {
                receiver: IpAddr::from([10, 0, 0, k as u8]),
                sent: mbps(before * part),
                requested: (mbps(*asked), mbps(*before)),
                told: None,
            };
            let seen: Vec<Seen> = self.asked.iter().zip(&self.before).enumerate().map(flow).collect();
            self.now += LOOK;
            self.capacity.look(self.now, &seen);
        }
    }

    #[test]
    fn look_finds_a_link_that_several_receivers_fill_and_stays_below_it() {
        let mut network = Network::new(&[80.0, 60.0]);
        (0..20).for_each(|_| network.look());
        for _ in 0..200 {
            network.look();
            let limit = network.limit().unwrap();
            assert!((0.93 * LINK..=1.03 * LINK).contains(&limit), "{limit}");
        }
    }

    #[test]
    fn look_follows_a_link_that_becomes_wider_or_narrower() {
        let mut network = Network::new(&[150.0, 130.0]);
        (0..60).for_each(|_| network.look());
        network.link = 200.0;
        (0..60).for_each(|_| network.look());
        let limit = network.limit().unwrap();
        assert!((186.0..=206.0).contains(&limit), "{limit}");
        network.link = 50.0;
        (0..10).for_each(|_| network.look());
        let limit = network.limit().unwrap();
        assert!((45.0..=52.0).contains(&limit), "{limit}");
    }

    #[test]
    fn look_finds_nothing_where_the_link_is_wide_or_one_receiver_is_there() {
        let mut network = Network::new(&[40.0, 30.0]);
        (0..100).for_each(|_| network.look());
        assert_eq!(network.limit(), None);
        let mut network = Network::new(&[140.0]);
        (0..100).for_each(|_| network.look());
        assert_eq!(network.limit(), None);
    }

    #[test]
    fn look_forgets_what_was_chance_and_is_deaf_for_a_while() {
        let mut network = Network::new(&[40.0, 30.0]);
        // Both are cut at the same time, twice, by something else.
        network.link = 60.0;
        (0..4).for_each(|_| network.look());
        assert!(network.limit().is_some());
        network.link = 1_000.0;
        let mut looks = 0;
        while network.limit().is_some() {
            network.look();
            looks += 1;
            assert!(looks < 60, "{:?}", network.capacity);
        }
        assert!(network.asked.iter().sum::<f64>() > 69.0);
    }
}
