//! Rates, probabilities and the way people write units.

use std::fmt;
use std::str::FromStr;

use crate::Span;

/// A rate in bits per second. 1 Mbit/s is 1,000,000 bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

impl Bitrate {
    /// Nothing at all.
    pub const ZERO: Self = Self(0);
    /// Above every link: "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// `mbps` million bits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000_000)
    }

    /// `gbps` thousand million bits per second.
    pub const fn from_gbps(gbps: u64) -> Self {
        Self(gbps * 1_000_000_000)
    }

    /// The rate at which `bytes` bytes pass in `span`; zero if `span` is zero.
    pub fn of(bytes: u64, span: Span) -> Self {
        if span == Span::ZERO {
            return Self::ZERO;
        }
        Self(divide(u128::from(bytes) * 8 * 1_000_000_000, span.as_nanos()))
    }

    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Bits per second as a floating-point number, for control laws.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// The rate of `bps` bits per second, rounded; negative and not-a-number become zero, too large becomes
    /// [`Bitrate::MAX`].
    pub fn from_f64(bps: f64) -> Self {
        Self(bps.round() as u64)
    }

    /// This rate times a factor that is not negative.
    #[must_use]
    pub fn mul_f64(self, factor: f64) -> Self {
        Self::from_f64(self.0 as f64 * factor)
    }

    /// How many whole bytes pass in `span`.
    pub fn bytes_in(self, span: Span) -> u64 {
        // Bits are cut to whole ones first, then to bytes: the same as at once.
        divide(u128::from(self.0) * u128::from(span.as_nanos()), 8 * 1_000_000_000)
    }

    /// How long `bytes` bytes take, rounded up to the nanosecond; [`Span::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let work = u128::from(bytes) * 8 * 1_000_000_000;
        Span::from_nanos(divide(work + u128::from(self.0 - 1), self.0))
    }

    /// This rate plus `other`, at most [`Bitrate::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Bytes and the time that they took: the one definition of a rate that is shown.
///
/// Every reported rate is these bytes over this time, and both stand beside it. A share of a whole (a sender of a
/// transfer, a flow of a bench) has the time of the whole, so that shares add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    /// The bytes, without headers unless stated otherwise.
    pub bytes: u64,
    /// The time.
    pub span: Span,
}

impl Throughput {
    /// `bytes` in `span`.
    pub const fn of(bytes: u64, span: Span) -> Self {
        Self { bytes, span }
    }

    /// The time in seconds.
    pub fn seconds(self) -> f64 {
        self.span.as_secs_f64()
    }

    /// Bits per second; zero if the time is zero.
    pub fn bps(self) -> f64 {
        if self.span == Span::ZERO { 0.0 } else { self.bytes as f64 * 8.0 / self.seconds() }
    }
}

impl fmt::Display for Throughput {
    /// `210.0 MB in 1.47 s: 1.14 Gbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, seconds) = (format_bytes(self.bytes), format_seconds(self.seconds()));
        write!(f, "{bytes} in {seconds}: {}", Bitrate::from_f64(self.bps()))
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => write!(f, "no limit"),
            n if n < 1_000 => write!(f, "{n} bit/s"),
            n if n < 1_000_000 => write!(f, "{:.1} kbit/s", n as f64 / 1e3),
            n if n < 1_000_000_000 => write!(f, "{:.1} Mbit/s", n as f64 / 1e6),
            n => write!(f, "{:.2} Gbit/s", n as f64 / 1e9),
        }
    }
}

/// The quotient, or the largest number if it is larger. Processors divide 64 bits many times faster than a program
/// divides 128, and 64 are enough for nearly all.
fn divide(dividend: u128, divisor: u64) -> u64 {
    match u64::try_from(dividend) {
        Ok(dividend) => dividend / divisor,
        Err(_) => u64::try_from(dividend / u128::from(divisor)).unwrap_or(u64::MAX),
    }
}

/// Why a rate, a size or a probability could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError(String);

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseUnitError {}

/// Splits `text` into a non-negative number and the rest.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

impl FromStr for Bitrate {
    type Err = ParseUnitError;

    /// Reads `850M`, `1.5G`, `10Gbit/s`, `64kbit`, `900 bit/s`: decimal multiples of bits per second. A number alone
    /// is refused: who writes 850 rarely means 850 bit/s.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let wrong = |why: &str| {
            let how = "a rate is in bits per second with k, M, G or T, like 850M or 2.5G";
            ParseUnitError(format!("'{text}' {why}: {how}"))
        };
        let (number, unit) = number_and_unit(text).ok_or_else(|| wrong("is not a rate"))?;
        if unit.is_empty() || unit == "/s" {
            return Err(wrong("has no unit"));
        }
        let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(unit);
        if unit.ends_with('B') {
            return Err(wrong("is in bytes"));
        }
        let unit = unit.strip_suffix("bits").or(unit.strip_suffix("bit")).or(unit.strip_suffix('b')).unwrap_or(unit);
        let factor = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" | "m" => 1e6,
            "G" | "g" => 1e9,
            "T" | "t" => 1e12,
            _ => return Err(wrong("is not a rate")),
        };
        let bps = number * factor;
        if !(1.0..=1e16).contains(&bps) {
            return Err(ParseUnitError(format!("'{text}' is out of range: a rate is from 1 bit/s to 10000T")));
        }
        Ok(Self::from_f64(bps))
    }
}

