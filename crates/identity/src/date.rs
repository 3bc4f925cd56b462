//! A time of the calendar, in whole seconds.

use std::fmt;

use jiff::Timestamp;
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
    /// As RFC 3339 writes it: `2026-11-24T12:00:00Z`. It has four digits for the year, so later times are shown as the
    /// last that can be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX).min(Timestamp::MAX.as_second());
        let time = Timestamp::from_second(seconds).map_err(|_| fmt::Error)?;
        fmt::Display::fmt(&time, f)
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
            (UnixTime::MAX.seconds(), "9999-12-30T22:00:00Z"),
        ] {
            assert_eq!(UnixTime::from_seconds(seconds).to_string(), text);
        }
        assert_eq!(UnixTime::from_seconds(u64::MAX).plus(1), UnixTime::MAX);
    }
}
