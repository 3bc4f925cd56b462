use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A metric family as its text describes it.
#[derive(Debug, Default)]
struct Described {
    kind: String,
    unit: Option<String>,
    /// Name, labels and value of each sample.
    samples: Vec<(String, String, f64)>,
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads the text by the rules of OpenMetrics 1.0, as far as it uses them; it fails where it breaks them.
fn parse(text: &str) -> BTreeMap<String, Described> {
    let mut families: BTreeMap<String, Described> = BTreeMap::new();
    let mut current = String::new();
    let text = text.strip_suffix("# EOF\n").expect("the end is marked");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(is_name(name), "{line}");
            if name != current {
                assert!(!families.contains_key(name), "{name} comes in two pieces");
                name.clone_into(&mut current);
            }
            let family = families.entry(name.to_owned()).or_default();
            match word {
                "TYPE" => value.clone_into(&mut family.kind),
                "UNIT" => family.unit = Some(value.to_owned()),
                "HELP" => assert!(value.ends_with('.'), "{line}"),
                other => panic!("{other}"),
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) =
            name.split_once('{').map_or((name, ""), |(name, labels)| (name, labels.strip_suffix('}').unwrap()));
        let family = families.get_mut(&current).unwrap();
        let expected = match family.kind.as_str() {
            "counter" => format!("{current}_total"),
            "info" => format!("{current}_info"),
            "gauge" => current.clone(),
            kind => panic!("{kind}"),
        };
        assert_eq!(name, expected, "{line}");
        if let Some(unit) = &family.unit {
            assert!(current.ends_with(&format!("_{unit}")), "{current} has the unit {unit}");
        }
        family.samples.push((name.to_owned(), labels.to_owned(), value.parse().unwrap()));
    }
    families
}

#[test]
fn text_keeps_the_rules_of_openmetrics() {
    let families = parse(&encode(&Counters::default()).unwrap());
    assert!(families.values().all(|family| !family.samples.is_empty()));
    let labels: BTreeSet<&str> =
        families["inhaul_refusals"].samples.iter().map(|(_, labels, _)| labels.as_str()).collect();
    assert_eq!(labels.len(), Refusal::ALL.len());
    assert_eq!(families["inhaul_sent_bytes"].unit.as_deref(), Some("bytes"));
    assert!(families["process_resident_memory_bytes"].samples[0].2 > 1e5);
    assert!(families["process_cpu_seconds"].samples[0].2 >= 0.0);
    assert!(families["inhaul_build"].samples[0].1.contains(env!("CARGO_PKG_VERSION")));
}

/// Every word of `text` that is a metric of ours.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("inhaul_") || word.starts_with("process_")).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let families = parse(&encode(&Counters::default()).unwrap());
    let samples: BTreeSet<String> =
        families.values().flat_map(|family| &family.samples).map(|(name, _, _)| name.clone()).collect();
    let dashboard = include_str!("../../../service/dashboard.json");
    let _: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let alerts = include_str!("../../../service/alerts.yml");
    for (file, text) in [("dashboard", dashboard), ("alerts", alerts)] {
        let named = named(text);
        assert!(named.len() > 3, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&samples).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let document = include_str!("../../../docs/serve.md");
    let missing: Vec<_> = samples.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/serve.md lists all: {missing:?}");
    let unknown: Vec<_> = named(document).into_iter().filter(|name| !samples.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
