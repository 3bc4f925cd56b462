//! Quantities in words: what figures and pages say instead of the program's own names.

use crate::repetitions::statistic;

/// `flows.flow1.goodput_bps[1..2]` is `flow1: goodput from 1 to 2 s`.
pub(crate) fn quantity_words(path: &str) -> String {
    if let Some((statistic, quantity)) = statistic(path) {
        return format!("{} of {}", statistic_words(statistic), quantity_words(quantity));
    }
    if let Some(scale) = path.strip_prefix("metrics.jain_at.") {
        return format!("Jain's index at {scale} s");
    }
    let (path, window) = match path.strip_suffix(']').and_then(|path| path.split_once('[')) {
        Some((path, window)) => (path, format!(" from {} s", window.replace("..", " to "))),
        None => (path, String::new()),
    };
    let words = match owner(path) {
        Some((name, field)) => format!("{name}: {}", field_words(field)),
        None => metric_words(path).to_owned(),
    };
    words + &window
}

/// What several quantities are together: `Goodput` of two flows; `Value` if they are not of a kind.
pub(crate) fn kind_words(paths: &[String]) -> String {
    if let [path] = paths {
        return quantity_words(path);
    }
    let kind = |path: &String| {
        let words = owner(path.split('[').next()?).map(|(_, field)| field_words(field))?;
        let (first, rest) = words.split_at_checked(1)?;
        Some(first.to_uppercase() + rest)
    };
    let kinds: Vec<_> = paths.iter().map(kind).collect();
    match kinds.first() {
        Some(Some(first)) if kinds.iter().all(|kind| kind.as_ref() == Some(first)) => first.clone(),
        _ => "Value".to_owned(),
    }
}

/// Whose it is, and which of its fields.
fn owner(path: &str) -> Option<(String, &str)> {
    let (kind, rest) = path.split_once('.')?;
    let (name, field) = rest.rsplit_once('.')?;
    let name = match kind {
        "flows" => name.to_owned(),
        "groups" => format!("{name} together"),
        "links" => format!("link {name}"),
        _ => return None,
    };
    Some((name, field))
}

fn statistic_words(statistic: &str) -> &str {
    match statistic {
        "deviation" => "standard deviation",
        "low99" => "lower end of the 99 % confidence interval",
        "high99" => "upper end of the 99 % confidence interval",
        other => other,
    }
}

fn metric_words(path: &str) -> &str {
    match path {
        "metrics.aggregate_goodput_bps" => "Aggregate goodput",
        "metrics.aggregate_over_ideal" => "Aggregate over max-min ideal",
        "metrics.jain_index" => "Jain's index",
        "metrics.jain_index_ideal" => "Jain's index against the ideal",
        "metrics.min_max_ratio" => "Smallest rate over largest",
        "metrics.loss_ratio" => "Loss",
        "metrics.convergence_s" => "Time to converge",
        "metrics.convergence_mean_s" => "Mean time to converge",
        "metrics.converged_ratio" => "Epochs that converged",
        "metrics.stability_index" => "Stability index (0: constant rates)",
        "metrics.influence_ratio" => "What is left to TCP (influence ratio)",
        "metrics.sender_cpu_s_per_gb" => "Processor seconds for 1 GB, senders",
        "metrics.receiver_cpu_s_per_gb" => "Processor seconds for 1 GB, receivers",
        other => other,
    }
}

fn field_words(field: &str) -> &str {
    match field {
        "goodput_bps" | "measured_bps" => "goodput",
        "ideal_bps" => "max-min fair share",
        "over_ideal" => "goodput over the fair share",
        "share" => "part of what all flows have",
        "deviation_bps" => "standard deviation of goodput over time",
        "maximum_bps" => "largest goodput",
        "of_rest" => "goodput over what others leave",
        "loss_ratio" => "loss",
        "duration_s" => "duration",
        "held_s" => "time held",
        "jain_index" => "Jain's index",
        "drop_ratio" => "packets dropped",
        "marked_packets" => "packets marked (ECN)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_words_read_every_kind_of_path() {
        let words = [
            ("metrics.jain_index", "Jain's index"),
            ("metrics.jain_at.50", "Jain's index at 50 s"),
            ("flows.flow1.goodput_bps[1..2.5]", "flow1: goodput from 1 to 2.5 s"),
            ("flows.a.b.of_rest", "a.b: goodput over what others leave"),
            ("groups.TCP.loss_ratio", "TCP together: loss"),
            ("links.access.utilisation", "link access: utilisation"),
            ("metrics.min_max_ratio", "Smallest rate over largest"),
            ("deviation(flows.f.duration_s)", "standard deviation of f: duration"),
            ("something", "something"),
        ];
        for (path, expected) in words {
            assert_eq!(quantity_words(path), expected);
        }
    }

    #[test]
    fn kind_words_are_what_all_have_in_common() {
        let of = |paths: &[&str]| kind_words(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["flows.a.measured_bps", "groups.b.measured_bps", "flows.c.goodput_bps[1..2]"]), "Goodput");
        assert_eq!(of(&["flows.a.measured_bps"]), "a: goodput");
        assert_eq!(of(&["flows.a.measured_bps", "flows.a.loss_ratio"]), "Value");
        assert_eq!(of(&["metrics.jain_index", "metrics.loss_ratio"]), "Value");
        assert_eq!(of(&[]), "Value");
    }
}
