//! The figures of an experiment, from the same runs as its table and verdicts, with the paper's values marked.

use inhaul_protocols::registry;

use crate::experiment::{Experiment, Figure, FigureKind, Row, Unit};
use crate::metrics::{Estimate, Trajectory};
use crate::plot::{
    Axis, BandPoint, Bar, BarChart, BarSeries, Cell, Chart, HeatMap, Join, Mark, MarkShape, PALETTE, PlotError, Series,
};
use crate::repetitions::{cases, interval, quantity};
use crate::result::{FlowResult, RunResult};
use crate::words::{kind_words, quantity_words};

/// Most flows that are drawn each for itself.
const LINES_MAX: usize = 8;
/// Points of a line, about: rates are averaged over what falls between.
const POINTS: f64 = 240.0;

/// A figure, ready to be written.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Lines.
    Lines(Chart),
    /// Bars.
    Bars(BarChart),
    /// A heat map.
    Pairs(HeatMap),
}

impl Drawing {
    /// As an SVG document.
    pub fn to_svg(&self) -> String {
        match self {
            Self::Lines(chart) => chart.to_svg(),
            Self::Bars(chart) => chart.to_svg(),
            Self::Pairs(map) => map.to_svg(),
        }
    }

    /// As a PNG image.
    ///
    /// # Errors
    /// When it is too large to be drawn.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        match self {
            Self::Lines(chart) => chart.to_png(),
            Self::Bars(chart) => chart.to_png(),
            Self::Pairs(map) => map.to_png(),
        }
    }
}

/// The figures of an experiment, in its order.
pub(crate) fn drawings(experiment: &Experiment, runs: &[RunResult]) -> Vec<Drawing> {
    experiment.figures.iter().filter_map(|figure| drawing(experiment, figure, runs)).collect()
}

/// The rates of a run that belongs to no experiment.
pub fn trajectories_of(run: &RunResult) -> Drawing {
    let figure = Figure {
        title: run.experiment.clone(),
        kind: FigureKind::Trajectories,
        case: run.case.clone(),
        groups: Vec::new(),
        total: run.flows.len() > LINES_MAX,
        quantities: Vec::new(),
    };
    Drawing::Lines(trajectories(&[], &figure, run))
}

fn drawing(experiment: &Experiment, figure: &Figure, runs: &[RunResult]) -> Option<Drawing> {
    Some(match figure.kind {
        FigureKind::Trajectories => {
            let run = runs.iter().find(|run| figure.case.is_empty() || run.case == figure.case)?;
            Drawing::Lines(trajectories(&experiment.rows, figure, run))
        }
        FigureKind::Bars => Drawing::Bars(bars(experiment, figure, runs)),
        FigureKind::Scales => Drawing::Lines(scales(experiment, figure, runs)),
        FigureKind::Lines => Drawing::Lines(lines(experiment, figure, runs)),
        FigureKind::Pairs => Drawing::Pairs(pairs(figure, runs)),
    })
}

/// Rates over time, with the max-min fair share as a dashed line if it applies to the drawn flows, and the published
/// rates.
fn trajectories(rows: &[Row], figure: &Figure, run: &RunResult) -> Chart {
    let grouped = |flow: &&FlowResult| flow.group.as_ref().is_some_and(|group| figure.groups.contains(group));
    let mut series = Vec::new();
    for group in &figure.groups {
        let members: Vec<&FlowResult> = run.flows.iter().filter(|flow| flow.group.as_ref() == Some(group)).collect();
        series.push(rates(&format!("{group}, together"), "", &members, run.duration_s));
    }
    let single: Vec<&FlowResult> = run.flows.iter().filter(|flow| !flow.background && !grouped(flow)).collect();
    if figure.total {
        let all: Vec<&FlowResult> = run.measured_flows().collect();
        series.push(rates("all flows together", "", &all, run.duration_s));
    } else {
        for flow in single.iter().take(LINES_MAX) {
            series.push(rates(&format!("{} (RTT {} ms)", flow.name, flow.rtt_ms), "", &[flow], run.duration_s));
        }
    }
    let mut marks = published_rates(rows, figure, run);
    // The share of a group is not that of a flow.
    if figure.groups.is_empty() || figure.total {
        marks.insert(0, ideal_steps(figure, run));
    }
    let case = if run.case.is_empty() { String::new() } else { format!(" [{}]", run.case) };
    Chart {
        title: format!("{}{case}", figure.title),
        x: Axis::new("Time", "s"),
        y: Axis { range: Some((0.0, top(&series))), ..Axis::new("Goodput", "Mbit/s") },
        series,
        marks,
    }
}

