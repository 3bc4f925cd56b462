//! Keeps the file of a result small: first drops data that is not drawn.

use serde::{Deserialize, Serialize};

use crate::result::{FlowResult, Point, RunResult};

/// A kept result stays below this many bytes, unless its table and metrics alone need more.
const SIZE_MAX: usize = 1_000_000;

/// Omitted parts of a result's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    /// Most points of a series; longer ones were averaged.
    pub points: usize,
    /// Runs that have no series, because an earlier repetition of their case has one.
    pub runs_without_series: usize,
    /// Most flows of a run; further ones were left out.
    pub flows: Option<usize>,
    /// Flows that were left out, of all runs.
    pub flows_left_out: usize,
}

/// How much of a run is kept.
struct Level {
    points: usize,
    repetitions_have_series: bool,
    flows: Option<usize>,
}

const fn level(points: usize, repetitions_have_series: bool, flows: Option<usize>) -> Level {
    Level { points, repetitions_have_series, flows }
}

/// From all to little: a figure draws 240 points of the first repetition, so these go after everything else.
const LEVELS: [Level; 8] = [
    level(480, true, None),
    level(240, true, None),
    level(240, false, None),
    level(120, false, None),
    level(60, false, None),
    level(60, false, Some(100)),
    level(60, false, Some(10)),
    level(0, false, Some(0)),
];

/// The text of the first level that is small enough, otherwise of the last. `write` makes it of the remaining parts of
/// the runs.
pub(super) fn small_text(runs: &[RunResult], write: impl Fn(Thinned, Vec<RunResult>) -> String) -> String {
    let mut text = String::new();
    for level in &LEVELS {
        let (thinned, left) = at_level(runs, level);
        text = write(thinned, left);
        if text.len() <= SIZE_MAX {
            break;
        }
    }
    text
}

fn at_level(runs: &[RunResult], level: &Level) -> (Thinned, Vec<RunResult>) {
    let mut small = runs.to_vec();
    let mut thinned = Thinned { points: level.points, flows: level.flows, ..Thinned::default() };
    let mut cases: Vec<String> = Vec::new();
    for run in &mut small {
        let is_repetition = cases.contains(&run.case);
        cases.push(run.case.clone());
        let points = if is_repetition && !level.repetitions_have_series { 0 } else { level.points };
        let flows = level.flows.unwrap_or(run.flows.len());
        thinned.runs_without_series += usize::from(points == 0);
        thinned.flows_left_out += run.flows.len().saturating_sub(flows);
        thin_run(run, points, flows);
    }
    (thinned, small)
}

fn thin_run(run: &mut RunResult, points: usize, flows: usize) {
    run.flows.truncate(flows);
    for epoch in &mut run.epochs {
        epoch.ideal_bps.truncate(flows);
    }
    for flow in &mut run.flows {
        flow.series = thin_series(flow, points);
    }
}

/// At most `points` mean rates, each over as many of the series' intervals; whole bits per second and microseconds.
fn thin_series(flow: &FlowResult, points: usize) -> Vec<Point> {
    if points == 0 {
        return Vec::new();
    }
    let together = flow.series.len().div_ceil(points).max(1);
    let mut from_s = flow.start_s;
    let chunk = |points: &[Point]| {
        let mut before_s = from_s;
        let mut bits = 0.0;
        for point in points {
            bits += point.goodput_bps * (point.t_s - before_s);
            before_s = point.t_s;
        }
        let mean = if before_s > from_s { bits / (before_s - from_s) } else { 0.0 };
        from_s = before_s;
        Point { t_s: (before_s * 1e6).round() / 1e6, goodput_bps: mean.round() }
    };
    flow.series.chunks(together).map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept;
    use crate::kept::tests::kept;

    fn flow(points: usize) -> FlowResult {
        let point = |k: usize| Point { t_s: 2.0 + k as f64, goodput_bps: 1e8 * (k % 3) as f64 };
        FlowResult {
            start_s: 1.0,
            stop_s: 1.0 + points as f64,
            series: (0..points).map(point).collect(),
            ..FlowResult::default()
        }
    }

    #[test]
    fn thin_series_keeps_the_bytes() {
        let bits = |series: &[Point]| {
            let ends = std::iter::once(1.0).chain(series.iter().map(|point| point.t_s));
            series.iter().zip(ends).map(|(point, from)| point.goodput_bps * (point.t_s - from)).sum::<f64>()
        };
        let flow = flow(1000);
        for points in [1000, 480, 7, 1] {
            let thin = thin_series(&flow, points);
            assert!(thin.len() <= points, "{points}");
            assert_eq!(thin.last().unwrap().t_s, 1001.0);
            assert!((bits(&thin) / bits(&flow.series) - 1.0).abs() < 1e-6, "{points}");
        }
        assert!(thin_series(&flow, 0).is_empty());
    }

    #[test]
    fn to_json_leaves_repetitions_and_flows_out_when_it_must() {
        let mut large = kept();
        let run = RunResult { duration_s: 2000.0, valid: true, flows: vec![flow(1000); 80], ..RunResult::default() };
        large.runs = vec![run.clone(), run.clone(), run];
        let text = large.to_json();
        assert!(text.len() <= SIZE_MAX, "{}", text.len());
        let thinned = Kept::from_json(&text).unwrap().thinned;
        assert_eq!((thinned.runs_without_series, thinned.flows_left_out), (2, 0), "{thinned:?}");
        large.runs[0].flows = vec![flow(1000); 5000];
        let thinned = Kept::from_json(&large.to_json()).unwrap().thinned;
        assert_eq!((thinned.flows, thinned.flows_left_out), (Some(100), 4900));
    }
}
