//! Prometheus's own text format, version 0.0.4, for requests that ask for it: older than OpenMetrics, and nearly the
//! same.

/// Of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a request, by its head, wants this format rather than OpenMetrics (RFC 9110 12.5.1). A request that accepts
/// both gets OpenMetrics.
pub(super) fn is_wanted(head: &str) -> bool {
    let values = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    let accept = values.filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept"));
    let ranges: Vec<&str> = accept.flat_map(|(_, value)| value.split(',')).collect();
    !ranges.is_empty() && quality(&ranges, "text", "plain") > quality(&ranges, "application", "openmetrics-text")
}

/// The quality value of a media type, in thousandths. A range that names the type precedes one that includes it.
fn quality(ranges: &[&str], kind: &str, subkind: &str) -> u32 {
    let mut best = (0, 0);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let is = |part: &str, name: &str| part.eq_ignore_ascii_case(name);
        let fit = match parts.next().and_then(|name| name.split_once('/')) {
            Some((a, b)) if is(a, kind) && is(b, subkind) => 3,
            Some((a, "*")) if is(a, kind) => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let said = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let quality = said.map_or(1.0, |text| text.trim().parse::<f64>().unwrap_or(0.0));
        best = best.max((fit, (quality.clamp(0.0, 1.0) * 1000.0) as u32));
    }
    best.1
}

/// Our OpenMetrics text in this format: a family is named as its samples are, and there are no units and no end.
pub(super) fn of_openmetrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        let Some(said) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let mut words = said.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(_), rest) => help = rest,
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (name, kind) = match kind {
                    "counter" => (format!("{name}_total"), kind),
                    "info" => (format!("{name}_info"), "gauge"),
                    _ => (name.to_owned(), kind),
                };
                if let Some(help) = help.take() {
                    out.push_str(&format!("# HELP {name} {help}\n"));
                }
                out.push_str(&format!("# TYPE {name} {kind}\n"));
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> bool {
        is_wanted(&format!("GET /metrics HTTP/1.1\r\nHost: a\r\nACCEPT: {accept}\r\n\r\n"))
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        for accept in [
            "text/plain",
            "text/plain;version=0.0.4",
            "text/plain; version=0.0.4; charset=utf-8, */*; q=0.1",
            "application/openmetrics-text;q=0, */*",
            "application/openmetrics-text; q=0.3, text/*;q=0.5",
        ] {
            assert!(wanted(accept), "{accept}");
        }
        for accept in [
            "*/*",
            "",
            "application/json",
            "text/html",
            "application/openmetrics-text",
            // What Prometheus itself sends, of several releases.
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "text/plain;q=nonsense",
        ] {
            assert!(!wanted(accept), "{accept}");
        }
        assert!(!is_wanted("GET /metrics HTTP/1.1\r\n\r\n"), "nothing is asked for");
    }

    #[test]
    fn any_head_is_taken() {
        let head = b"GET /metrics HTTP/1.1\r\nAccept: text/*;q=0.5 , application/openmetrics-text; q=1e9,*/*;q=-1\r\n";
        let mut mutator = inhaul_fuzz::Mutator::new(1, 0, vec![head.to_vec()]);
        let wanted = (0..2000).filter(|_| is_wanted(&String::from_utf8_lossy(&mutator.next_input()))).count();
        assert!(0 < wanted && wanted < 2000, "{wanted}");
    }

    #[test]
    fn families_are_named_as_their_samples_are() {
        let open = "# HELP a Bytes.\n# TYPE a counter\n# UNIT a bytes\na_total{of=\"x\"} 1\na_total{of=\"y\"} 2\n\
                    # HELP b Open.\n# TYPE b gauge\nb 3\n# HELP c The program.\n# TYPE c info\nc_info{version=\"1\"} 1\n# EOF\n";
        let plain = "# HELP a_total Bytes.\n# TYPE a_total counter\na_total{of=\"x\"} 1\na_total{of=\"y\"} 2\n\
                     # HELP b Open.\n# TYPE b gauge\nb 3\n# HELP c_info The program.\n# TYPE c_info gauge\nc_info{version=\"1\"} 1\n";
        assert_eq!(of_openmetrics(open), plain);
    }
}
