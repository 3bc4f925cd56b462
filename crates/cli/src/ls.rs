//! `inhaul ls`: lists a server's files, for people, for programs, and as Metalink 4 for other programs.

use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};

use clap::Args;
use inhaul_base::byte_text::{bytes_of, quoted, text_of};
use inhaul_base::format_bytes;
use inhaul_lab::kept::utc;
use inhaul_mover::{Hash, Listed, ListedKind, NamedBy, Server, Source, is_obeyed, printable};
use serde::Serialize;

use crate::exit::Failure;
use crate::options::{self, OUTPUT, Security};
use crate::output::{note, to_json, warn};
use crate::trust;

pub(crate) const EXAMPLES: &str = "\
Examples:
  The items of a directory, and everything beneath it:
    inhaul ls dtn1/run7
    inhaul ls dtn1/run7 --recursive
  The files of a data set on two mirrors, for programs that read Metalink 4:
    inhaul ls dtn1,dtn2:5000/run7 --metalink --checksums > run7.meta4";

/// The command line of `inhaul ls`.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[arg(help = "What to list, as HOST[:PORT][,HOST[:PORT]...]/PATH; the first server that answers counts")]
    #[arg(value_name = "SOURCE", value_parser = options::source)]
    source: Source,
    #[command(flatten)]
    security: Security,
    /// List directories with everything in them
    #[arg(long, short, help_heading = "Listing options")]
    recursive: bool,
    /// Print one JSON object for each item (docs/json.md)
    #[arg(long, conflicts_with = "metalink", help_heading = OUTPUT)]
    json: bool,
    /// Print all files beneath SOURCE as Metalink 4 (RFC 5854), with every server as a mirror
    #[arg(long, help_heading = OUTPUT)]
    metalink: bool,
    /// With --metalink: add each file's BLAKE3 checksum; the server hashes files whose digests it has not cached
    #[arg(long, help_heading = OUTPUT)]
    checksums: bool,
}

pub(crate) fn run(args: &Ls) -> Result<(), Failure> {
    let mut source = args.source.clone();
    let trust = trust::settle(&args.security, &mut source.mirrors, NamedBy::User)?;
    // A Metalink is read when more may be offered.
    let source = if args.metalink { inhaul_mover::in_full(&source, &trust)? } else { source };
    let shown = Source { mirrors: args.source.mirrors.clone(), path: source.path.clone() };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut format = Format::new(args, &shown);
    let mut written = format.begin(&mut out);
    let mut write = |item: &Listed, hash: Option<Hash>| {
        // A reader may want each line at once, or may have closed the pipe ('| head').
        let so_far = written.as_ref().map_err(|error| error.kind().into());
        written = so_far.and_then(|()| format.item(&mut out, item, hash.as_ref()));
        written.is_ok()
    };
    let listed = if args.metalink && args.checksums {
        inhaul_mover::list_checksums(&source, &trust, &mut |item, hash| write(&item, Some(hash)))
    } else {
        inhaul_mover::list(&source, &trust, args.recursive || args.metalink, &mut |item| write(&item, None))
    };
    note(match &listed {
        Ok(()) => written.and_then(|()| format.end(&mut out)).and_then(|()| out.flush()),
        Err(_) => written.and_then(|()| out.flush()),
    });
    Ok(listed?)
}

type Out<'o> = BufWriter<StdoutLock<'o>>;

