use super::super::{Bar, BarChart, BarSeries, PALETTE};
use super::*;
use proptest::prelude::*;

/// A chart with one of everything.
fn full() -> Chart {
    let points = vec![(0.0, 0.0), (1.0, 400.0), (2.0, f64::NAN), (3.0, 450.0), (4.0, 430.0)];
    let band = points.iter().map(|(x, y)| BandPoint { x: *x, low: y - 20.0, high: y + 20.0 }).collect();
    let mark = |name: &str, shape| Mark { name: name.into(), colour: String::new(), shape };
    Chart {
        title: "Rates of <two> flows & \"a\" reference".into(),
        x: Axis::new("Time", "s"),
        y: Axis::new("Goodput", "Mbit/s"),
        series: vec![
            Series { band, markers: true, ..Series::line("a<b", "#0072B2", points.clone()) },
            Series { dashed: true, join: Join::Steps, ..Series::line("steps", "", points.clone()) },
            Series { join: Join::Apart, markers: true, ..Series::line("apart", "#000", points) },
        ],
        marks: vec![
            mark("fair share", MarkShape::Steps(vec![(0.0, 500.0), (2.0, 250.0)])),
            mark("published", MarkShape::Points(vec![(2.5, 433.0)])),
            mark("limit", MarkShape::Horizontal(600.0)),
            mark("", MarkShape::Vertical(2.0)),
        ],
    }
}

fn bars_of_two_groups() -> BarChart {
    let bar = Some(Bar { value: 3.0, error: Some((2.5, 3.5)), published: Some(9.0) });
    BarChart {
        title: "Bars".into(),
        groups_label: "Pattern".into(),
        y: Axis::new("Goodput", "Mbit/s"),
        groups: vec!["parallel".into(), "a pattern whose name is long enough to be broken into lines".into()],
        series: vec![
            BarSeries { name: "gtp".into(), colour: PALETTE[0].into(), bars: vec![bar, None, bar] },
            BarSeries { name: "reno".into(), colour: PALETTE[1].into(), bars: vec![bar] },
        ],
    }
}

/// The size of the PNG, and whether anything is drawn on the white.
fn decoded(png: &[u8]) -> (u32, u32, bool) {
    let pixels = tiny_skia::Pixmap::decode_png(png).expect("a PNG");
    let drawn = pixels.pixels().iter().any(|pixel| pixel.red() < 255);
    (pixels.width(), pixels.height(), drawn)
}

/// The text of every `aria-label`, which has the picture's text.
fn written(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("well-formed XML");
    document.descendants().filter_map(|node| node.attribute("aria-label")).map(str::to_owned).collect()
}

#[test]
fn to_svg_is_well_formed_and_says_everything() {
    let svg = full().to_svg();
    let texts = written(&svg);
    for expected in ["a<b", "steps", "apart", "fair share", "published", "limit", "Time (s)", "Goodput (Mbit/s)", "600"]
    {
        assert!(texts.iter().any(|text| text == expected), "{expected} is not among {texts:?}");
    }
    assert!(texts.concat().contains("<two> flows & \"a\""), "{texts:?}");
    assert_eq!(svg, full().to_svg());
}

#[test]
fn to_png_is_twice_the_size_of_the_svg() {
    let svg = full().to_svg();
    let document = roxmltree::Document::parse(&svg).expect("well-formed XML");
    let size =
        |name| document.root_element().attribute(name).and_then(|text| text.parse::<u32>().ok()).expect("a size");
    let png = full().to_png().expect("a picture");
    assert_eq!(decoded(&png), (2 * size("width"), 2 * size("height"), true));
}

#[test]
fn bar_chart_draws_a_bar_for_each_value_of_a_group() {
    let svg = bars_of_two_groups().to_svg();
    let texts = written(&svg);
    assert!(texts.contains(&"published".to_owned()) && texts.contains(&"reno".to_owned()), "{texts:?}");
    // One place of the first series is empty, and one of its bars has no group.
    let clipped_areas = svg.lines().filter(|line| line.starts_with("<polygon") && line.contains("clip-path"));
    let bars_of = |colour: &str| clipped_areas.clone().filter(|line| line.contains(&colour.to_lowercase())).count();
    assert_eq!((bars_of(PALETTE[0]), bars_of(PALETTE[1])), (1, 1));
    assert!(decoded(&bars_of_two_groups().to_png().expect("a picture")).2);
}

#[test]
fn nothing_to_show_is_said() {
    let empty = Chart { series: vec![Series::default()], ..Chart::default() };
    for svg in [Chart::default().to_svg(), empty.to_svg(), BarChart::default().to_svg()] {
        assert!(written(&svg).contains(&"no data".to_owned()));
    }
    assert!(decoded(&BarChart::default().to_png().expect("a picture")).2);
}

#[test]
fn to_png_refuses_a_picture_beyond_all_sizes() {
    let series = (0..2_000).map(|number| Series::line(&format!("a flow with a name, {number}"), "", vec![(0.0, 1.0)]));
    let chart = Chart { series: series.collect(), ..Chart::default() };
    assert!(matches!(chart.to_png(), Err(PlotError::Size { .. })));
}

#[test]
fn many_long_names_are_written_upwards_and_do_not_meet() {
    let groups: Vec<String> = (0..24).map(|k| format!("highspeed, {k} %")).collect();
    let bars = |name: &str| BarSeries {
        name: name.into(),
        colour: String::new(),
        bars: vec![Some(Bar { value: 1.0, ..Bar::default() }); 24],
    };
    let chart = BarChart { groups, series: vec![bars("ours")], ..bars_of_two_groups() };
    let svg = chart.to_svg();
    assert_eq!(written(&svg).iter().filter(|text| text.starts_with("highspeed, ")).count(), 24, "none is broken");
    assert!(svg.matches("rotate(-90").count() >= 24, "{svg}");
    assert!(bars_of_two_groups().to_svg().matches("rotate(-90").count() == 1, "of two groups only the axis is");
}

#[test]
fn thinned_keeps_the_ends_and_the_extremes_of_a_column() {
    let points: Vec<Point> = (0..1000).map(|k| (10.0 + f64::from(k) * 1e-4, f64::from((k * 7919) % 1000))).collect();
    let kept = thinned(&points);
    assert!(kept.len() <= 4);
    assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
    let heights: Vec<f64> = kept.iter().map(|(_, y)| *y).collect();
    assert!(heights.contains(&0.0) && heights.contains(&999.0));
}

#[test]
fn steps_hold_each_value() {
    assert_eq!(steps(&[(0.0, 1.0), (2.0, 5.0)]), [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0)]);
    assert_eq!(steps(&[]), []);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn any_data_makes_a_picture(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..30),
        title in any::<String>(),
        log in any::<bool>(),
        range in prop::option::of((any::<f64>(), any::<f64>())),
    ) {
        let band = points.iter().map(|(x, y)| BandPoint { x: *x, low: *y, high: x * y }).collect();
        let axis = Axis { range, ..if log { Axis::log(&title, "s") } else { Axis::new("", &title) } };
        let chart = Chart {
            x: axis.clone(),
            y: axis,
            series: vec![Series { band, markers: true, ..Series::line(&title, &title, points.clone()) }, Series::line("", "", points)],
            title,
            ..full()
        };
        written(&chart.to_svg());
        decoded(&chart.to_png().expect("a picture"));
    }
}
