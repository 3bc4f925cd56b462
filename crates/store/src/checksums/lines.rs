//! The lines of a list.

use std::collections::BTreeSet;

use super::{Algorithm, Checksums, ChecksumsError, FileSum, Format};
use crate::Kind;

const HEAD: &str = "# inhaul manifest ";
const ROOT: &str = "# root ";

pub(super) fn read(bytes: &[u8], of_64_digits: Algorithm) -> Result<Checksums, ChecksumsError> {
    let is_ours = bytes.starts_with(HEAD.as_bytes());
    let (format, body, before) = if is_ours { head(bytes)? } else { (Format::Sums, bytes, 0) };
    let mut algorithm = None;
    let mut files = Vec::new();
    let mut paths = BTreeSet::new();
    for (index, line) in body.split(|&byte| byte == b'\n').enumerate() {
        let number = before + index + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || (!is_ours && line.starts_with(b"#")) {
            continue;
        }
        let parsed = if is_ours { sized(line) } else { tagged(line).or_else(|| plain(line, of_64_digits)) };
        let (kind, listed) = parsed.ok_or(ChecksumsError::Line(number))?;
        if *algorithm.get_or_insert(kind) != kind {
            return Err(ChecksumsError::Mixed(number));
        }
        if !is_beneath(&listed.path) {
            return Err(ChecksumsError::Path(number));
        }
        if !paths.insert(listed.path.clone()) {
            return Err(ChecksumsError::Twice(number));
        }
        files.push(listed);
    }
    let algorithm = match algorithm {
        Some(algorithm) => algorithm,
        None if is_ours => Algorithm::Blake3,
        None => return Err(ChecksumsError::Empty),
    };
    Ok(Checksums { format, algorithm, files })
}

/// The head of one of ours: its kind, the lines that follow, and how many came before them.
fn head(bytes: &[u8]) -> Result<(Format, &[u8], usize), ChecksumsError> {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let mut line = |number| {
        let line = lines.next().and_then(|line| std::str::from_utf8(line).ok());
        line.ok_or(ChecksumsError::Line(number))
    };
    let kind = match line(1)?.strip_prefix(HEAD).map(str::trim_end) {
        Some("1 directory") => Kind::Directory,
        Some("1 file") => Kind::File,
        _ => return Err(ChecksumsError::Version),
    };
    let root = line(2)?.strip_prefix(ROOT).map(str::trim_end).ok_or(ChecksumsError::Line(2))?;
    let body = lines.next().unwrap_or_default();
    if blake3::hash(body).to_hex().as_str() != root {
        return Err(ChecksumsError::Root);
    }
    Ok((Format::Inhaul(kind), body, 2))
}

/// `HASH SIZE PATH`, as we write it.
fn sized(line: &[u8]) -> Option<(Algorithm, FileSum)> {
    let (is_escaped, line) = escape_mark(line);
    let mut fields = line.splitn(3, |&byte| byte == b' ');
    let checksum = hexadecimal(fields.next()?).filter(|sum| sum.len() == 32)?;
    let size = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = unescape(fields.next()?, is_escaped)?;
    Some((Algorithm::Blake3, FileSum { path, size: Some(size), checksum }))
}

/// `HASH  PATH`, or `HASH *PATH` for what was read as binary: what sha256sum and b3sum write.
fn plain(line: &[u8], of_64_digits: Algorithm) -> Option<(Algorithm, FileSum)> {
    let (is_escaped, line) = escape_mark(line);
    let end = line.iter().position(|&byte| byte == b' ' || byte == b'\t')?;
    let (digits, rest) = line.split_at(end);
    let checksum = hexadecimal(digits)?;
    let algorithm = match checksum.len() {
        32 => of_64_digits,
        64 => Algorithm::Sha512,
        _ => return None,
    };
    let path = match rest {
        [b' ', b' ' | b'*', path @ ..] => path,
        // BagIt allows any blanks here (RFC 8493 2.1.3).
        _ => rest.trim_ascii_start(),
    };
    Some((algorithm, FileSum { path: without_dot(unescape(path, is_escaped)?), size: None, checksum }))
}

/// `SHA256 (PATH) = HASH`: what `--tag`, and BSD, write.
fn tagged(line: &[u8]) -> Option<(Algorithm, FileSum)> {
    let (is_escaped, line) = escape_mark(line);
    let tags = [("BLAKE3 (", Algorithm::Blake3), ("SHA256 (", Algorithm::Sha256), ("SHA512 (", Algorithm::Sha512)];
    let (rest, algorithm) = tags.iter().find_map(|(tag, kind)| Some((line.strip_prefix(tag.as_bytes())?, *kind)))?;
    let at = rest.windows(4).rposition(|window| window == b") = ")?;
    let checksum = hexadecimal(&rest[at + 4..]).filter(|sum| sum.len() == algorithm.bytes())?;
    Some((algorithm, FileSum { path: without_dot(unescape(&rest[..at], is_escaped)?), size: None, checksum }))
}

/// Whether the line is marked as having escapes in its path.
fn escape_mark(line: &[u8]) -> (bool, &[u8]) {
    match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    }
}

/// `find . -type f | xargs sha256sum` writes `./PATH`.
fn without_dot(path: Vec<u8>) -> Vec<u8> {
    path.strip_prefix(b"./").map(<[u8]>::to_vec).unwrap_or(path)
}

/// Whether a path names something beneath the directory that it is relative to.
pub(super) fn is_beneath(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

pub(super) fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, odd) = digits.as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(value(high)? << 4 | value(low)?)).collect()
}

pub(super) fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unescape(path: &[u8], is_escaped: bool) -> Option<Vec<u8>> {
    if !is_escaped {
        return Some(path.to_vec());
    }
    let mut plain = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(plain)
}

fn escape(path: &[u8]) -> Option<Vec<u8>> {
    let is_odd = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\\');
    path.iter().any(is_odd).then(|| {
        let mut escaped = Vec::with_capacity(path.len() + 8);
        for &byte in path {
            match byte {
                b'\n' => escaped.extend(b"\\n"),
                b'\r' => escaped.extend(b"\\r"),
                b'\\' => escaped.extend(b"\\\\"),
                byte => escaped.push(byte),
            }
        }
        escaped
    })
}

/// Appends a line; `middle` stands between checksum and path.
fn put_line(out: &mut Vec<u8>, listed: &FileSum, middle: &str) {
    let escaped = escape(&listed.path);
    if escaped.is_some() {
        out.push(b'\\');
    }
    out.extend_from_slice(to_hexadecimal(&listed.checksum).as_bytes());
    out.extend_from_slice(middle.as_bytes());
    out.extend_from_slice(escaped.as_ref().unwrap_or(&listed.path));
    out.push(b'\n');
}

/// The lines that [`Checksums::root`] is the hash of.
pub(super) fn body(list: &Checksums) -> Vec<u8> {
    let mut out = Vec::new();
    for listed in &list.files {
        put_line(&mut out, listed, &format!(" {} ", listed.size.unwrap_or_default()));
    }
    out
}

pub(super) fn write(list: &Checksums) -> Vec<u8> {
    match list.format {
        Format::Inhaul(kind) => {
            let kind = if kind == Kind::File { "file" } else { "directory" };
            let head = format!("{HEAD}1 {kind}\n{ROOT}{}\n", list.root().to_hex());
            [head.into_bytes(), body(list)].concat()
        }
        Format::Sums => {
            let mut out = Vec::new();
            list.files.iter().for_each(|listed| put_line(&mut out, listed, "  "));
            out
        }
        Format::BagIt => super::bagit::write(&list.files),
    }
}
