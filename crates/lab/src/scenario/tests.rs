use inhaul_base::Span;

use super::*;

const STAR: &str = r#"
title = "two senders"
duration = "2 s"

[topology.star]
access = { rate = "1 Gbit/s", queue = "5 ms" }
senders = [
  { name = "near", rtt = "20 ms", link = { rate = "1 Gbit/s" } },
  { name = "far", rtt = "80 ms", link = { rate = "1 Gbit/s" } },
]

[[flows]]
name = "f1"
protocol = "gtp"
from = "near"
to = "receiver"

[[flows]]
name = "f2"
protocol = "gtp"
from = "far"
to = "receiver"
start = "500 ms"
"#;

fn refused(text: &str) -> String {
    Scenario::parse("s.toml", text, &[]).err().expect("refused").to_string()
}

/// The star with one line changed, and the error.
fn refused_with(from: &str, to: &str) -> String {
    assert!(STAR.contains(from), "{from}");
    refused(&STAR.replacen(from, to, 1))
}

#[test]
fn parse_builds_the_star_of_the_lambda_grid() {
    let scenario = Scenario::parse("s.toml", STAR, &[]).unwrap();
    let [cell] = &scenario.cells[..] else { panic!("one cell") };
    let rtts: Vec<f64> = cell.plan.flows.iter().map(|flow| flow.rtt.as_millis_f64()).collect();
    assert_eq!(rtts, [20.0, 80.0]);
    assert_eq!(cell.plan.endpoints.len(), 3, "two senders and one shared receiver");
    let names: Vec<_> = cell.plan.topology.links().map(|(_, name, ..)| name.to_owned()).collect();
    assert_eq!(names, ["access", "access-back", "near-link", "near-link-back", "far-link", "far-link-back"]);
    assert_eq!(cell.plan.measure.0.as_secs_f64(), 0.5);
}

#[test]
fn parse_refuses_with_line_column_and_what_was_expected() {
    for (from, to, expected) in [
        ("\"5 ms\"", "5", "s.toml:6:39: invalid type: integer `5`, expected the length of a queue"),
        ("rate = \"1 Gbit/s\", queue", "rate = \"0M\", queue", "s.toml:6:19: '0M' is out of range"),
        ("rate = \"1 Gbit/s\", queue", "rate = \"1000\", queue", "s.toml:6:19: '1000' has no unit"),
        (
            "from = \"near\"",
            "from = \"nowhere\"",
            "s.toml:15:8: there is no host 'nowhere'; there are: far, near, receiver",
        ),
        ("protocol = \"gtp\"", "protocol = \"gpt\"", "s.toml:14:12: there is no protocol 'gpt'; there are: gtp"),
        ("start = \"500 ms\"", "start = \"2 s\"", "s.toml:23:9: the flow starts at"),
        ("start = \"500 ms\"", "start = \"1 s\"\nstop = \"1 s\"", "s.toml:24:8: the flow stops at"),
        ("start = \"500 ms\"", "begin = \"500 ms\"", "s.toml:23:1: unknown field `begin`, expected one of"),
        ("name = \"f2\"", "name = \"f1\"", "s.toml:19:8: 'f1' cannot name a flow"),
        ("start = \"500 ms\"", "parameters = { speed = 3 }", "gtp has no parameter 'speed'; it has: control"),
        (
            "start = \"500 ms\"",
            "parameters = { control = \"paper\" }\nreceive_rate = \"1G\"",
            "share one endpoint there",
        ),
        ("duration = \"2 s\"", "duration = \"2 fortnights\"", "s.toml:3:12: '2 fortnights' is not a time"),
        ("rtt = \"20 ms\"", "rtt = \"20 ms\", count = 3", "needs a `*`"),
        ("title = \"two senders\"", "title = two senders", "s.toml:2:9: "),
        ("title = \"two senders\"\n", "", "missing field `title`"),
        ("start = \"500 ms\"", "mtu = 100", "s.toml:23:7: a packet has from 576"),
        (
            "start = \"500 ms\"",
            "[[changes]]\nat = \"1 s\"\nlink = \"exit\"\nup = false",
            "s.toml:25:8: there is no link 'exit'",
        ),
        (
            "start = \"500 ms\"",
            "[[changes]]\nat = \"1 s\"\nflow = \"f2\"\nup = false",
            "s.toml:24:6: a change of a flow has only",
        ),
    ] {
        let found = refused_with(from, to);
        assert!(found.contains(expected), "{found}\nnot: {expected}");
    }
}