/// A dashed line for each rate that the paper prints of a drawn series, in the colour of that series.
fn published_rates(rows: &[Row], figure: &Figure, run: &RunResult) -> Vec<Mark> {
    let flows = || run.flows.iter().filter(|flow| !flow.background).map(|flow| flow.name.as_str());
    // Its name, and which of the lines it is compared with.
    let line = |row: &Row| -> Option<(String, usize)> {
        let (kind, name) = row.quantity.strip_suffix(".measured_bps")?.split_once('.')?;
        let number = match kind {
            "groups" => figure.groups.iter().position(|group| group == name)?,
            _ if figure.groups.is_empty() => flows().position(|flow| flow == name)?,
            _ => return None,
        };
        (!figure.total).then(|| (name.to_owned(), number))
    };
    let of_case = rows.iter().filter(|row| row.case == "*" || row.case == run.case);
    let marks = of_case.filter_map(|row| {
        let ((name, number), value) = (line(row)?, row.published?);
        Some(Mark {
            name: format!("{name}, published"),
            colour: PALETTE[number % PALETTE.len()].to_owned(),
            shape: MarkShape::Horizontal(value / 1e6),
        })
    });
    marks.collect()
}

/// The fair share where all flows have the same one; of several shares the largest, of a sum the sum.
fn ideal_steps(figure: &Figure, run: &RunResult) -> Mark {
    let measured = |ideal: &[f64]| -> Vec<f64> {
        run.flows
            .iter()
            .zip(ideal)
            .filter(|(flow, ideal)| !flow.background && **ideal > 0.0)
            .map(|(_, ideal)| *ideal)
            .collect()
    };
    let value = |ideal: &[f64]| {
        let shares = measured(ideal);
        if figure.total { shares.iter().sum() } else { shares.iter().copied().fold(0.0, f64::max) }
    };
    let mut steps: Vec<(f64, f64)> =
        run.epochs.iter().map(|epoch| (epoch.from_s, value(&epoch.ideal_bps) / 1e6)).collect();
    steps.dedup_by(|next, before| (next.1 - before.1).abs() < 1e-9);
    let name = if figure.total { "max-min fair, together" } else { "largest max-min fair share" };
    Mark { name: name.to_owned(), colour: String::new(), shape: MarkShape::Steps(steps) }
}

fn rates(name: &str, colour: &str, flows: &[&FlowResult], duration_s: f64) -> Series {
    let finest =
        flows.iter().filter_map(|flow| flow.trajectory.points().get(2)).map(|p| p.0).fold(f64::INFINITY, f64::min);
    // No finer than the record.
    let step = (duration_s / POINTS).max(recorded_interval(flows).unwrap_or(finest.min(duration_s)));
    let from = flows.iter().map(|flow| flow.start_s).fold(duration_s, f64::min);
    let to = flows.iter().map(|flow| flow.stop_s).fold(0.0, f64::max);
    let count = ((to - from) / step).floor().max(0.0) as usize;
    let sum = |t: f64| {
        flows.iter().map(|flow: &&FlowResult| Trajectory::rate_bps(&flow.trajectory, t - step, t)).sum::<f64>()
    };
    let points = (1..=count).map(|k| from + k as f64 * step).map(|t| (t, sum(t) / 1e6)).collect();
    Series::line(name, colour, points)
}

fn recorded_interval(flows: &[&FlowResult]) -> Option<f64> {
    let points = flows.first()?.trajectory.points();
    let middle = points.get(points.len() / 2..points.len() / 2 + 2)?;
    Some(middle[1].0 - middle[0].0)
}

/// The largest value, and a little more.
fn top(series: &[Series]) -> f64 {
    series.iter().flat_map(|series| &series.points).map(|(_, y)| *y).fold(1.0, f64::max) * 1.05
}

