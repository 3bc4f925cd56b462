//! For tests: reads printed figures, and checks that a rate is the bytes over the time beside it. Printed figures are
//! rounded, so each stands for all numbers that round to it.

use std::ops::RangeInclusive;

/// A figure that is printed, in bytes, seconds or bits per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Figure {
    Bytes(RangeInclusive<f64>),
    Seconds(RangeInclusive<f64>),
    Rate(RangeInclusive<f64>),
}

/// All figures of a text that have a unit, in order.
pub(crate) fn figures(text: &str) -> Vec<Figure> {
    let plain = |word: &'_ str| word.trim_matches(['(', ')', ',', ';', ':']).to_owned();
    let words: Vec<String> = text.split_whitespace().map(plain).collect();
    let pairs = words.iter().zip(words.iter().skip(1).map(String::as_str).chain([""]));
    pairs.filter_map(|(word, unit)| clock(word).or_else(|| figure(word, unit))).collect()
}

fn figure(number: &str, unit: &str) -> Option<Figure> {
    let value: f64 = number.parse().ok().filter(|_| number.starts_with(|c: char| c.is_ascii_digit()))?;
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    // Whole bytes and bits are not rounded.
    let half = if decimals == 0 { 0.0 } else { 0.5 / 10f64.powi(decimals as i32) };
    let times = |factor: f64| (value - half) * factor..=(value + half) * factor;
    let factor = |unit: &str| match unit {
        "" => Some(1.0),
        "k" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        "T" => Some(1e12),
        _ => None,
    };
    if unit == "s" {
        Some(Figure::Seconds(times(1.0)))
    } else if let Some(multiple) = unit.strip_suffix("bit/s") {
        Some(Figure::Rate(times(factor(multiple)?)))
    } else {
        Some(Figure::Bytes(times(factor(unit.strip_suffix('B')?)?)))
    }
}

/// `3:05` or `1:02:05`: a second that has begun is not counted.
fn clock(word: &str) -> Option<Figure> {
    let parts: Option<Vec<f64>> = word.split(':').map(|part| part.parse().ok()).collect();
    let seconds = parts.filter(|parts| parts.len() > 1)?.into_iter().fold(0.0, |sum, part| sum * 60.0 + part);
    Some(Figure::Seconds(seconds..=seconds + 1.0))
}

/// Checks that the first rate of a text is the bytes before it over the time before it, as far as rounding tells.
pub(crate) fn assert_rate(text: &str) {
    let (mut bytes, mut seconds) = (None, None);
    for figure in figures(text) {
        match figure {
            Figure::Bytes(found) => bytes = Some(found),
            Figure::Seconds(found) => seconds = Some(found),
            Figure::Rate(rate) => {
                let bytes = bytes.unwrap_or_else(|| panic!("no bytes before the rate: {text}"));
                let seconds = seconds.unwrap_or_else(|| panic!("no time before the rate: {text}"));
                let least = bytes.start() * 8.0 / seconds.end();
                let most = bytes.end() * 8.0 / seconds.start().max(1e-9);
                let fits = *rate.start() <= most && least <= *rate.end();
                assert!(fits, "{rate:?} bit/s is not {bytes:?} B in {seconds:?} s, {least} to {most}: {text}");
                return;
            }
        }
    }
    panic!("no rate: {text}");
}

/// The sum of the first rates of all lines from the one on that contains `first`.
pub(crate) fn sum_of_rates(text: &str, first: &str) -> f64 {
    let rate = |line: &str| {
        figures(line).into_iter().find_map(|figure| match figure {
            Figure::Rate(rate) => Some((rate.start() + rate.end()) / 2.0),
            _ => None,
        })
    };
    text.lines().skip_while(|line| !line.contains(first)).filter_map(rate).sum()
}
