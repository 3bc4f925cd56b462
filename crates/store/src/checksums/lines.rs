//! The lines of a list.

use std::collections::BTreeSet;

use super::algorithm::{Algorithm, hexadecimal, read_sum, to_hexadecimal};
use super::bagit;
use super::error::ChecksumsError;
use super::list::{Checksums, FileSum, Format, is_beneath};
use crate::Kind;

const HEAD: &str = "# inhaul manifest ";
const ROOT: &str = "# root ";

/// Longest algorithm name that an error message repeats.
const NAME_MAX: usize = 24;

/// The content of a line; `None`: it has another form.
type Parsed = Result<Option<(Algorithm, FileSum)>, ChecksumsError>;

impl Checksums {
    /// Reads a list of any form: ours, the coreutils', BSD's (`MD5 (PATH) = ...`), `md5:DIGITS PATH`, or SFV's (`PATH
    /// DIGITS`). A checksum without an algorithm's name is taken as `assumed` if that has its length, or else as the
    /// most common algorithm of that length. The bytes may be anything.
    ///
    /// When a line has none of these forms; when its algorithm is not supported or ambiguous; when a path leads out of
    /// the directory or occurs twice; or when the hash of the whole does not match.
    pub fn read(bytes: &[u8], assumed: Option<Algorithm>) -> Result<Self, ChecksumsError> {
        let is_ours = bytes.starts_with(HEAD.as_bytes());
        let (format, body, before) = if is_ours { head(bytes)? } else { (Format::Sums, bytes, 0) };
        let mut algorithm = None;
        let mut files = Vec::new();
        let mut paths = BTreeSet::new();
        for (index, line) in body.split(|&byte| byte == b'\n').enumerate() {
            let number = before + index + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            // SFV's comments begin with a semicolon.
            if line.is_empty() || (!is_ours && line.starts_with(b"#")) || (!is_ours && line.starts_with(b";")) {
                continue;
            }
            let parsed = if is_ours { sized(line) } else { foreign(line, number, assumed)? };
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
        Ok(Self { format, algorithm, files })
    }

    /// The list as bytes, for [`Checksums::read`] and for other tools of the format.
    pub fn write(&self) -> Vec<u8> {
        match self.format {
            Format::Inhaul(kind) => {
                let kind = if kind == Kind::File { "file" } else { "directory" };
                let head = format!("{HEAD}1 {kind}\n{ROOT}{}\n", self.root().to_hex());
                [head.into_bytes(), body(&self.files)].concat()
            }
            Format::Sums => {
                let mut out = Vec::new();
                self.files.iter().for_each(|listed| put_line(&mut out, listed, "  "));
                out
            }
            Format::BagIt => bagit::write(&self.files),
        }
    }

    /// The hash of the whole: two data sets with the same hash are the same. It is computed over the lines of
    /// [`Format::Inhaul`].
    pub fn root(&self) -> blake3::Hash {
        blake3::hash(&body(&self.files))
    }
}

/// The head of our own list: its kind, the following lines, and the number of lines before them.
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

/// A line of a list that another tool wrote.
fn foreign(line: &[u8], number: usize, assumed: Option<Algorithm>) -> Parsed {
    if let Some(found) = tagged(line, number)? {
        return Ok(Some(found));
    }
    match plain(line, number, assumed)? {
        Some(found) => Ok(Some(found)),
        None => Ok(trailing(line, assumed)),
    }
}

/// `HASH  PATH`, or `HASH *PATH` for a file read as binary, as md5sum, sha256sum and b3sum write; and `md5:HASH PATH`,
/// as archives and grids write.
fn plain(line: &[u8], number: usize, assumed: Option<Algorithm>) -> Parsed {
    let (is_escaped, line) = escape_mark(line);
    let Some(end) = line.iter().position(|&byte| byte == b' ' || byte == b'\t') else { return Ok(None) };
    let (first, rest) = line.split_at(end);
    let (name, digits) = match first.iter().position(|&byte| byte == b':') {
        Some(at) => (Some(&first[..at]), &first[at + 1..]),
        None => (None, first),
    };
    if is_of_parts(digits) {
        return Err(ChecksumsError::OfParts(number));
    }
    let Some(checksum) = read_sum(digits) else { return Ok(None) };
    let algorithm = match name {
        Some(name) => named(name, number)?.filter(|algorithm| algorithm.bytes() == checksum.len()),
        None => by_length(checksum.len(), number, assumed)?,
    };
    let Some(algorithm) = algorithm else { return Ok(None) };
    let path = match rest {
        [b' ', b' ' | b'*', path @ ..] => path,
        // BagIt allows any blanks here (RFC 8493 2.1.3).
        _ => rest.trim_ascii_start(),
    };
    let path = unescape(path, is_escaped).map(without_dot);
    Ok(path.map(|path| (algorithm, FileSum { path, size: None, checksum })))
}

/// Whether it is S3's checksum of a multipart upload: `DIGITS-17`.
fn is_of_parts(digits: &[u8]) -> bool {
    let text = str::from_utf8(digits).ok().and_then(|text| text.trim_matches('"').rsplit_once('-'));
    text.is_some_and(|(sum, parts)| {
        let is_number = !parts.is_empty() && parts.len() <= 5 && parts.bytes().all(|byte| byte.is_ascii_digit());
        is_number && sum.len() >= 24 && read_sum(sum.as_bytes()).is_some()
    })
}

/// `SHA256 (PATH) = HASH`, as `--tag` and BSD write; and `SHA2-256(PATH)= HASH`, as `openssl dgst` writes.
fn tagged(line: &[u8], number: usize) -> Parsed {
    let (is_escaped, line) = escape_mark(line);
    match between(line, b" (", b") = ") {
        Some(parts) => tagged_by(parts, is_escaped, number),
        None => between(line, b"(", b")= ").map_or(Ok(None), |parts| tagged_by(parts, is_escaped, number)),
    }
}

/// The parts before the first `open`, between it and the last `close`, and after that.
fn between<'l>(line: &'l [u8], open: &[u8], close: &[u8]) -> Option<[&'l [u8]; 3]> {
    let start = line.windows(open.len()).position(|window| window == open)?;
    let end = line.windows(close.len()).rposition(|window| window == close)?;
    (start + open.len() <= end).then(|| [&line[..start], &line[start + open.len()..end], &line[end + close.len()..]])
}

