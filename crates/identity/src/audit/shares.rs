//! Shares of the log: neither one client nor all strangers together can push other clients' lines out of the files.

use std::collections::BTreeMap;

use crate::date::UnixTime;

/// Most bytes of lines about one client in a day; and about all clients without a right of their own. The files have
/// four times as much.
pub(super) const DAY_BYTES_MAX: u64 = 32 << 20;
/// That time.
pub(super) const DAY_SECONDS: u64 = 86_400;
/// Most clients that have a share of their own; all others have one together.
const CLIENTS_MAX: usize = 4096;
/// Whose that is.
const OTHERS: &str = "others";

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<String, Share>);

/// Bytes written about one client in a day.
#[derive(Debug, Default)]
pub(super) struct Share {
    day: Written,
    is_told: bool,
}

/// Lines that were written in a time.
#[derive(Debug, Default)]
pub(super) struct Written {
    since: UnixTime,
    lines: u64,
    bytes: u64,
}

impl Shares {
    /// The share of a client at `now`.
    pub(super) fn of(&mut self, whose: &str, now: UnixTime) -> &mut Share {
        if self.0.len() >= CLIENTS_MAX && !self.0.contains_key(whose) {
            self.0.retain(|_, share| !share.day.is_over(now, DAY_SECONDS));
        }
        let has_room = self.0.len() < CLIENTS_MAX || self.0.contains_key(whose);
        let share = self.0.entry(if has_room { whose } else { OTHERS }.to_owned()).or_default();
        if share.day.begin_anew(now, DAY_SECONDS) {
            share.is_told = false;
        }
        share
    }
}

impl Share {
    /// Takes `bytes` out of it; false when it is used up, until the day is over.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let may = !self.is_told && self.day.has_room(bytes, u64::MAX, DAY_BYTES_MAX);
        if may {
            self.day.count(bytes);
        }
        may
    }

    /// Whether its exhaustion has not been logged yet.
    pub(super) fn is_news(&mut self) -> bool {
        !std::mem::replace(&mut self.is_told, true)
    }
}

impl Written {
    fn is_over(&self, now: UnixTime, seconds: u64) -> bool {
        now.seconds().abs_diff(self.since.seconds()) >= seconds
    }

    /// Whether a new period of `seconds` begins.
    pub(super) fn begin_anew(&mut self, now: UnixTime, seconds: u64) -> bool {
        let is_over = self.is_over(now, seconds);
        if is_over {
            *self = Self { since: now, ..Self::default() };
        }
        is_over
    }

    pub(super) fn has_room(&self, bytes: u64, lines_max: u64, bytes_max: u64) -> bool {
        self.lines < lines_max && self.bytes + bytes <= bytes_max
    }

    pub(super) fn count(&mut self, bytes: u64) {
        self.lines += 1;
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_beyond_those_that_are_remembered_share() {
        let mut shares = Shares::default();
        let at = UnixTime::from_seconds(DAY_SECONDS);
        for n in 0..3 * CLIENTS_MAX {
            assert!(shares.of(&n.to_string(), at).take(1000));
        }
        assert!(shares.0.len() <= CLIENTS_MAX + 1, "{}", shares.0.len());
        assert!(shares.of("another", at).take(DAY_BYTES_MAX - 1000 * 2 * CLIENTS_MAX as u64));
        assert!(!shares.of("and another", at).take(1));
        assert!(shares.of("7", at).take(1));
        // A day later they are forgotten.
        let later = UnixTime::from_seconds(2 * DAY_SECONDS);
        assert!(shares.of("another", later).take(1));
        assert_eq!(shares.0.len(), 1);
    }
}
