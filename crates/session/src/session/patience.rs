//! How long a peer is waited for that owes a long answer in pieces: by what it brings. A piece that says nothing is no
//! progress.

use std::time::{Duration, Instant};

use crate::api::options::Stop;

/// How long a peer may take before the first piece, and to make up for a slow start: it may have to read its disk.
const START: Duration = Duration::from_secs(120);
/// How long it may take from one piece to the next.
const PIECE: Duration = Duration::from_secs(60);
/// How long a whole list of files may take.
const LISTING_TOTAL: Duration = Duration::from_secs(3600);
/// Pieces that say nothing before the peer counts as one that makes no sense.
const EMPTY_MAX: u32 = 3;

/// Least digests of groups of 1 MiB that have to come in a second: a disk that is slower serves nobody.
const DIGESTS_RATE: u64 = 1;
/// Digests are of bytes that the server has to read: their number says how long that may take, up to this.
const DIGESTS_TOTAL: Duration = Duration::from_secs(30 * 86_400);
/// Least that a list of files has to come at, in bytes a second.
const LISTING_RATE: u64 = 16 * 1024;

/// How long to wait for the rest of an answer.
#[derive(Debug)]
pub struct Patience {
    began: Instant,
    deadline: Instant,
    /// Least that has to come in a second.
    per_second: u64,
    total: Duration,
    stop: Stop,
    come: u64,
    empty: u32,
}

impl Patience {
    /// For a list of files, in bytes.
    pub fn for_listing() -> Self {
        Self::new(LISTING_RATE, LISTING_TOTAL, Stop::new())
    }

    /// For digests of groups, until `stop` is set.
    pub fn for_digests(stop: &Stop) -> Self {
        Self::new(DIGESTS_RATE, DIGESTS_TOTAL, stop.clone())
    }

    /// Whether the user has had enough.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// For an answer of which at least `per_second` units have to come in a second, once it has begun, and all in
    /// `total`.
    fn new(per_second: u64, total: Duration, stop: Stop) -> Self {
        let began = Instant::now();
        Self { began, deadline: began + START, per_second, total, stop, come: 0, empty: 0 }
    }

    /// The next piece has to be there whole by then.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// For how many seconds it was waited when the deadline has passed.
    pub(crate) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// A piece with so many units has come; false if the peer only pretends to answer.
    pub(crate) fn take(&mut self, units: u64) -> bool {
        self.take_at(Instant::now(), units)
    }

    fn take_at(&mut self, now: Instant, units: u64) -> bool {
        if units == 0 {
            self.empty += 1;
            return self.empty <= EMPTY_MAX;
        }
        self.come = self.come.saturating_add(units);
        let by_rate = START.saturating_add(Duration::from_secs(self.come / self.per_second));
        self.deadline = (now + PIECE).min(self.began + by_rate.min(self.total));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(patience: &Patience, seconds: u64) -> Instant {
        patience.began + Duration::from_secs(seconds)
    }

    #[test]
    fn empty_pieces_are_no_progress_and_soon_too_many() {
        let mut patience = Patience::new(1000, LISTING_TOTAL, Stop::new());
        let deadline = patience.deadline();
        let taken: Vec<bool> = (0..5).map(|k| patience.take_at(after(&patience, k), 0)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert_eq!(patience.deadline(), deadline);
    }

    #[test]
    fn a_peer_has_to_keep_to_a_rate_and_to_a_total() {
        let mut patience = Patience::new(1000, LISTING_TOTAL, Stop::new());
        assert_eq!(patience.deadline(), after(&patience, 120));
        // A good answer is waited for from piece to piece.
        assert!(patience.take_at(after(&patience, 10), 1_000_000));
        assert_eq!(patience.deadline(), after(&patience, 70));
        // One that drips is not, however often something comes.
        let mut drips = Patience::new(1000, LISTING_TOTAL, Stop::new());
        for second in 0..119 {
            assert!(drips.take_at(after(&drips, second), 1));
            assert!(drips.deadline() <= after(&drips, 120));
        }
        let mut endless = Patience::new(1000, LISTING_TOTAL, Stop::new());
        assert!(endless.take_at(after(&endless, 3590), u64::MAX / 2));
        assert_eq!(endless.deadline(), after(&endless, 3600));
    }
}