/// A group of bars for each case, a colour for each quantity, with confidence intervals and published values.
fn bars(experiment: &Experiment, figure: &Figure, runs: &[RunResult]) -> BarChart {
    let drawn =
        |case: &str| figure.case.is_empty() || case.strip_prefix(&figure.case).is_some_and(|r| r.starts_with(", "));
    let cases: Vec<&str> = cases(runs).into_iter().filter(|case| drawn(case)).collect();
    let unit = |name: &str| experiment.rows.iter().find(|row| row.quantity == name).map(|row| row.unit);
    let bar = |case: &str, name: &str| {
        let factor = unit(name).map_or(1.0, Unit::factor);
        let published =
            experiment.rows.iter().find(|row| row.quantity == name && row.case == case).and_then(|row| row.published);
        let Estimate { mean, ci95, .. } = quantity(runs, case, name)?;
        let error = interval(name, mean, ci95).map(|(low, high)| (low / factor, high / factor));
        Some(Bar { value: mean / factor, error, published: published.map(|value| value / factor) })
    };
    let series = figure.quantities.iter().map(|name| BarSeries {
        name: quantity_words(name),
        colour: String::new(),
        bars: cases.iter().map(|case| bar(case, name)).collect(),
    });
    let common = if figure.case.is_empty() { 0 } else { figure.case.len() + ", ".len() };
    let (groups, groups_label) = group_names(&cases.iter().map(|case| &case[common..]).collect::<Vec<_>>());
    let y = figure.quantities.first().map_or_else(Axis::default, |name| {
        Axis::new(&kind_words(&figure.quantities), unit(name).map_or("", Unit::sign))
    });
    BarChart { title: figure.title.clone(), groups_label, y, groups, series: series.collect() }
}

