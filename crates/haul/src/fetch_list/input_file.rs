//! Reads the format of `aria2c --input-file`. Each line has the URIs of one file, with tabs between them. Indented
//! lines below it have its options, one on each line. Lines that begin with `#` are comments.

use super::item::{FetchListError, Item, add_checksum, add_mirrors, joined, locations, shown};
use inhaul_session::api::request::Known;

pub(super) fn read(text: &str) -> Result<Vec<Item>, FetchListError> {
    let mut items = Vec::new();
    let mut entry: Option<Entry> = None;
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let no_uri = FetchListError::Missing { line: number, what: "the URI that this option is for" };
            entry.as_mut().ok_or(no_uri)?.option(line.trim_start(), number)?;
        } else {
            items.extend(entry.replace(Entry::new(line, number)?).map(Entry::item).transpose()?);
        }
    }
    items.extend(entry.map(Entry::item).transpose()?);
    Ok(items)
}

/// A line of URIs and its options.
struct Entry {
    item: Item,
    out: Option<String>,
    dir: String,
}

impl Entry {
    fn new(uris: &str, line: usize) -> Result<Self, FetchListError> {
        let mut mirrors = Vec::new();
        for uri in uris.split('\t').filter(|uri| !uri.is_empty()) {
            if let Some(found) = locations(uri, line)? {
                add_mirrors(&mut mirrors, found, line)?;
            }
        }
        let Some(first) = mirrors.first() else {
            return Err(FetchListError::NoSource { line, path: shown(uris) });
        };
        let path = first.path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self { item: Item { line, path, mirrors, known: Known::default() }, out: None, dir: String::new() })
    }

    fn option(&mut self, text: &str, line: usize) -> Result<(), FetchListError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        match name {
            "out" => self.out = Some(value.to_owned()),
            // aria2 takes any directory; ours are beneath the destination, './' before them or not.
            "dir" => self.dir = value.trim_start_matches("./").trim_end_matches('/').to_owned(),
            "checksum" => {
                let (algorithm, digits) = value.split_once('=').unwrap_or((value, ""));
                if !add_checksum(&mut self.item.known, algorithm, digits, line)? {
                    return Err(FetchListError::UnknownChecksum { line, name: shown(algorithm) });
                }
            }
            _ => return Err(FetchListError::Unsupported { line, option: shown(name) }),
        }
        Ok(())
    }

    fn item(self) -> Result<Item, FetchListError> {
        let Self { item, out, dir } = self;
        if out.is_none() && item.path.is_empty() {
            return Err(FetchListError::Missing { line: item.line, what: "a name in the URI, or the option out" });
        }
        let name = out.unwrap_or_else(|| item.path.clone());
        Ok(Item { path: if dir == "." { name } else { joined(&dir, &name) }, ..item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::checksums::Algorithm;

    #[test]
    fn read_takes_mirrors_and_options() {
        let sum = "0f".repeat(32);
        let text = format!(
            "# mine\n\ninhaul://a/d/f\tinhaul://b:5/e/f\tftp://c/f\n  out=g\n\tdir=sub/deep/\n  checksum=sha-256={sum}\n\
             inhaul://a/tree/\r\ninhaul://a/x\n dir=./y\n"
        );
        let items = read(&text).unwrap();
        let paths: Vec<_> = items.iter().map(|item| (item.line, item.path.as_str())).collect();
        assert_eq!(paths, [(3, "sub/deep/g"), (7, "tree"), (8, "y/x")]);
        assert_eq!(
            items[0].mirrors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["inhaul://a:4321/d/f", "inhaul://b:5/e/f"]
        );
        assert_eq!(items[0].known.sums, [(Algorithm::Sha256, vec![0x0f; 32])]);
    }

    #[test]
    fn read_takes_weak_checksums_in_digits_and_in_base64() {
        let sum = |text: &str| read(&format!("inhaul://a/f\n checksum={text}\n")).unwrap().remove(0).known.sums;
        for text in [format!("md5={}", "ab".repeat(16)), "md5=q6urq6urq6urq6urq6urqw==".to_owned()] {
            assert_eq!(sum(&text), [(Algorithm::Md5, vec![0xab; 16])], "{text}");
        }
        assert_eq!(sum("adler32=091e01de"), [(Algorithm::Adler32, vec![0x09, 0x1e, 0x01, 0xde])]);
    }

    #[test]
    fn read_refuses_by_name_and_line() {
        let unsupported = |line, option: &str| Err(FetchListError::Unsupported { line, option: option.to_owned() });
        assert_eq!(read("inhaul://a/f\n  split=5\n"), unsupported(2, "split"));
        let error = read("inhaul://a/f\n checksum=sha3-256=00\n").unwrap_err();
        assert_eq!(error, FetchListError::UnknownChecksum { line: 2, name: "sha3-256".to_owned() });
        assert!(error.to_string().contains("sha256, sha1, md5"), "{error}");
        assert!(matches!(read("inhaul://a/f\n checksum=md5=00\n"), Err(FetchListError::BadValue { line: 2, .. })));
        assert!(matches!(read(" out=f\n"), Err(FetchListError::Missing { line: 1, .. })));
        assert!(matches!(read("inhaul://a/\n"), Err(FetchListError::Missing { line: 1, .. })));
        assert!(matches!(read("#\nftp://a/f\n"), Err(FetchListError::NoSource { line: 2, .. })));
        assert!(matches!(read("inhaul://a:x/f\n"), Err(FetchListError::BadUrl { line: 1, .. })));
    }
}
