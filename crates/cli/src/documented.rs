//! For tests: whether JSON has the fields that docs/json.md lists.

use std::collections::BTreeSet;

use serde::Serialize;

/// The paths of all fields in `value`, like `sources[].rtt_ms`.
fn fields(prefix: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                fields(&path, value, into);
            }
        }
        serde_json::Value::Array(items) if items.iter().any(serde_json::Value::is_object) => {
            for item in items {
                fields(&format!("{prefix}[]"), item, into);
            }
        }
        serde_json::Value::Array(_) => {
            into.insert(format!("{prefix}[]"));
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

/// The fields that docs/json.md lists in the table under `heading`.
fn documented(heading: &str) -> BTreeSet<String> {
    let document = include_str!("../docs/json.md");
    let section = document.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(field, _)| field.to_owned()).collect()
}

/// The value has exactly the fields that the table under `heading` lists.
pub(crate) fn assert_documented(heading: &str, value: &impl Serialize) {
    let mut found = BTreeSet::new();
    fields("", &serde_json::to_value(value).unwrap(), &mut found);
    assert_eq!(found, documented(heading), "{heading}");
}
