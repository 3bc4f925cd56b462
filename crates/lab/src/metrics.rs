//! The papers' metrics, as pure functions of rates.
//!
//! They return `None` where the metric is undefined (no flows, no data), never not-a-number.

/// Jain's fairness index, `(sum x)^2 / (n sum x^2)`: 1 when all are equal, 1/n when one has all (gtp-2004 5.1.1,
/// fhstcp-2005 section 3). `None` of less than two rates, which share nothing, and when all are 0.
pub fn jain_index(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    (rates.len() >= 2 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Jain's index against an ideal allocation: of `rates[i] / ideal[i]`, over the flows whose ideal is above zero. 1 if
/// each has the same part of its ideal rate.
pub fn jain_index_against(rates: &[f64], ideal: &[f64]) -> Option<f64> {
    let parts: Vec<f64> =
        rates.iter().zip(ideal).filter(|(_, ideal)| **ideal > 0.0).map(|(x, ideal)| x / ideal).collect();
    jain_index(&parts)
}

/// The smallest rate over the largest (eval-2004's fairness index): 1 when all are equal, 0 when one is 0.
pub fn min_max_ratio(rates: &[f64]) -> Option<f64> {
    let largest = rates.iter().copied().fold(0.0, f64::max);
    let smallest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (largest > 0.0).then(|| smallest / largest)
}

/// The max-min fair allocation of a network, by progressive filling: all flows grow together, and a flow stops at a
/// full link or at its own limit (Bertsekas and Gallager, *Data Networks*, 6.5.2).
///
/// `capacities[l]` is the capacity of link `l`, `routes[f]` the links of flow `f`, `limits[f]` the flow's own limit
/// (infinite: no limit). A flow with neither link nor limit gets infinity. This is an oracle: it shares no code with
/// the protocols.
pub fn max_min_ideal(capacities: &[f64], routes: &[Vec<usize>], limits: &[f64]) -> Vec<f64> {
    let mut rates = vec![0.0; routes.len()];
    let mut left = capacities.to_vec();
    let mut growing: Vec<usize> = (0..routes.len()).collect();
    while !growing.is_empty() {
        let mut on_link = vec![0u32; capacities.len()];
        for &flow in &growing {
            for &link in &routes[flow] {
                on_link[link] += 1;
            }
        }
        // By how much everybody can grow before the first link is full or the first limit is met.
        let by_links = left.iter().zip(&on_link).filter(|(_, n)| **n > 0).map(|(left, n)| left / f64::from(*n));
        let by_limits = growing.iter().map(|&flow| limits[flow] - rates[flow]);
        let step = by_links.chain(by_limits).fold(f64::INFINITY, f64::min).max(0.0);
        if step.is_infinite() {
            for flow in growing {
                rates[flow] = f64::INFINITY;
            }
            break;
        }
        for &flow in &growing {
            rates[flow] += step;
        }
        for (left, n) in left.iter_mut().zip(&on_link) {
            *left -= step * f64::from(*n);
        }
        // Rounding must not leave a tiny rest on a full link: a link within a billionth of its capacity is full.
        let is_full = |link: usize| capacities[link].is_finite() && left[link] <= capacities[link] * 1e-9;
        let before = growing.len();
        growing.retain(|&flow| {
            rates[flow] < limits[flow] * (1.0 - 1e-9) && !routes[flow].iter().any(|&link| is_full(link))
        });
        if growing.len() == before {
            break;
        }
    }
    rates
}

/// A mean with its error, as far as known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` for a single value.
    pub ci95: Option<f64>,
    /// How many values there were.
    pub samples: usize,
}

/// The mean of independent repetitions and its 95 % confidence interval by Student's t. `None` of nothing.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let samples = values.len();
    if samples == 0 {
        return None;
    }
    let n = samples as f64;
    let mean = values.iter().sum::<f64>() / n;
    let ci95 = (samples > 1).then(|| {
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        student_t_975(samples - 1) * (variance / n).sqrt()
    });
    Some(Estimate { mean, ci95, samples })
}

