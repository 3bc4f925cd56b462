//! Sources that are no inhaul servers, by their URLs.

use inhaul_base::byte_text::text_of;

/// The schemes of sources that are read by ranges, and the ports of their servers.
const SCHEMES: [(&str, u16); 4] = [("http", 80), ("https", 443), ("s3", 443), ("file", 0)];
#[cfg(any(test, feature = "testing"))]
const TEST_SCHEME: (&str, u16) = ("fake", 0);

/// The scheme of a URL that names such a source, and what stands behind `://`.
fn scheme_of(text: &str) -> Option<(&'static str, u16, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    #[cfg(any(test, feature = "testing"))]
    if scheme == TEST_SCHEME.0 {
        return Some((TEST_SCHEME.0, TEST_SCHEME.1, rest));
    }
    SCHEMES.iter().find(|(known, _)| *known == scheme).map(|&(known, port)| (known, port, rest))
}

/// Whether a text names a source that is read by ranges.
pub(super) fn is_ranges_url(text: &str) -> bool {
    scheme_of(text).is_some()
}

/// Cuts a text of several sources at the commas behind which a URL of such a source begins.
pub(super) fn split_urls(text: &str) -> Vec<&str> {
    let begins = |at: &usize| text[..*at].ends_with(',') && is_ranges_url(&text[*at..]);
    let starts: Vec<usize> = (1..text.len()).filter(|at| text.is_char_boundary(*at)).filter(begins).collect();
    let mut parts = Vec::new();
    let mut from = 0;
    for start in starts {
        parts.push(&text[from..start - 1]);
        from = start;
    }
    parts.push(&text[from..]);
    parts
}

/// A `%` is not followed by two hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a % is not followed by two hexadecimal digits")]
pub struct BadPath;

/// The host of such a URL, and its port or that of the scheme; `None` if it is none.
pub(super) fn host_of(text: &str) -> Option<(&str, u16)> {
    let (_, port, rest) = scheme_of(text)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let named = host.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = named.filter(|_| !host.ends_with(']')).unwrap_or((host, port));
    Some((host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// The name of the file that a URL names, as text of any bytes.
///
/// # Errors
/// When it cannot be read.
pub fn file_name(url: &str) -> Result<String, BadPath> {
    if let Some((_, key)) = url.strip_prefix("s3://").and_then(|rest| rest.split_once('/')) {
        // A key is named as it is.
        return Ok(text_of(key.rsplit('/').next().unwrap_or_default().as_bytes()));
    }
    let path = url.split_once("://").map_or(url, |(_, rest)| rest).split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once('/').map_or("", |(_, path)| path);
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = decode_path(name)?;
    Ok(if name.contains('/') { text_of(name.replace('/', "_").as_bytes()) } else { name })
}

/// Resolves `%xx`, as in other URLs. What it stands for may be any byte.
///
/// # Errors
/// When a `%` is not followed by two hexadecimal digits.
pub fn decode_path(path: &str) -> Result<String, BadPath> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>().ok_or(BadPath)?;
        let digits = std::str::from_utf8(digits).map_err(|_| BadPath)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BadPath);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| BadPath)?);
        rest = after;
    }
    Ok(text_of(&bytes))
}

/// A URL as it may be shown and logged: a user's name, a password and a query may be secrets.
pub(crate) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let bare = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = bare.find('/').map_or((bare, ""), |at| bare.split_at(at));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_urls_cuts_only_where_a_url_begins() {
        assert_eq!(split_urls("inhaul://a,b/f#x,y"), ["inhaul://a,b/f#x,y"]);
        assert_eq!(
            split_urls("inhaul://a,b/f,g,file:///x,y,file:///z"),
            ["inhaul://a,b/f,g", "file:///x,y", "file:///z"]
        );
    }

    #[test]
    fn names_and_hosts_are_read_and_secrets_are_not_shown() {
        assert_eq!(host_of("https://me@h:1/x"), Some(("h", 1)));
        assert_eq!(host_of("https://[::1]/x"), Some(("::1", 443)));
        assert_eq!(host_of("http://[::1]:81/x"), Some(("::1", 81)));
        assert_eq!(file_name("file:///data/set%201.bin").unwrap(), "set 1.bin");
        assert_eq!(file_name("s3://bucket/run?1/50%25").unwrap(), "50%25", "a key is named as it is");
        assert_eq!(without_secrets("https://me:pass@host:8443/a/b?sig=1#x"), "https://host:8443/a/b");
        assert_eq!(file_name("file:///data/"), Ok(String::new()));
        assert_eq!(file_name("file:///50%"), Err(BadPath));
    }
}
