//! Chooses the range of an axis, and its labels.

use super::{Axis, Scale};

/// Values outside are indistinguishable from rounding errors, and are not drawn.
const LARGEST: f64 = 1e100;
const SMALLEST_OF_LOG: f64 = 1e-100;

/// An axis that was fitted to data.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    scale: Scale,
    /// Lowest value shown.
    pub(super) low: f64,
    /// Highest value shown, above the lowest.
    pub(super) high: f64,
    /// Values that are written, from low to high, and how.
    pub(super) labels: Vec<(f64, String)>,
}

/// How the ends of an axis are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Where the data end.
    Tight,
    /// At ticks, and at zero unless the data are far from it.
    Nice,
    /// At ticks, zero among them: bars stand on it.
    FromZero,
}

impl Ticks {
    /// Fits an axis to values (values that cannot be shown are skipped) with about `about` ticks.
    pub(super) fn fit(axis: &Axis, values: impl Iterator<Item = f64>, ends: Ends, about: f64) -> Self {
        let scale = axis.scale;
        let data = values.filter(|value| shows(scale, *value));
        let data = data.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let fixed = axis.range.filter(|(low, high)| low < high && shows(scale, *low) && shows(scale, *high));
        match scale {
            Scale::Linear => linear(fixed, data, ends, about),
            Scale::Log => logarithmic(fixed, data),
        }
    }

    /// Where a value lies between the low end, 0, and the high end, 1; `None` if it cannot be shown on this scale.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        shows(self.scale, value).then(|| match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        })
    }
}

fn shows(scale: Scale, value: f64) -> bool {
    value.is_finite() && value.abs() <= LARGEST && (scale == Scale::Linear || value >= SMALLEST_OF_LOG)
}