/// Sample standard deviation of independent repetitions; `None` for fewer than two.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = estimate(values)?.mean;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() as f64 - 1.0)).sqrt())
}

/// The 99 % confidence interval of the mean of independent repetitions, by Student's t; `None` of less than two.
pub fn interval99(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, deviation) = (estimate(values)?.mean, deviation(values)?);
    let half = student_t_995(values.len() - 1) * deviation / (values.len() as f64).sqrt();
    Some((mean - half, mean + half))
}

/// The 97.5 % quantile of Student's t with `degrees` (at least 1) degrees of freedom.
fn student_t_975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    student_t(degrees, &TABLE, 1.959_964)
}

/// The 99.5 % quantile.
fn student_t_995(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
        2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
    ];
    student_t(degrees, &TABLE, 2.575_829)
}

/// Tables up to 30; beyond that Fisher's expansion about the normal quantile, which is right to three digits there.
fn student_t(degrees: usize, table: &[f64; 30], z: f64) -> f64 {
    if let Some(t) = table.get(degrees.saturating_sub(1)) {
        return *t;
    }
    let nu = degrees as f64;
    z + (z.powi(3) + z) / (4.0 * nu) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * nu * nu)
}

/// How many bytes a flow had delivered by when: straight lines between points that are in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    points: Vec<(f64, f64)>,
}

impl Trajectory {
    /// A flow that has delivered nothing up to `start_s`.
    pub fn starting_at(start_s: f64) -> Self {
        Self { points: vec![(start_s, 0.0)] }
    }

    /// By `t_s`, `bytes` in all had been delivered. Points that are not later than the last one replace it.
    pub fn push(&mut self, t_s: f64, bytes: f64) {
        while self.points.last().is_some_and(|(last, _)| *last >= t_s) {
            self.points.pop();
        }
        self.points.push((t_s, bytes));
    }

    /// The points: seconds and bytes.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Bytes delivered by `t_s`.
    pub fn bytes_at(&self, t_s: f64) -> f64 {
        let after = self.points.partition_point(|(t, _)| *t <= t_s);
        let Some((before, bytes)) = after.checked_sub(1).and_then(|at| self.points.get(at)).copied() else {
            return 0.0;
        };
        match self.points.get(after) {
            Some((t, more)) => bytes + (more - bytes) * (t_s - before) / (t - before),
            None => bytes,
        }
    }

    /// Mean rate between two times, in bits per second; 0 when `to_s` is not later.
    pub fn rate_bps(&self, from_s: f64, to_s: f64) -> f64 {
        if to_s <= from_s { 0.0 } else { (self.bytes_at(to_s) - self.bytes_at(from_s)) * 8.0 / (to_s - from_s) }
    }

    /// When `bytes` in all had been delivered; `None` if never.
    pub fn time_of(&self, bytes: f64) -> Option<f64> {
        let at = self.points.iter().position(|(_, held)| *held >= bytes)?;
        let (t, held) = self.points[at];
        let Some((before, less)) = at.checked_sub(1).map(|before| self.points[before]) else { return Some(t) };
        Some(before + (t - before) * (bytes - less) / (held - less))
    }
}

/// How long after `from_s` the rates of all flows reach their ideal, and keep it up to `to_s`: the least `d` such that
/// in each window of `window_s` that lies in `[from_s + d, to_s]`, taken every tenth of a window, each flow's mean rate
/// is within `tolerance` (a ratio) of its ideal. `None`: never, or the time is shorter than a window.
pub fn convergence_s(
    flows: &[(&Trajectory, f64)],
    from_s: f64,
    to_s: f64,
    window_s: f64,
    tolerance: f64,
) -> Option<f64> {
    let is_right = |start: f64| {
        flows.iter().all(|(flow, ideal)| (flow.rate_bps(start, start + window_s) - ideal).abs() <= tolerance * ideal)
    };
    let windows = ((to_s - window_s - from_s) / window_s * 10.0 + 1e-9).floor();
    if flows.is_empty() || windows.is_nan() || windows < 0.0 {
        return None;
    }
    // From the end: the first window that is wrong ends the search.
    let starts = (0..=windows as u64).rev().map(|k| k as f64 * window_s / 10.0);
    starts.take_while(|since| is_right(from_s + since)).last()
}