#[test]
fn parse_builds_schedulers_and_refuses_keys_of_another_kind() {
    use inhaul_sim::{EevdfSpec, O1Spec, Quota, SchedulerKind};

    let text = |more: &str, fields: &str| {
        format!("noise = \"vm-idle\"\n{STAR}\n[[hosts]]\nname = \"receiver\"\n{more}\n[hosts.scheduler]\n{fields}\n")
    };
    let host = |text: &str| {
        let scenario = Scenario::parse("s.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"));
        let topology = &scenario.cells[0].plan.topology;
        let (id, _) = topology.nodes().find(|(_, name)| *name == "receiver").unwrap();
        topology.host_spec(id).unwrap().clone()
    };
    let tasks =
        "tasks = [{ count = 3, memory = 1.5 }, { nice = 5, runs = \"1 ms\", sleeps = \"9 ms\", random = true }]";
    let spec = host(&text("ring = 100", &format!("kind = \"o1\"\ninterrupt = \"2.5 us\"\n{tasks}")));
    assert!(spec.noise.is_none(), "the scenario's noise is for the others");
    let scheduler = spec.scheduler.unwrap();
    assert_eq!((scheduler.tasks.len(), scheduler.tasks[2].memory, scheduler.tasks[3].nice), (4, 1.5, 5));
    assert_eq!(
        (scheduler.kind, scheduler.interrupts.packet),
        (SchedulerKind::O1(O1Spec::default()), Span::from_nanos(2_500))
    );
    let spec = host(&text("", "kind = \"eevdf\"\nquota = \"25 ms\""));
    let quota = Some(Quota { quota: Span::from_millis(25), period: Span::from_millis(100) });
    let kind = SchedulerKind::Eevdf(EevdfSpec { quota, ..EevdfSpec::default() });
    assert_eq!(spec.scheduler.unwrap().kind, kind);

    for (more, fields, expected) in [
        ("", "kind = \"cfs\"", "unknown variant `cfs`, expected `o1` or `eevdf`"),
        ("", "kind = \"o1\"\nquota = \"1 ms\"", "are of `kind = \"eevdf\"`"),
        ("", "kind = \"eevdf\"\ndelta = 3", "are of `kind = \"o1\"`"),
        ("", "kind = \"eevdf\"\nperiod = \"1 ms\"", "a `period` needs a `quota`"),
        ("", "kind = \"eevdf\"\nquota = \"200 ms\"", "quota is at most period"),
        ("", "kind = \"o1\"\ntick = \"0 ms\"", "tick and base_slice are from"),
        ("", "kind = \"o1\"\nnice = 20", "niceness is from -20 to 19"),
        ("", "kind = \"o1\"\ntasks = [{ runs = \"1 ms\" }]", "both `runs` and `sleeps`"),
        ("", "kind = \"o1\"\ntasks = [{ count = 999 }, { count = 2 }]", "at most 1000 tasks"),
        ("noise = \"vm-idle\"", "kind = \"o1\"", "neither `noise` nor `tasks`"),
        ("tasks = [{ share = 0.5, on = \"1 s\", off = \"1 s\" }]", "kind = \"o1\"", "neither `noise` nor `tasks`"),
    ] {
        let found = refused(&text(more, fields));
        assert!(found.contains(expected), "{found}\nnot: {expected}");
    }
}

#[test]
fn parse_refuses_hosts_that_no_links_join() {
    let text = r#"
title = "islands"
duration = "1 s"
[topology.graph]
hosts = ["a", "b"]
routers = ["r"]
links = [{ name = "x", from = "a", to = "r", link = { rate = "1G" } }, { name = "y", from = "r", to = "b", one_way = true, link = {} }]
[[flows]]
name = "f"
protocol = "gtp"
from = "a"
to = "b"
"#;
    assert!(refused(text).starts_with("s.toml:12:6: no links lead there and back"), "{}", refused(text));
}

#[test]
fn parse_names_the_cell_that_is_wrong() {
    let text = format!("{STAR}\n[[sweep]]\nkey = \"flows.*.protocol\"\nvalues = [\"gtp\", \"gpt\"]\n");
    assert!(refused(&text).contains("with flows.*.protocol = gpt: there is no protocol"), "{}", refused(&text));
}