fn linear(fixed: Option<(f64, f64)>, data: Option<(f64, f64)>, ends: Ends, about: f64) -> Ticks {
    let (mut low, mut high) = fixed.or(data).unwrap_or((0.0, 1.0));
    if fixed.is_none() {
        let far_from_zero = low > 0.6 * high || high < 0.6 * low;
        if ends == Ends::FromZero || (ends == Ends::Nice && !far_from_zero) {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        // Values that are all equal, except for rounding, stand in the middle.
        if high - low <= 1e-9 * low.abs().max(high.abs()) {
            let around = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
            (low, high) = if ends == Ends::Tight || low != 0.0 { (low - around, high + around) } else { (0.0, 1.0) };
        }
    }
    let step = nice_step((high - low) / about.max(1.0));
    if fixed.is_none() && ends != Ends::Tight {
        // A value just above a tick by rounding needs no further tick.
        low = (low / step + 1e-9).floor() * step;
        high = (high / step - 1e-9).ceil() * step;
    }
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = (last - first).clamp(0.0, 1000.0) as u32;
    let labels =
        (0..=count).map(|k| (first + f64::from(k)) * step).map(|value| (value, written(value, step, low, high)));
    Ticks { scale: Scale::Linear, low, high, labels: labels.collect() }
}

/// The decimal exponent of a positive number, exactly.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// `digit` times ten to the power `exponent`, as near as a number can be.
fn scientific(digit: u32, exponent: i32) -> f64 {
    format!("{digit}e{exponent}").parse().unwrap_or(1.0)
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
fn nice_step(least: f64) -> f64 {
    let exponent = exponent(least);
    let steps = [1, 2, 5, 10].map(|digit| scientific(digit, exponent));
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(steps[3])
}

/// The value with as many decimals as the step has; with a power of ten where that would be long.
fn written(value: f64, step: f64, low: f64, high: f64) -> String {
    if value.abs() < step / 2.0 {
        return "0".to_owned();
    }
    let largest = exponent(low.abs().max(high.abs()));
    let decimals = -exponent(step);
    let text = if largest >= 7 || decimals > 5 {
        let digits = usize::try_from(exponent(value.abs()) + decimals).unwrap_or(0);
        with_power(&format!("{value:.digits$e}"))
    } else {
        format!("{value:.0$}", usize::try_from(decimals).unwrap_or(0))
    };
    text.replace('-', "\u{2212}")
}

/// `2e-7` as people write it: 2×10⁻⁷.
fn with_power(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let raised = exponent.chars().map(|c| match c.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    });
    let factor = if digits == "1" { String::new() } else { format!("{digits}×") };
    format!("{factor}10{}", raised.collect::<String>())
}

fn logarithmic(fixed: Option<(f64, f64)>, data: Option<(f64, f64)>) -> Ticks {
    let (mut low, mut high) = fixed.or(data).unwrap_or((1.0, 10.0));
    let decades = exponent(low)..=exponent(high) + 1;
    let digits: &[u32] = if high / low < 30.0 { &[1, 2, 5] } else { &[1] };
    // Ten labels at most are written.
    let every = (decades.end() - decades.start()) / 10 + 1;
    let ticks = decades.filter(|decade| decade % every == 0);
    let ticks: Vec<f64> = ticks.flat_map(|decade| digits.iter().map(move |digit| scientific(*digit, decade))).collect();
    if fixed.is_none() {
        low = ticks.iter().copied().filter(|tick| *tick <= low).fold(low / 10.0, f64::max).max(low / 10.0);
        let above = ticks.iter().copied().filter(|tick| *tick >= high).fold(f64::INFINITY, f64::min);
        high = if above.is_finite() && above > low { above } else { high.max(low) * 10.0 };
    }
    let shown = ticks.into_iter().filter(|tick| *tick >= low * (1.0 - 1e-9) && *tick <= high * (1.0 + 1e-9));
    let shown: Vec<f64> = shown.collect();
    let plain = shown.iter().all(|value| (1e-4..1e6).contains(value));
    let labels = shown.into_iter().map(|value| (value, written_log(value, plain))).collect();
    Ticks { scale: Scale::Log, low, high, labels }
}

fn written_log(value: f64, plain: bool) -> String {
    if plain { format!("{value}") } else { with_power(&format!("{value:e}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear_of(values: &[f64], ends: Ends) -> (f64, f64, String) {
        let ticks = Ticks::fit(&Axis::default(), values.iter().copied(), ends, 5.0);
        let labels: Vec<String> = ticks.labels.into_iter().map(|(_, text)| text).collect();
        (ticks.low, ticks.high, labels.join(" "))
    }

    #[test]
    fn fit_linear_chooses_nice_numbers() {
        assert_eq!(linear_of(&[0.0, 970.0], Ends::Nice), (0.0, 1000.0, "0 200 400 600 800 1000".into()));
        assert_eq!(linear_of(&[250.0, 970.0], Ends::Nice).0, 0.0);
        assert_eq!(linear_of(&[0.93, 0.99], Ends::Nice), (0.92, 1.0, "0.92 0.94 0.96 0.98 1.00".into()));
        assert_eq!(linear_of(&[0.3, 11.7], Ends::Tight), (0.3, 11.7, "5 10".into()));
        assert_eq!(linear_of(&[-3.0, 4.0], Ends::Nice).2, "\u{2212}4 \u{2212}2 0 2 4");
        assert_eq!(linear_of(&[0.0, 3e9], Ends::Nice).2, "0 10⁹ 2×10⁹ 3×10⁹");
    }

    #[test]
    fn fit_shows_a_range_for_no_data_and_for_one_value() {
        assert_eq!(linear_of(&[], Ends::Nice), (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1.0".into()));
        assert_eq!(linear_of(&[f64::NAN, f64::INFINITY], Ends::Nice).1, 1.0);
        assert_eq!(linear_of(&[0.0], Ends::Nice).1, 1.0);
        let (low, high, _) = linear_of(&[7.0], Ends::Tight);
        assert!(low < 7.0 && high > 7.0);
    }

    #[test]
    fn fit_log_writes_decades_and_their_parts() {
        let labels = |values: &[f64]| {
            let ticks = Ticks::fit(&Axis::log("", ""), values.iter().copied(), Ends::Nice, 5.0);
            ticks.labels.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(&[1.0, 200.0]), "1 10 100 1000");
        assert_eq!(labels(&[3.0, 40.0, -1.0, 0.0]), "2 5 10 20 50");
        assert_eq!(labels(&[3e-7, 2e-5]), "10⁻⁷ 10⁻⁶ 10⁻⁵ 10⁻⁴");
    }

    proptest! {
        #[test]
        fn fit_covers_the_data_with_few_nice_ticks(
            values in prop::collection::vec(prop_oneof![-1e6f64..1e6, -1.0..1.0, any::<f64>()], 0..20),
            about in 2.0f64..12.0,
        ) {
            for ends in [Ends::Tight, Ends::Nice, Ends::FromZero] {
                let ticks = Ticks::fit(&Axis::default(), values.iter().copied(), ends, about);
                prop_assert!(ticks.low < ticks.high);
                prop_assert!(ticks.labels.len() <= about as usize + 4, "{:?}", ticks.labels);
                for value in values.iter().filter(|value| shows(Scale::Linear, **value)) {
                    let place = ticks.place(*value).expect("it is shown");
                    prop_assert!((-1e-6..=1.0 + 1e-6).contains(&place), "{value} at {place} of {ticks:?}");
                }
            }
        }

        #[test]
        fn fit_log_covers_the_data(values in prop::collection::vec(prop_oneof![1e-9f64..1e9, any::<f64>()], 0..20)) {
            let ticks = Ticks::fit(&Axis::log("", ""), values.iter().copied(), Ends::Nice, 5.0);
            prop_assert!(ticks.low < ticks.high);
            prop_assert!(ticks.labels.len() <= 12, "{:?}", ticks.labels);
            for value in values.iter().filter(|value| shows(Scale::Log, **value)) {
                let place = ticks.place(*value).expect("it is shown");
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&place), "{value} at {place} of {ticks:?}");
            }
        }
    }
}