/// Fairness at a time scale: the mean of Jain's index over the consecutive windows of `scale_s` that fit into
/// `[from_s, to_s]` (fhstcp-2005 Figure 3: "the fairness index is calculated at different time scales").
pub fn jain_at_scale(flows: &[&Trajectory], from_s: f64, to_s: f64, scale_s: f64) -> Option<f64> {
    let windows = ((to_s - from_s) / scale_s + 1e-9).floor();
    let indices: Vec<f64> = (0..windows as u64)
        .filter_map(|k| {
            let start = from_s + k as f64 * scale_s;
            jain_index(&flows.iter().map(|flow| flow.rate_bps(start, start + scale_s)).collect::<Vec<_>>())
        })
        .collect();
    estimate(&indices).map(|estimate| estimate.mean)
}

/// How far a flow's rate varies over time: the standard deviation of its rates over the consecutive windows of
/// `interval_s` that fit into `[from_s, to_s]`, over their mean. 0 is a rate that never changes. `None` of less than two
/// windows, and of a flow that delivered nothing.
pub fn variation(flow: &Trajectory, from_s: f64, to_s: f64, interval_s: f64) -> Option<f64> {
    let windows = ((to_s - from_s) / interval_s + 1e-9).floor();
    let rates: Vec<f64> = (0..windows as u64)
        .map(|k| {
            let start = from_s + k as f64 * interval_s;
            flow.rate_bps(start, start + interval_s)
        })
        .collect();
    let mean = estimate(&rates)?.mean;
    deviation(&rates).filter(|_| mean > 0.0).map(|deviation| deviation / mean)
}