#[test]
fn parse_sweeps_are_cartesian_the_last_fastest() {
    let text = format!(
        "{STAR}\n[[sweep]]\ncases = [{{ name = \"a\" }}, {{ name = \"b\", set = {{ \"topology.star.access.rate\" = \"2G\" }} }}]\n\
         [[sweep]]\nkey = \"topology.star.senders.near.rtt\"\nrange = {{ from = 10, to = 20, steps = 2, unit = \"ms\" }}\n"
    );
    let scenario = Scenario::parse("s.toml", &text, &[]).unwrap();
    let cases: Vec<&str> = scenario.cells.iter().map(|cell| cell.case.as_str()).collect();
    assert_eq!(cases, ["a, rtt = 10 ms", "a, rtt = 20 ms", "b, rtt = 10 ms", "b, rtt = 20 ms"]);
    assert_eq!(scenario.cells[2].plan.flows[0].rtt.as_millis_f64(), 10.0);
}

#[test]
fn parse_swept_adds_dimensions_after_the_scenario_s_own() {
    let grid = [("record".to_owned(), vec!["10 ms".to_owned(), "20 ms".to_owned()])];
    let cases = |text: &str| -> Vec<String> {
        let scenario = Scenario::parse_swept("s.toml", text, &[], &grid).unwrap();
        assert!(scenario.cells.iter().all(|cell| cell.settings.last().is_some_and(|(key, _)| key == "record")));
        scenario.cells.into_iter().map(|cell| cell.case).collect()
    };
    assert_eq!(cases(STAR), ["record = 10 ms", "record = 20 ms"]);
    let inline = format!("sweep = [{{ cases = [{{ name = \"a\" }}, {{ name = \"b\" }}] }}]\n{STAR}");
    let tables = format!("{STAR}\n[[sweep]]\ncases = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n");
    assert_eq!(cases(&inline), ["a, record = 10 ms", "a, record = 20 ms", "b, record = 10 ms", "b, record = 20 ms"]);
    assert_eq!(cases(&tables), cases(&inline));
    let none = [("record".to_owned(), Vec::new())];
    let error = Scenario::parse_swept("s.toml", STAR, &[], &none).err().unwrap().to_string();
    assert!(error.contains("record is varied, but has no values"), "{error}");
}

#[test]
fn parse_set_changes_a_value_before_it_is_checked() {
    let set = [("flows.f2.start".to_owned(), "1 s".to_owned()), ("seed".to_owned(), "9".to_owned())];
    let scenario = Scenario::parse("s.toml", STAR, &set).unwrap();
    assert_eq!((scenario.seed, scenario.cells[0].plan.flows[1].start.as_secs_f64()), (9, 1.0));
    let set = [("flows.f3.start".to_owned(), "1 s".to_owned())];
    let error = Scenario::parse("s.toml", STAR, &set).err().unwrap().to_string();
    assert!(error.contains("there is no 'f3'; there are: f1, f2"), "{error}");
}

#[test]
fn parse_flows_by_pattern_and_number() {
    let text = r#"
title = "many"
duration = "1 s"
[topology.star]
access = { rate = "1G" }
senders = [{ name = "s*", count = 12, rtt = "10 ms", rtt_max = "120 ms", link = { rate = "1G" } }]
[[flows]]
name = "f*"
protocol = "gtp"
from = "s*"
to = "receiver"
spread = "600 ms"
[[flows]]
name = "p*"
count = 3
protocol = "gtp"
from = "s1"
to = "receiver"
"#;
    let scenario = Scenario::parse("s.toml", text, &[]).unwrap();
    let flows = &scenario.cells[0].plan.flows;
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "p1", "p2", "p3"]);
    assert_eq!((flows[11].rtt.as_millis_f64(), flows[11].start.as_secs_f64()), (120.0, 0.55));
}

mod robustness {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// For every content of the file: a scenario or an error, never a panic.
        #[test]
        fn parse_survives_any_damage(at in 0..STAR.len(), junk in "[\\[\\]{}=\"a-z0-9\\. *\n-]{0,12}", cut in 0usize..40) {
            let end = (at + cut).min(STAR.len());
            let _ = Scenario::parse("s.toml", &format!("{}{junk}{}", &STAR[..at], &STAR[end..]), &[]);
        }
    }
}
