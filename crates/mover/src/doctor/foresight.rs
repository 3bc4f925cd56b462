//! Checks of what a receiver can foresee of this host, and of what more privilege would give.

use inhaul_udp::watch::{Availability, Source, survey};

use super::finding::Finding;

pub(super) fn look(note: &mut dyn FnMut(Finding)) {
    survey().into_iter().map(finding).for_each(note);
}

/// A source that says nothing holds nothing up, so it is unknown what it would have seen.
fn finding(seen: Availability) -> Finding {
    let check = match seen.source {
        Some(Source::Quota) => "foresight-quota",
        Some(Source::Switches) => "foresight-switches",
        Some(Source::RunDelay) => "foresight-run-delay",
        Some(Source::Competitors) => "foresight-competitors",
        Some(Source::Disk) => "foresight-disk",
        None => "foresight-priority",
    };
    // An ordinary priority is what most have, and does.
    let is_fine = seen.works || seen.source.is_none();
    let finding = if is_fine { Finding::ok(check, seen.found) } else { Finding::unknown(check, seen.found) };
    finding.fix(seen.more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn what_is_missing_is_unknown_and_says_what_would_help() {
        let seen = |source, works| Availability { source, works, found: "x".into(), more: vec!["do y".into()] };
        let missing = finding(seen(Some(Source::Switches), false));
        assert_eq!((missing.check, missing.verdict), ("foresight-switches", Verdict::Unknown));
        assert_eq!(missing.fix, ["do y"]);
        assert_eq!(finding(seen(Some(Source::Quota), true)).verdict, Verdict::Ok);
        assert_eq!(finding(seen(None, false)).verdict, Verdict::Ok);
    }
}