/// The stability index: the mean of the flows' variations, each over its own time `(from_s, to_s)` (Jin, Wei, Low: *FAST
/// TCP*, INFOCOM 2004; also Gu, Hong, Grossman on UDT, SC 2004). The smaller, the more stable. gtp-2004's tables 3 and 4
/// have a row "system stability" with yes and no, and print no formula.
pub fn stability_index(flows: &[(&Trajectory, f64, f64)], interval_s: f64) -> Option<f64> {
    let variations: Vec<f64> =
        flows.iter().filter_map(|(flow, from_s, to_s)| variation(flow, *from_s, *to_s, interval_s)).collect();
    estimate(&variations).map(|estimate| estimate.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-3 * expected.abs().max(1e-3), "{found}, not {expected}");
    }

    #[test]
    fn jain_index_of_equals_of_one_and_of_the_papers_tcp() {
        assert_eq!(jain_index(&[5.0; 4]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        // gtp-2004 5.1.1: "throughput ratio of four TCP flows is approximately 6:2:2:1", "only 0.67".
        assert_near(jain_index(&[6.0, 2.0, 2.0, 1.0]).unwrap(), 0.672);
        assert_eq!([jain_index(&[]), jain_index(&[5.0])], [None; 2]);
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }

    #[test]
    fn jain_index_against_counts_parts_of_the_ideal() {
        assert_eq!(jain_index_against(&[100.0, 350.0], &[200.0, 700.0]), Some(1.0));
        assert_eq!(jain_index_against(&[100.0, 350.0, 7.0], &[200.0, 700.0, 0.0]), Some(1.0));
        assert_eq!(jain_index_against(&[100.0, 7.0], &[200.0, 0.0]), None);
    }

    #[test]
    fn min_max_ratio_of_equals_and_of_a_starved_flow() {
        assert_eq!(min_max_ratio(&[4.0, 4.0]), Some(1.0));
        assert_eq!(min_max_ratio(&[4.0, 0.0]), Some(0.0));
        assert_eq!(min_max_ratio(&[]), None);
    }

    #[test]
    fn max_min_ideal_is_the_papers_worked_example() {
        // gtp-2004 4.3: capacities (100, 200, 500, 500), link 1000: (100, 200, 350, 350).
        let shares = max_min_ideal(&[1000.0], &vec![vec![0]; 4], &[100.0, 200.0, 500.0, 500.0]);
        for (share, expected) in shares.iter().zip([100.0, 200.0, 350.0, 350.0]) {
            assert_near(*share, expected);
        }
    }

    #[test]
    fn max_min_ideal_without_bounds_is_infinite() {
        assert_eq!(max_min_ideal(&[f64::INFINITY], &[vec![0]], &[f64::INFINITY]), [f64::INFINITY]);
        assert_eq!(max_min_ideal(&[f64::INFINITY, 8.0], &[vec![0, 1], vec![0]], &[f64::INFINITY, 3.0]), [8.0, 3.0]);
    }

    #[test]
    fn max_min_ideal_of_a_parking_lot() {
        // A long flow over both links, one cross flow on each: the narrow link settles the long flow first.
        let rates = max_min_ideal(&[10.0, 30.0], &[vec![0, 1], vec![0], vec![1]], &[f64::INFINITY; 3]);
        for (rate, expected) in rates.iter().zip([5.0, 5.0, 25.0]) {
            assert_near(*rate, expected);
        }
    }

    #[test]
    fn estimate_by_students_t() {
        let found = estimate(&[1.0, 2.0, 3.0]).unwrap();
        assert_near(found.mean, 2.0);
        // s = 1, n = 3: 4.303 / sqrt(3).
        assert_near(found.ci95.unwrap(), 2.4843);
        assert_eq!(estimate(&[7.0]), Some(Estimate { mean: 7.0, ci95: None, samples: 1 }));
        assert_eq!(estimate(&[]), None);
        assert_near(student_t_975(40), 2.0211);
        assert_near(student_t_975(1000), 1.9623);
        assert_near(student_t_995(40), 2.7045);
    }

    #[test]
    fn deviation_and_interval99_of_three() {
        assert_near(deviation(&[1.0, 2.0, 3.0]).unwrap(), 1.0);
        // 9.925 / sqrt(3).
        let (low, high) = interval99(&[1.0, 2.0, 3.0]).unwrap();
        assert_near(low, 2.0 - 5.7302);
        assert_near(high, 2.0 + 5.7302);
        assert_eq!((deviation(&[1.0]), interval99(&[])), (None, None));
    }

    /// A flow that starts at 0 and delivers `rates[k]` bit/s in second `k`.
    fn stairs(rates: &[f64]) -> Trajectory {
        let mut flow = Trajectory::starting_at(0.0);
        let mut bytes = 0.0;
        for (k, rate) in rates.iter().enumerate() {
            bytes += rate / 8.0;
            flow.push(k as f64 + 1.0, bytes);
        }
        flow
    }

    #[test]
    fn trajectory_gives_rates_between_any_two_times() {
        let flow = stairs(&[80.0, 160.0]);
        assert_near(flow.rate_bps(0.5, 1.5), 120.0);
        assert_near(flow.bytes_at(9.0), 30.0);
        assert_eq!(flow.rate_bps(2.0, 1.0), 0.0);
        assert_near(flow.time_of(20.0).unwrap(), 1.5);
        assert_eq!(flow.time_of(31.0), None);
    }

    #[test]
    fn convergence_s_is_from_when_on_all_is_well() {
        let (a, b) = (stairs(&[100.0, 100.0, 50.0, 50.0, 50.0]), stairs(&[0.0, 0.0, 50.0, 50.0, 50.0]));
        let found = convergence_s(&[(&a, 50.0), (&b, 50.0)], 0.0, 5.0, 0.5, 0.1).unwrap();
        // The window may reach back by a tenth of its length times the tolerance, no more.
        assert!((1.9..=2.0 + 1e-9).contains(&found), "{found}");
        assert_eq!(convergence_s(&[(&a, 70.0)], 0.0, 5.0, 0.5, 0.1), None);
        assert_eq!(convergence_s(&[(&a, 50.0)], 4.9, 5.0, 0.5, 0.1), None);
        assert_eq!(convergence_s(&[], 0.0, 5.0, 0.5, 0.1), None);
    }

    #[test]
    fn stability_index_is_the_mean_of_deviation_over_mean() {
        // 80, 120, 100: mean 100, s = 20. The other never changes; the third has delivered nothing.
        let (a, b, c) = (stairs(&[80.0, 120.0, 100.0]), stairs(&[50.0; 3]), stairs(&[0.0; 3]));
        assert_near(variation(&a, 0.0, 3.0, 1.0).unwrap(), 0.2);
        assert_eq!(variation(&c, 0.0, 3.0, 1.0), None);
        assert_eq!(variation(&a, 0.0, 1.9, 1.0), None, "one window");
        assert_near(stability_index(&[(&a, 0.0, 3.0), (&b, 0.0, 3.0), (&c, 0.0, 3.0)], 1.0).unwrap(), 0.1);
        // Each flow over its own time: bytes from before it are not counted.
        assert_near(stability_index(&[(&a, 1.0, 3.0)], 1.0).unwrap(), (200.0f64).sqrt() / 110.0);
        assert_eq!(stability_index(&[], 1.0), None);
    }

    #[test]
    fn jain_at_scale_forgives_turns_that_are_shorter() {
        let (a, b) = (stairs(&[100.0, 0.0, 100.0, 0.0]), stairs(&[0.0, 100.0, 0.0, 100.0]));
        assert_near(jain_at_scale(&[&a, &b], 0.0, 4.0, 1.0).unwrap(), 0.5);
        assert_near(jain_at_scale(&[&a, &b], 0.0, 4.0, 2.0).unwrap(), 1.0);
        assert_eq!(jain_at_scale(&[&a, &b], 0.0, 4.0, 5.0), None);
    }

    proptest! {
        /// Feasible and max-min fair: each flow is at its limit, or on a full link where it is among the fastest.
        #[test]
        fn max_min_ideal_is_max_min_fair(
            capacities in prop::collection::vec(1.0..1000.0f64, 1..5),
            flows in prop::collection::vec((prop::collection::btree_set(0usize..4, 1..4), 1.0..1500.0f64), 1..12),
        ) {
            let routes: Vec<Vec<usize>> =
                flows.iter().map(|(links, _)| links.iter().map(|l| l % capacities.len()).collect::<std::collections::BTreeSet<_>>().into_iter().collect()).collect();
            let limits: Vec<f64> = flows.iter().map(|(_, limit)| *limit).collect();
            let rates = max_min_ideal(&capacities, &routes, &limits);
            let load = |link: usize| (0..rates.len()).filter(|f| routes[*f].contains(&link)).map(|f| rates[f]).sum::<f64>();
            for (link, capacity) in capacities.iter().enumerate() {
                prop_assert!(load(link) <= capacity * (1.0 + 1e-6));
            }
            for flow in 0..rates.len() {
                let at_limit = rates[flow] >= limits[flow] * (1.0 - 1e-6);
                let at_bottleneck = routes[flow].iter().any(|&link| {
                    load(link) >= capacities[link] * (1.0 - 1e-6)
                        && (0..rates.len()).filter(|f| routes[*f].contains(&link)).all(|f| rates[f] <= rates[flow] * (1.0 + 1e-6))
                });
                prop_assert!(at_limit || at_bottleneck, "flow {flow}: {rates:?}");
            }
        }
    }
}