/// Reads a size in bytes: `4096`, `64k` (1,000s), `1MiB` or `1Mi` (1,024s), `2GB`.
///
/// # Errors
/// When the text is no number with a known unit, or is above 2^63.
pub fn parse_bytes(text: &str) -> Result<u64, ParseUnitError> {
    let wrong = || {
        ParseUnitError(format!(
            "'{text}' is not a size: write bytes with k, M, G, T or Ki, Mi, Gi, Ti behind, like 1500 or 64Mi"
        ))
    };
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "ki" | "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    if bytes > (1u64 << 63) as f64 {
        return Err(wrong());
    }
    Ok(bytes.round() as u64)
}

/// Bytes for a person: `1.50 GB`, decimal multiples.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        n if n < 1_000 => format!("{n} B"),
        n if n < 1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        n if n < 1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        n if n < 1_000_000_000_000 => format!("{:.2} GB", n as f64 / 1e9),
        n => format!("{:.2} TB", n as f64 / 1e12),
    }
}

/// Seconds for a person: `75.30 s`, `1.47 s`, `0.052 s`, `0.0031 s`. Short times keep their digits, because a rate
/// stands beside them.
pub fn format_seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 0.995 => format!("{s:.2} s"),
        s if s >= 0.0995 => format!("{s:.3} s"),
        s => format!("{s:.4} s"),
    }
}

/// A number in `[0, 1]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);

    /// The probability `p`, or `None` outside `[0, 1]`.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Self(p))
    }

    /// `part / whole`; zero if `whole` is zero; at most one.
    pub fn ratio(part: u64, whole: u64) -> Self {
        if whole == 0 { Self(0.0) } else { Self((part as f64 / whole as f64).min(1.0)) }
    }

    /// The number itself.
    pub const fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitrate_reads_what_people_write() {
        for (text, bps) in [
            ("850M", 850_000_000),
            ("1.5G", 1_500_000_000),
            ("10Gbit/s", 10_000_000_000),
            ("64kbit", 64_000),
            ("12bit/s", 12),
            ("12 bps", 12),
            ("9 Mbps", 9_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bitrate::from_bps(bps)), "{text}");
        }
        for text in ["", "fast", "-5M", "1X", "0", "0M", "1e9", "99999999T", "/s", "5/s"] {
            let found = text.parse::<Bitrate>();
            assert!(found.is_err(), "{text}: {found:?}");
        }
    }

    #[test]
    fn bitrate_wants_a_unit_and_bits() {
        for (text, why) in
            [("850", "'850' has no unit: "), ("1.5", "has no unit"), ("100MB/s", "is in bytes"), ("5B", "bytes")]
        {
            let error = text.parse::<Bitrate>().unwrap_err().to_string();
            assert!(error.contains(why) && error.ends_with("like 850M or 2.5G"), "{error}");
        }
    }

    #[test]
    fn bitrate_time_and_bytes_are_inverse() {
        let rate = Bitrate::from_gbps(1);
        assert_eq!(rate.time_for(1500), Span::from_micros(12));
        assert_eq!(rate.bytes_in(Span::from_micros(12)), 1500);
        assert_eq!(Bitrate::of(1500, Span::from_micros(12)), rate);
    }

    #[test]
    fn throughput_is_bytes_over_the_time_beside_it() {
        let of = |bytes, millis| Throughput::of(bytes, Span::from_millis(millis));
        assert_eq!(of(210_000_000, 1470).to_string(), "210.0 MB in 1.47 s: 1.14 Gbit/s");
        assert_eq!(of(1_000, 1).bps(), 8e6);
        assert_eq!(of(7, 0).bps(), 0.0);
        let shares = [of(100, 3), of(50, 3), of(0, 3)];
        let sum: f64 = shares.iter().map(|share| share.bps()).sum();
        assert!((sum - of(150, 3).bps()).abs() < 1e-6);
    }

    #[test]
    fn format_seconds_keeps_the_digits_of_short_times() {
        let texts = [75.3, 1.4749, 0.9951, 0.5, 0.0521, 0.0031].map(format_seconds);
        assert_eq!(texts, ["75.30 s", "1.47 s", "1.00 s", "0.500 s", "0.0521 s", "0.0031 s"]);
    }

    #[test]
    fn parse_bytes_knows_both_thousands() {
        assert_eq!(parse_bytes("64k"), Ok(64_000));
        assert_eq!(parse_bytes("1MiB"), Ok(1 << 20));
        assert_eq!(parse_bytes("1500"), Ok(1500));
        assert!(parse_bytes("lots").is_err());
    }
}
