//! A time of the calendar, in whole seconds.

use std::fmt;

use serde::{Serialize, Serializer};

/// Seconds since 1970 began (UTC), without leap seconds, as POSIX counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The latest: five bytes hold it, and it is in the year 36812.
    pub const MAX: Self = Self((1 << 40) - 1);

    /// `seconds` after the beginning of 1970; at most [`UnixTime::MAX`].
    pub const fn from_seconds(seconds: u64) -> Self {
        if seconds > Self::MAX.0 { Self::MAX } else { Self(seconds) }
    }

    /// The seconds.
    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// `seconds` later; at most [`UnixTime::MAX`].
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self::from_seconds(self.0.saturating_add(seconds))
    }
}

impl fmt::Display for UnixTime {
    /// As RFC 3339 writes it: `2026-11-24T12:00:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Days since 0000-03-01, in eras of 400 years: "days_from_civil" (Howard Hinnant), the other way round.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Serialize for UnixTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_the_calendar_s() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UnixTime::from_seconds(seconds).to_string(), text);
        }
        assert_eq!(UnixTime::from_seconds(u64::MAX).plus(1), UnixTime::MAX);
    }
}
