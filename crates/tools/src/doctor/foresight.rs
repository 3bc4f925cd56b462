//! Checks of what a receiver can foresee of this host, and of what more privilege would give.

use std::io;

use inhaul_udp::watch::{Availability, Source, survey, tcp_sockets_seen};

use super::finding::Finding;

pub(super) fn look(note: &mut dyn FnMut(Finding)) {
    survey().into_iter().map(finding).for_each(&mut *note);
    note(host_tcp(tcp_sockets_seen()));
}

/// Whether a receiver sees what this host fetches over TCP, to share with them.
fn host_tcp(seen: io::Result<usize>) -> Finding {
    match seen {
        Ok(count) => Finding::ok("host-tcp", format!("{count} TCP connections of this host to others are seen")),
        Err(error) => Finding::unknown("host-tcp", format!("this host's TCP connections are not seen: {error}"))
            .fix(vec!["allow sockets of NETLINK_SOCK_DIAG in the filter of system calls".to_owned()]),
    }
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
    fn a_host_whose_tcp_is_not_seen_is_told_what_refuses() {
        assert_eq!(host_tcp(Ok(3)).verdict, Verdict::Ok);
        let refused = host_tcp(Err(io::Error::from(io::ErrorKind::PermissionDenied)));
        assert_eq!((refused.check, refused.verdict, refused.fix.len()), ("host-tcp", Verdict::Unknown, 1));
    }

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