/// How items are written.
enum Format<'a> {
    Table { source: &'a Source },
    Json { source: &'a Source },
    Metalink { source: &'a Source },
}

impl<'a> Format<'a> {
    fn new(args: &Ls, source: &'a Source) -> Self {
        match (args.json, args.metalink) {
            (true, _) => Self::Json { source },
            (_, true) => Self::Metalink { source },
            _ => Self::Table { source },
        }
    }

    fn begin(&self, out: &mut Out<'_>) -> io::Result<()> {
        match self {
            Self::Metalink { .. } => out.write_all(METALINK_BEGIN.as_bytes()),
            Self::Table { .. } | Self::Json { .. } => Ok(()),
        }
    }

    fn item(&mut self, out: &mut Out<'_>, item: &Listed, hash: Option<&Hash>) -> io::Result<()> {
        match self {
            Self::Table { source } => writeln!(out, "{}", row(source, item)),
            Self::Json { source } => writeln!(out, "{}", to_json(&JsonItem::of(source, item))),
            Self::Metalink { source } if item.kind == ListedKind::File => match metalink_file(source, item, hash) {
                Some(element) => out.write_all(element.as_bytes()),
                None => {
                    warn(&format!("'{}' is left out: XML cannot hold its name", printable(&item.path)));
                    Ok(())
                }
            },
            Self::Metalink { .. } => Ok(()),
        }
    }

    fn end(&self, out: &mut Out<'_>) -> io::Result<()> {
        match self {
            Self::Metalink { .. } => out.write_all(b"</metalink>\n"),
            Self::Table { .. } | Self::Json { .. } => Ok(()),
        }
    }
}

/// The item's path. For the requested item itself, its name in the request.
fn path_of<'i>(source: &'i Source, item: &'i Listed) -> Cow<'i, [u8]> {
    if item.path.is_empty() {
        bytes_of(source.path.rsplit('/').next().unwrap_or_default())
    } else {
        item.path.as_slice().into()
    }
}

/// Size, time and name, for people.
fn row(source: &Source, item: &Listed) -> String {
    let (size, mark) = match item.kind {
        ListedKind::File => (format_bytes(item.size), ""),
        ListedKind::Directory => ("-".to_owned(), "/"),
        ListedKind::Link => ("link".to_owned(), ""),
        ListedKind::Special => ("special".to_owned(), ""),
    };
    let modified = modified(item).unwrap_or_else(|| "-".to_owned());
    let path = path_of(source, item);
    // The text to write, if it differs from the one shown.
    let written = match str::from_utf8(&path) {
        Ok(_) => String::new(),
        Err(_) => format!("  ({} in an address)", printable(quoted(&path, |c| c == '#').as_bytes())),
    };
    format!("{size:>10}  {modified:20}  {}{mark}{written}", printable(&path))
}

/// When the item was changed, to the second; `None` before 1970.
fn modified(item: &Listed) -> Option<String> {
    u64::try_from(item.modified.seconds).ok().map(utc)
}

/// A line of `ls --json`.
#[derive(Serialize)]
struct JsonItem {
    path: String,
    path_url: Option<String>,
    kind: &'static str,
    bytes: u64,
    modified: Option<String>,
    source: String,
}

impl JsonItem {
    fn of(source: &Source, item: &Listed) -> Self {
        let path = path_of(source, item);
        Self {
            path: String::from_utf8_lossy(&path).into_owned(),
            path_url: str::from_utf8(&path).is_err().then(|| quoted(&path, |c| c == '#')),
            kind: match item.kind {
                ListedKind::File => "file",
                ListedKind::Directory => "directory",
                ListedKind::Link => "link",
                ListedKind::Special => "special",
            },
            bytes: item.size,
            modified: modified(item),
            source: source_of(source, item).to_string(),
        }
    }
}

/// What `get` takes to fetch the item.
fn source_of(source: &Source, item: &Listed) -> Source {
    let below = text_of(&item.path);
    let path = [source.path.as_str(), &below].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
    Source { mirrors: source.mirrors.clone(), path: path.join("/") }
}

// RFC 5854 4.1: the document.
const METALINK_BEGIN: &str = concat!(
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
    "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n",
    "  <generator>inhaul/",
    env!("CARGO_PKG_VERSION"),
    "</generator>\n"
);

/// A file of a Metalink, with a URL for each mirror (RFC 5854 4.1.2, 4.2.16); `None` when XML cannot hold its name.
fn metalink_file(source: &Source, item: &Listed, hash: Option<&Hash>) -> Option<String> {
    let name = escape(str::from_utf8(&path_of(source, item)).ok()?)?;
    let file = source_of(source, item);
    let url = |(k, server): (usize, &Server)| {
        let one = Source { mirrors: vec![server.clone()], path: file.path.clone() };
        Some(format!("    <url priority=\"{}\">{}</url>\n", k + 1, escape(&one.to_string())?))
    };
    let urls: String = file.mirrors.iter().enumerate().map(url).collect::<Option<_>>()?;
    // The registry of names (RFC 5854 4.2.4) has none for BLAKE3. Programs that do not know this one ignore it.
    let hash = hash.map(|hash| format!("    <hash type=\"blake3\">{hash}</hash>\n")).unwrap_or_default();
    Some(format!("  <file name=\"{name}\">\n    <size>{}</size>\n{hash}{urls}  </file>\n", item.size))
}

/// Text for XML; `None` when it has characters that XML has no way to write.
fn escape(text: &str) -> Option<String> {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", c as u32)),
            c if is_obeyed(c) && !c.is_control() => escaped.push_str(&format!("&#{};", c as u32)),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => return None,
            c => escaped.push(c),
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::source;
    use inhaul_mover::Timestamp;

    fn item(path: &str, kind: ListedKind) -> Listed {
        Listed { path: path.into(), kind, size: 1234, modified: Timestamp { seconds: 951_782_400, nanos: 5 } }
    }

    #[test]
    fn row_shows_size_time_and_name() {
        let from = source("dtn1/run7").unwrap();
        assert_eq!(row(&from, &item("a\n", ListedKind::File)), "    1.2 kB  2000-02-29T00:00:00Z  a\\n");
        assert_eq!(row(&from, &item("sub", ListedKind::Directory)), "         -  2000-02-29T00:00:00Z  sub/");
        let bytes = Listed { path: b"d%/\xff".to_vec(), ..item("", ListedKind::File) };
        assert!(row(&from, &bytes).ends_with("  d%/\\xff  (d%25/%FF in an address)"));
        let itself = row(&from, &item("", ListedKind::File));
        assert!(itself.ends_with("  run7"), "{itself}");
    }

    #[test]
    fn metalink_names_each_mirror_and_is_xml() {
        let from = source("a,b:5/100%25").unwrap();
        assert_eq!(
            metalink_file(&from, &item("x <&>\".h5", ListedKind::File), None).unwrap(),
            "  <file name=\"x &lt;&amp;&gt;&quot;.h5\">\n    <size>1234</size>\n    \
             <url priority=\"1\">inhaul://a:4321/100%25/x &lt;&amp;&gt;&quot;.h5</url>\n    \
             <url priority=\"2\">inhaul://b:5/100%25/x &lt;&amp;&gt;&quot;.h5</url>\n  </file>\n"
        );
        assert_eq!(metalink_file(&from, &item("\u{1}", ListedKind::File), None), None);
    }

    #[test]
    fn json_item_has_the_documented_fields() {
        let from = source("a/b").unwrap();
        crate::documented::assert_documented("The items of ls", &JsonItem::of(&from, &item("c", ListedKind::File)));
    }
}
