//! What a server's head says, and whether it is what was asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use inhaul_base::ByteRange;

use super::client::{Failure, Found};

/// Longest time of `Retry-After` that is worth reading.
const RETRY_MAX: Duration = Duration::from_secs(24 * 3600);

/// The version of a file, as far as its server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    etag: Option<String>,
    modified: Option<String>,
}

/// What the first answer says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) size: u64,
    /// It can be read at any place.
    pub(super) has_ranges: bool,
    pub(super) version: Version,
}

impl Version {
    fn of(found: &Found) -> Self {
        let text = |name| found.header(name).map(str::to_owned);
        Self { etag: text("etag"), modified: text("last-modified") }
    }

    /// What a request says so that no other version comes: a strong ETag. Servers answer a weak one, or a time, with the
    /// whole file.
    pub(super) fn condition(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// It in words, if the server says anything of it.
    pub(super) fn text(&self) -> Option<String> {
        self.etag.clone().or_else(|| self.modified.clone())
    }

    /// Whether an answer is of the same version, as far as both say.
    fn is_same(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        same(&self.etag, &other.etag) && (self.etag.is_some() || same(&self.modified, &other.modified))
    }

    /// When the file was changed last, as seconds and nanoseconds since 1970; 1970 if the server does not say. Servers know
    /// no nanoseconds: they stand for the ETag here, so that a transfer that is continued later tells another version. If a
    /// server says nothing at all of versions, each time counts as another.
    pub(super) fn modified(&self) -> (i64, i64) {
        let at = self.modified.as_deref().and_then(|text| httpdate::parse_http_date(text).ok());
        let since = at.and_then(|at: SystemTime| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let mark = match (&self.etag, at) {
            (Some(etag), _) => digest::digest(&digest::SHA256, etag.as_bytes()).as_ref().to_vec(),
            (None, Some(_)) => vec![0; 8],
            (None, None) => {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes().to_vec()
            }
        };
        let nanos = mark.iter().take(8).fold(0u64, |sum, &byte| sum.rotate_left(8) ^ u64::from(byte)) % 1_000_000_000;
        (i64::try_from(since.as_secs()).unwrap_or(0), nanos as i64)
    }
}

/// The parts of `Content-Range: bytes FIRST-LAST/TOTAL`, or of `bytes */TOTAL`.
fn content_range(found: &Found) -> Option<(Option<ByteRange>, Option<u64>)> {
    let text = found.header("content-range")?.trim();
    let (unit, rest) = text.split_once(' ')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (range, total) = rest.trim().split_once('/')?;
    let total = total.trim().parse().ok();
    if range.trim() == "*" {
        return Some((None, total));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let end = last.checked_add(1).filter(|end| first < *end)?;
    Some((Some(ByteRange::new(first, end)), total))
}

/// That a body is not as it is kept.
fn check_coding(found: &Found) -> Result<(), Failure> {
    match found.header("content-encoding").map(str::trim) {
        None | Some("" | "identity") => Ok(()),
        Some(coding) => Err(Failure::Rules(format!("it sends the file as {coding}, which cannot be read by ranges"))),
    }
}

fn length(found: &Found) -> Option<u64> {
    found.header("content-length")?.trim().parse().ok()
}

impl Answer {
    /// Of the answer to a request for the first byte.
    pub(super) fn of_first(found: &Found) -> Result<Self, Failure> {
        let version = Version::of(found);
        match found.status() {
            206 => {
                check_coding(found)?;
                let (range, total) = content_range(found).ok_or_else(|| bad_range(found))?;
                if range != Some(ByteRange::new(0, 1)) {
                    return Err(bad_range(found));
                }
                let unknown = || Failure::Rules("it does not say how long the file is".to_owned());
                Ok(Self { size: total.filter(|&total| total > 0).ok_or_else(unknown)?, has_ranges: true, version })
            }
            200 => {
                check_coding(found)?;
                let unknown = || Failure::Rules("it does not say how long the file is".to_owned());
                Ok(Self { size: length(found).ok_or_else(unknown)?, has_ranges: false, version })
            }
            // There is no first byte.
            416 if content_range(found) == Some((None, Some(0))) => Ok(Self { size: 0, has_ranges: true, version }),
            _ => Err(refusal(found)),
        }
    }

    /// Checks the answer to a request for `range` of a file of `size` bytes: which part of it comes. It begins where it
    /// should, and may end earlier.
    pub(super) fn check_range(
        found: &Found,
        range: ByteRange,
        size: u64,
        version: &Version,
    ) -> Result<ByteRange, Failure> {
        match found.status() {
            206 => {}
            // It would be the file's beginning.
            200 => return Err(Failure::Rules("it sends the whole file where a part was asked for".to_owned())),
            412 | 416 => return Err(Failure::Changed),
            _ => return Err(refusal(found)),
        }
        check_coding(found)?;
        let (part, total) = content_range(found).ok_or_else(|| bad_range(found))?;
        let part = part.filter(|part| part.start == range.start && part.end <= range.end);
        let part = part.ok_or_else(|| bad_range(found))?;
        if total.is_some_and(|total| total != size) || !version.is_same(&Version::of(found)) {
            return Err(Failure::Changed);
        }
        if length(found).is_some_and(|length| length != part.len()) {
            return Err(bad_range(found));
        }
        Ok(part)
    }

    /// Checks the answer to a request for the whole file.
    pub(super) fn check_whole(found: &Found, size: u64, version: &Version) -> Result<(), Failure> {
        if found.status() != 200 {
            return Err(refusal(found));
        }
        check_coding(found)?;
        if length(found) != Some(size) || !version.is_same(&Version::of(found)) {
            return Err(Failure::Changed);
        }
        Ok(())
    }
}

fn bad_range(found: &Found) -> Failure {
    let said = found.header("content-range").unwrap_or("nothing");
    Failure::Rules(format!("it sends another part of the file than was asked for ({said})"))
}

/// Why there is no part of the file in an answer.
pub(super) fn refusal(found: &Found) -> Failure {
    let detail = format!("it answers {}", found.status_text());
    match found.status() {
        401 | 403 | 407 => Failure::NoRight(detail),
        404 | 410 => Failure::NotFound(detail),
        408 | 425 | 429 | 500 | 502..=504 => Failure::Busy { detail, after: retry_after(found) },
        _ => Failure::Rules(detail),
    }
}

/// How long the server wants to be left alone (RFC 9110 10.2.3): seconds, or until a date.
fn retry_after(found: &Found) -> Option<Duration> {
    let text = found.header("retry-after")?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    (wait <= RETRY_MAX).then_some(wait)
}
