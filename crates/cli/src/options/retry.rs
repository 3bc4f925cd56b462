//! `--retry-for`: how long a transfer retries.

use clap::Args;
use inhaul_base::Span;

/// How long a transfer retries while a server cannot be reached.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Retry {
    /// How long to retry while no data arrives: 90s, 10m, 2h or 1d; 0 means no retry
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration, help_heading = "Network options")]
    pub(crate) retry_for: Span,
}

/// Reads a number with a unit, from seconds to days.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    let wrong = || "write a number and s, m, h or d, as in 90s, 10m, 2h or 1d; or 0".to_owned();
    if text == "0" {
        return Ok(Span::ZERO);
    }
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    // Longer than a lifetime is a slip.
    if !(0.0..=36_500.0).contains(&(number * seconds / 86_400.0)) {
        return Err(wrong());
    }
    Ok(Span::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

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
