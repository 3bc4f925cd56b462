//! `--retry-for`: how long a transfer retries.

use clap::Args;
use inhaul_base::Span;

use crate::wrong::Wrong;

/// How long a transfer retries while a server cannot be reached.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Retry {
    /// How long to retry while no data arrives: 90s, 10m, 2h or 1d; 0 means no retry
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration, help_heading = "Network options")]
    pub(crate) retry_for: Span,
}

/// Reads a number with a unit, from seconds to days.
pub(crate) fn duration(text: &str) -> Result<Span, Wrong> {
    read(text).ok_or_else(|| {
        let wrong = Wrong::new(format!("'{text}': write a number and s, m, h or d, as in 90s, 10m, 2h or 1d; or 0"));
        match with_our_unit(text).filter(|right| read(right).is_some()) {
            Some(right) => wrong.or(text, right),
            None => wrong,
        }
    })
}

/// The meaning of a time with another program's unit, or without one: other programs count seconds.
fn with_our_unit(text: &str) -> Option<String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[number.len()..].trim() {
        "" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" => return number.parse().ok().map(|number: f64| format!("{}s", number / 1e3)),
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hour" | "hours" => "h",
        "day" | "days" => "d",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

fn read(text: &str) -> Option<Span> {
    if text == "0" {
        return Some(Span::ZERO);
    }
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86_400.0,
        _ => return None,
    };
    let number: f64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    // Longer than a lifetime is a slip.
    if !(0.0..=36_500.0).contains(&(number * seconds / 86_400.0)) {
        return None;
    }
    Some(Span::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_others_are_answered_with_ours() {
        for (text, right) in
            [("500ms", "0.5s"), ("5min", "5m"), ("90", "90s"), ("2 hours", "2h"), ("1day", "1d"), ("30sec", "30s")]
        {
            let mend = crate::wrong::Mend::Word { wrong: text.to_owned(), right: right.to_owned() };
            assert_eq!(duration(text).unwrap_err().mend, Some(mend));
        }
        assert_eq!(duration("1w").unwrap_err().mend, None);
    }

    #[test]
    fn duration_takes_a_number_and_a_unit_or_nought() {
        for (text, seconds) in
            [("0", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("0.5m", 30), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Span::from_secs(seconds)), "{text}");
        }
        for text in ["", "90", "s", "1w", "-1s", "NaNs", "infd", "99999999d", "1\u{e9}"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