fn tagged_by([name, path, digits]: [&[u8]; 3], is_escaped: bool, number: usize) -> Parsed {
    let Some(checksum) = read_sum(digits) else { return Ok(None) };
    let Some(algorithm) = named(name, number)? else { return Ok(None) };
    // It names its algorithm, so it has no other form.
    let wrong = ChecksumsError::Line(number);
    let path = unescape(path, is_escaped).map(without_dot);
    let path = path.filter(|_| checksum.len() == algorithm.bytes()).ok_or(wrong)?;
    Ok(Some((algorithm, FileSum { path, size: None, checksum })))
}

/// `PATH DIGITS`, as in the format SFV, and from tools that put the name first.
fn trailing(line: &[u8], assumed: Option<Algorithm>) -> Option<(Algorithm, FileSum)> {
    let at = line.iter().rposition(|&byte| byte == b' ' || byte == b'\t')?;
    let checksum = hexadecimal(&line[at + 1..]).filter(|sum| sum.len() == Algorithm::Crc32.bytes())?;
    let algorithm = assumed.filter(|assumed| assumed.bytes() == checksum.len()).unwrap_or(Algorithm::Crc32);
    let path = without_dot(line[..at].trim_ascii_end().to_vec());
    Some((algorithm, FileSum { path, size: None, checksum }))
}

/// The algorithm of this name; `None`: it is not a name.
fn named(name: &[u8], number: usize) -> Result<Option<Algorithm>, ChecksumsError> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/');
    let word = str::from_utf8(name).ok().filter(|_| !name.is_empty() && name.iter().all(is_word));
    let Some(word) = word.filter(|word| word.len() <= NAME_MAX) else { return Ok(None) };
    let unsupported = || ChecksumsError::Unsupported { line: number, name: word.to_owned() };
    Algorithm::named(word).ok_or_else(unsupported).map(Some)
}

/// The algorithm of an unnamed checksum of this length.
fn by_length(bytes: usize, number: usize, assumed: Option<Algorithm>) -> Result<Option<Algorithm>, ChecksumsError> {
    if let Some(assumed) = assumed.filter(|assumed| assumed.bytes() == bytes) {
        return Ok(Some(assumed));
    }
    let unsupported = |name: &str| Err(ChecksumsError::Unsupported { line: number, name: name.to_owned() });
    match bytes {
        4 => Err(ChecksumsError::Unnamed(number)),
        8 => Ok(Some(Algorithm::Crc64Nvme)),
        16 => Ok(Some(Algorithm::Md5)),
        20 => Ok(Some(Algorithm::Sha1)),
        28 => unsupported("SHA-224"),
        32 => Ok(Some(Algorithm::Sha256)),
        48 => unsupported("SHA-384"),
        64 => Ok(Some(Algorithm::Sha512)),
        _ => Ok(None),
    }
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

/// The lines that [`Checksums::root`] hashes.
fn body(files: &[FileSum]) -> Vec<u8> {
    let mut out = Vec::new();
    for listed in files {
        put_line(&mut out, listed, &format!(" {} ", listed.size.unwrap_or_default()));
    }
    out
}
