//! Numbers with units, as they stand in a scenario: strings, so that no reader has to guess the unit.

use std::fmt;
use std::str::FromStr;

use inhaul_base::{Bitrate, ParseUnitError, Probability, Span, parse_bytes};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A span of time: `"20 ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duration(pub(crate) Span);

/// A rate above zero: `"1 Gbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) Bitrate);

/// A size above zero: `"5 MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A part of a whole: `"0.1 %"`, or a number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) Probability);

/// A queue limit of a link: `"5 ms"` (at the link's rate), `"625 kB"`, `"100 packets"` or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLength {
    /// The link's bytes of this time.
    Time(Span),
    /// A number of bytes.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
    /// Anything.
    Unlimited,
}

/// The value of a protocol's parameter, as the protocol will read it: `"paper"`, `10`, `true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterValue(pub(crate) String);

/// Longest time that a scenario may name: a year.
const SPAN_MAX_S: f64 = 366.0 * 86_400.0;
/// Largest size that a scenario may name: 1 PB.
const SIZE_MAX: u64 = 1_000_000_000_000_000;

/// Reads `"20 ms"`, `"1.5 s"`, `"500us"`.
///
/// # Errors
/// When the text is no number with a known unit, or is longer than a year.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let wrong = || format!("'{text}' is not a time: write a number with ns, us, ms, s, min or h, like \"20 ms\"");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let number: f64 = trimmed[..end].parse().map_err(|_| wrong())?;
    let factor = match trimmed[end..].trim_start() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number * factor;
    if seconds > SPAN_MAX_S {
        return Err(format!("'{text}' is longer than a year"));
    }
    Ok(Span::from_secs_f64(seconds))
}

fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err(format!("'{text}' is no size: at least one byte is needed")),
        n if n > SIZE_MAX => Err(format!("'{text}' is too large: at most 1000 TB")),
        n => Ok(n),
    }
}

fn parse_share(text: &str) -> Result<Probability, String> {
    let wrong = || format!("'{text}' is not a share: write a percentage like \"0.1 %\", or a number from 0 to 1");
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Probability::new(number / unit).ok_or_else(wrong)
}

fn parse_queue(text: &str) -> Result<QueueLength, String> {
    if text.trim() == "unlimited" {
        return Ok(QueueLength::Unlimited);
    }
    if let Some(count) = text.trim().strip_suffix("packets").or(text.trim().strip_suffix("packet")) {
        let count = count.trim_end().parse().ok().filter(|n| (1..=100_000_000).contains(n));
        return count.map(QueueLength::Packets).ok_or_else(|| format!("'{text}' is no number of packets from 1 on"));
    }
    match (parse_span(text), parse_size(text)) {
        (Ok(span), _) if span > Span::ZERO => Ok(QueueLength::Time(span)),
        (_, Ok(bytes)) => Ok(QueueLength::Bytes(bytes)),
        _ => Err(format!(
            "'{text}' is not the length of a queue: write a time at the link's rate like \"5 ms\", bytes like \"625 kB\", \
             packets like \"100 packets\", or \"unlimited\""
        )),
    }
}

/// Reads a string by a function; the error names the expected form.
struct Text<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
    /// The unit of a bare number; `None`: a number needs a unit.
    number: Option<fn(f64) -> Result<T, String>>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        match self.number {
            Some(read) => read(number).map_err(E::custom),
            None => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match self.number {
            Some(read) => read(number as f64).map_err(E::custom),
            None => Err(E::invalid_type(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Bool(value), &self))
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a time with its unit, in quotes, like \"20 ms\"";
        deserializer.deserialize_any(Text { expected, parse: parse_span, number: None }).map(Self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a rate with its unit, in quotes, like \"1 Gbit/s\"";
        let parse = |text: &str| Bitrate::from_str(text).map_err(|error: ParseUnitError| error.to_string());
        deserializer.deserialize_any(Text { expected, parse, number: None }).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a size with its unit, in quotes, like \"5 MiB\"";
        deserializer.deserialize_any(Text { expected, parse: parse_size, number: None }).map(Self)
    }
}

impl<'de> Deserialize<'de> for QueueLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the length of a queue, in quotes, like \"5 ms\", \"625 kB\" or \"100 packets\"";
        deserializer.deserialize_any(Text { expected, parse: parse_queue, number: None })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a share, like \"0.1 %\" or 0.001";
        let number = |number: f64| Probability::new(number).ok_or_else(|| format!("{number} is not from 0 to 1"));
        deserializer.deserialize_any(Text { expected, parse: parse_share, number: Some(number) }).map(Self)
    }
}

impl<'de> Deserialize<'de> for ParameterValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the value of a parameter: a string or a number";
        let number = |number: f64| Ok(number.to_string());
        let parse = |text: &str| Ok(text.to_owned());
        deserializer.deserialize_any(Text { expected, parse, number: Some(number) }).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_span_reads_what_people_write() {
        for (text, nanos) in
            [("20 ms", 20_000_000), ("1.5 s", 1_500_000_000), ("500us", 500_000), ("2 min", 120_000_000_000)]
        {
            assert_eq!(parse_span(text), Ok(Span::from_nanos(nanos)), "{text}");
        }
        for text in ["", "20", "-5 ms", "ms", "1 day", "1.2.3 s", "9999 h"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parse_queue_knows_time_bytes_and_packets() {
        assert_eq!(parse_queue("5 ms"), Ok(QueueLength::Time(Span::from_millis(5))));
        assert_eq!(parse_queue("625 kB"), Ok(QueueLength::Bytes(625_000)));
        assert_eq!(parse_queue("1 packet"), Ok(QueueLength::Packets(1)));
        assert_eq!(parse_queue("unlimited"), Ok(QueueLength::Unlimited));
        for text in ["0 ms", "0", "0 packets", "-1 packets", "many"] {
            assert!(parse_queue(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parse_share_knows_percent() {
        assert_eq!(parse_share("0.1 %").unwrap().get(), 0.001);
        assert_eq!(parse_share("0.5").unwrap().get(), 0.5);
        assert!(parse_share("120 %").is_err() && parse_share("nan").is_err());
    }
}