/// A cell for each case `ROW, COLUMN`.
fn pairs(figure: &Figure, runs: &[RunResult]) -> HeatMap {
    let named: Vec<_> = cases(runs).into_iter().filter_map(|case| Some((case, case.split_once(", ")?))).collect();
    let names = |of: fn((&str, &str)) -> String| {
        let mut names: Vec<String> = Vec::new();
        for (_, pair) in &named {
            let name = of(*pair);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let (rows, columns) = (names(|(row, _)| row.to_owned()), names(|(_, column)| column.to_owned()));
    let cell = |row: &str, column: &str| {
        let (case, _) = named.iter().find(|(_, pair)| *pair == (row, column))?;
        let values: Option<Vec<f64>> =
            figure.quantities.iter().map(|name| Some(quantity(runs, case, name)?.mean)).collect();
        let values = values?;
        Some(Cell { value: *values.first()?, words: values.iter().map(|value| percent(*value)).collect() })
    };
    let cells = rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect();
    let meanings: Vec<String> = figure.quantities.iter().map(|name| quantity_words(name)).collect();
    let caption = format!("From top to bottom in each cell: {}", meanings.join("; "));
    HeatMap { title: figure.title.clone(), caption, rows, columns, cells }
}

/// A share, with two digits that mean something.
fn percent(share: f64) -> String {
    let hundredths = share * 100.0;
    match hundredths {
        h if h >= 9.95 => format!("{h:.0} %"),
        h if h >= 0.095 => format!("{h:.1} %"),
        h if h >= 0.0005 => format!("{h:.3} %"),
        _ => "0 %".to_owned(),
    }
}

/// The names of groups, and their title. Cases of a sweep, like `protocol = gtp, loss = 1 %`, all name the same keys:
/// these are written once.
fn group_names(cases: &[&str]) -> (Vec<String>, String) {
    let split = |case: &str| -> Option<(Vec<String>, Vec<String>)> {
        let pairs = case.split(", ").map(|part| part.split_once(" = "));
        pairs
            .map(|pair| pair.map(|(key, value)| (key.to_owned(), value.to_owned())))
            .collect::<Option<Vec<_>>>()
            .map(|pairs| pairs.into_iter().unzip())
    };
    let parts: Option<Vec<_>> = cases.iter().map(|case| split(case)).collect();
    match parts {
        Some(parts) if !parts.is_empty() && parts.iter().all(|(keys, _)| *keys == parts[0].0) => {
            let values = parts.iter().map(|(_, values)| values.join(", ")).collect();
            (values, parts[0].0.join(", "))
        }
        _ => {
            let name = |case: &&str| if case.is_empty() { "ours".to_owned() } else { (*case).to_owned() };
            (cases.iter().map(name).collect(), String::new())
        }
    }
}

/// The fairness index over time scales: a line for each case, with its confidence interval, and diamonds for published
/// values.
fn scales(experiment: &Experiment, figure: &Figure, runs: &[RunResult]) -> Chart {
    let mut series = Vec::new();
    for case in cases(runs) {
        let Some(run) = runs.iter().find(|run| run.case == case) else { continue };
        let scales: Vec<f64> = run.metrics.jain_by_scale.iter().map(|index| index.scale_s).collect();
        let found: Vec<(f64, Estimate)> = scales
            .iter()
            .filter_map(|scale| Some((*scale, quantity(runs, case, &format!("metrics.jain_at.{scale}"))?)))
            .collect();
        let band = |(x, e): &(f64, Estimate)| {
            interval("metrics.jain_at", e.mean, e.ci95).map(|(low, high)| BandPoint { x: *x, low, high })
        };
        let colour = registry::find(case.rsplit(" = ").next().unwrap_or(case)).map_or("", |protocol| protocol.colour);
        series.push(Series {
            name: case.to_owned(),
            colour: colour.to_owned(),
            points: found.iter().map(|(x, estimate)| (*x, estimate.mean)).collect(),
            band: found.iter().filter_map(band).collect(),
            join: Join::Straight,
            markers: true,
            ..Series::default()
        });
    }
    let published = experiment.rows.iter().filter_map(|row| {
        let scale: f64 = row.quantity.strip_prefix("metrics.jain_at.")?.parse().ok()?;
        Some((scale, row.published?))
    });
    let published: Vec<(f64, f64)> = published.collect();
    let mark = |points| Mark { name: "published".to_owned(), colour: String::new(), shape: MarkShape::Points(points) };
    Chart {
        title: figure.title.clone(),
        x: Axis::log("Time scale", "s"),
        y: Axis { range: Some((0.0, 1.02)), ..Axis::new("Jain's fairness index", "") },
        series,
        marks: if published.is_empty() { Vec::new() } else { vec![mark(published)] },
    }
}

/// The first quantity over the last value of a sweep: cases are called `NAME, KEY = VALUE UNIT`, with a line for each
/// name.
fn lines(experiment: &Experiment, figure: &Figure, runs: &[RunResult]) -> Chart {
    let quantities = &figure.quantities;
    let (name, unit) = quantities.first().map_or(("", Unit::default()), |name| {
        (
            name.as_str(),
            experiment.rows.iter().find(|row| row.quantity == *name).map_or(Unit::default(), |row| row.unit),
        )
    });
    let mut x = Axis::default();
    let mut series: Vec<Series> = Vec::new();
    for case in cases(runs) {
        let Some((line, key, value, x_unit)) = swept(case) else { continue };
        let Some(Estimate { mean, ci95, .. }) = quantity(runs, case, name) else { continue };
        x = Axis::log(key, x_unit);
        if series.last().is_none_or(|series| series.name != line) {
            series.push(Series { name: line.to_owned(), markers: true, ..Series::default() });
        }
        if let Some(series) = series.last_mut() {
            let factor = unit.factor();
            series.points.push((value, mean / factor));
            let band = |(low, high)| BandPoint { x: value, low: low / factor, high: high / factor };
            series.band.extend(interval(name, mean, ci95).map(band));
        }
    }
    let y = Axis { range: Some((0.0, top(&series))), ..Axis::new(&kind_words(quantities), unit.sign()) };
    Chart { title: figure.title.clone(), x, y, series, marks: Vec::new() }
}

/// `TCP, untuned, rtt = 0.5 ms` is the line `TCP, untuned` at 0.5 of the unit `ms` of `rtt`.
fn swept(case: &str) -> Option<(&str, &str, f64, &str)> {
    let (line, last) = case.rsplit_once(", ")?;
    let (key, value) = last.split_once(" = ")?;
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    Some((line, key, number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swept_takes_the_last_value_apart() {
        assert_eq!(swept("TCP, untuned, rtt = 0.5 ms"), Some(("TCP, untuned", "rtt", 0.5, "ms")));
        assert_eq!(swept("c = 5, loss = 2"), Some(("c = 5", "loss", 2.0, "")));
        assert_eq!([swept("rtt = 1 ms"), swept("a, b"), swept("a, b = c")], [None; 3]);
    }

    #[test]
    fn group_names_says_the_keys_once() {
        let cases = ["protocol = gtp, loss = 1 %", "protocol = reno, loss = 1 %"];
        let (names, label) = group_names(&cases);
        assert_eq!((names, label.as_str()), (vec!["gtp, 1 %".to_owned(), "reno, 1 %".to_owned()], "protocol, loss"));
        assert_eq!(group_names(&["GTP", "CUBIC"]), (vec!["GTP".to_owned(), "CUBIC".to_owned()], String::new()));
        assert_eq!(group_names(&["a = 1", "b = 2"]).0, ["a = 1", "b = 2"]);
        assert_eq!(group_names(&[""]).0, ["ours"]);
    }
}
