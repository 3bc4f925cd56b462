//! Addresses of servers and of their files, as users write them: every command reads them here.
//!
//! `inhaul://` may be left out: HOST, HOST:PORT, HOST/PATH and HOST:PORT/PATH are addresses, with or without a ticket
//! behind their `#`. An address in another program's form (`user@host:path`), or one damaged in copying, is an error
//! that suggests the right form.

use std::ffi::OsStr;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::builder::{OsStringValueParser, TypedValueParser};
use inhaul_base::byte_text::{quoted, text_of};
use inhaul_identity::Token;
use inhaul_mover::{Destination, Server, Source, SourceError};

use crate::wrong::Wrong;

const SCHEME: &str = "inhaul://";
/// Punctuation that may follow an address copied from a text, and is no part of it.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '>', '}', '\'', '"', '`', '’', '”', '»', '“'];
/// Quotes that a text may have around an address, as pairs.
const QUOTES: [(char, char); 9] =
    [('“', '”'), ('„', '“'), ('‘', '’'), ('‚', '‘'), ('«', '»'), ('»', '«'), ('"', '"'), ('\'', '\''), ('`', '`')];
/// Fingerprints and tokens are at least this long: a shorter text is part of a name.
const TICKET_CHARS_MIN: usize = 20;

/// A data set and its servers, for a command that also has local paths: an existing local path is no address, unless it
/// is written with `inhaul://`.
pub(crate) fn source_not_here(text: &str) -> Result<Source, Wrong> {
    not_here(text)?;
    any_source(text)
}

/// A data set and its servers.
pub(crate) fn source(text: &str) -> Result<Source, Wrong> {
    let whole = whole(text)?;
    whole.parse().map_err(|error| explained(&error, text, &whole))
}

/// The same, which may have mirrors of other kinds: URLs that are read by ranges.
fn any_source(text: &str) -> Result<Source, Wrong> {
    let parts = Source::parts(text.trim()).into_iter();
    let parts = parts.map(|(part, is_url)| if is_url { Ok(part.to_owned()) } else { whole(part) });
    let whole = parts.collect::<Result<Vec<String>, Wrong>>()?.join(",");
    whole.parse().map_err(|error| explained(&error, text, &whole))
}

/// A place at a server, of a command that has local paths besides.
pub(crate) fn destination(text: &str) -> Result<Destination, Wrong> {
    not_here(text)?;
    let whole = whole(text)?;
    whole.parse().map_err(|error| explained(&error, text, &whole))
}

/// The servers of an address, with any path.
pub(crate) fn servers(text: &str) -> Result<Vec<Server>, Wrong> {
    Ok(source(text)?.mirrors)
}

/// The one server of an address, with any path.
pub(crate) fn server(text: &str) -> Result<Server, Wrong> {
    match servers(text)?.as_slice() {
        [server] => Ok(server.clone()),
        _ => Err(Wrong::new(format!("'{text}' names several servers: name one"))),
    }
}

/// A server's name in addresses for others, and its port, if one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    server: Server,
    has_port: bool,
}

impl Advertised {
    /// The server, which has this port if no other was given.
    pub(crate) fn at(&self, port: u16) -> Server {
        let mut server = self.server.clone();
        if !self.has_port {
            server.port = port;
        }
        server
    }
}

/// A server with or without a port.
pub(crate) fn advertised(text: &str) -> Result<Advertised, Wrong> {
    let server = server(text)?;
    let rest = text.trim().strip_prefix(SCHEME).unwrap_or(text.trim());
    let hosts = rest.find(['/', '#']).map_or(rest, |at| &rest[..at]);
    // Behind a port there is no place for another.
    let has_port = format!("{hosts}:1").parse::<Server>().is_err();
    Ok(Advertised { server, has_port })
}

/// A path of addresses alone, as in [`Source::path`]: `%XX` is a byte; bytes that are no UTF-8 are allowed.
pub(crate) fn path(text: &OsStr) -> Result<String, Wrong> {
    let address = format!("{SCHEME}host/{}", as_text(text.as_bytes()));
    let source: Source = address.parse().map_err(|error: SourceError| Wrong::new(error.to_string()))?;
    Ok(source.path)
}

/// Any bytes as text: see [`inhaul_base::byte_text`].
pub(crate) fn any_bytes() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|text| text_of(text.as_bytes()))
}

/// A text with `%XX` for each byte that is no UTF-8.
pub(crate) fn as_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&quoted(chunk.invalid(), |_| false));
    }
    text
}

/// Whether a word looks like a path at another host, as scp and rsync write it: it has a colon before any slash.
pub(crate) fn is_remote(text: &str) -> bool {
    let before = text.split(['/', '#']).next().unwrap_or_default();
    text.starts_with(SCHEME) || before.contains(':') || before.contains('@')
}

/// An error if there is such a local path.
fn not_here(text: &str) -> Result<(), Wrong> {
    if is_remote(text) || text.contains('#') || !Path::new(text).exists() {
        return Ok(());
    }
    let what = if Path::new(text).is_dir() { "directory" } else { "file" };
    // No host's name begins like this.
    let meant = match text.starts_with(['/', '.']) {
        true => String::new(),
        false => format!("; if it is a host, write {SCHEME}{text}"),
    };
    Err(Wrong::new(format!("'{text}' is a local {what}{meant}")))
}

/// The whole address that `text` means.
fn whole(text: &str) -> Result<String, Wrong> {
    // A line's end that was copied, too.
    let plain = text.trim();
    for (open, close) in QUOTES {
        if let Some(inner) = plain.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            return Err(suggest(format!("'{}' has quotes in it that are no shell's", shown(plain)), text, inner));
        }
    }
    let (rest, is_whole) = match plain.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("inhaul") && rest.starts_with('/') => {
            if !plain.starts_with(SCHEME) || rest.starts_with("///") {
                let right = format!("{SCHEME}{}", rest.trim_start_matches('/'));
                return Err(suggest(format!("'{}' does not begin with {SCHEME}", shown(plain)), text, &right));
            }
            (&rest[2..], true)
        }
        Some((scheme, rest)) if rest.starts_with("//") => return Err(of_other_scheme(text, plain, scheme, &rest[2..])),
        _ => (plain, false),
    };
    // A URL whose scheme was left out, with the slashes before its host.
    let behind_slashes =
        plain.strip_prefix("//").filter(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '['));
    if let Some(rest) = behind_slashes {
        let right = format!("{SCHEME}{rest}");
        return Err(suggest(format!("'{}' begins with slashes: it needs {SCHEME}", shown(plain)), text, &right));
    }
    if !is_whole && (rest.is_empty() || rest.starts_with(['/', '.', '~', '-'])) {
        let looks = "an address is HOST[:PORT]/PATH, with the ticket that the server prints behind a '#'";
        return Err(Wrong::new(format!("'{}' is no address: {looks}", shown(plain))));
    }
    let (hosts, path) = rest.find(['/', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if let Some((_, host)) = hosts.rsplit_once('@') {
        let right = format!("{SCHEME}{host}{path}");
        return Err(suggest(format!("'{}' has a user: inhaul has none, and needs no ssh", shown(plain)), text, &right));
    }
    match misread(text, plain, hosts, path, is_whole) {
        Some(wrong) => Err(wrong),
        None => Ok(format!("{SCHEME}{rest}")),
    }
}

/// The error for servers written in another program's form, with a `path` or a ticket behind them.
fn misread(text: &str, plain: &str, hosts: &str, path: &str, is_whole: bool) -> Option<Wrong> {
    let misread: Vec<Option<Misread<'_>>> = hosts.split(',').map(Misread::of).collect();
    let first = misread.iter().flatten().next()?;
    let message = match first {
        Misread::Ipv6 { host, .. } => format!("'{host}' needs brackets"),
        Misread::Behind { behind, .. } if is_whole => format!("'{}': '{behind}' is no port", shown(plain)),
        Misread::Behind { .. } => format!("'{}': scp's form is not inhaul's", shown(plain)),
        Misread::TwoPorts => return Some(Wrong::new(format!("'{}' has two ports: write one", shown(plain)))),
    };
    // Behind the last host, scp's form has the beginning of the path.
    let mut right: Vec<String> = Vec::new();
    let (mut begins, mut is_scp) = ("", false);
    for (part, misread) in hosts.split(',').zip(&misread) {
        let (server, behind) = match misread {
            None => (part.to_owned(), ""),
            Some(Misread::Ipv6 { host, behind: "" }) => (format!("[{host}]"), ""),
            Some(Misread::Ipv6 { host, behind }) => (format!("[{host}]:{behind}"), ""),
            Some(Misread::Behind { server, behind }) => ((*server).to_owned(), behind.trim_start_matches(':')),
            Some(Misread::TwoPorts) => return Some(Wrong::new(message)),
        };
        right.push(server);
        is_scp = matches!(misread, Some(Misread::Behind { .. }));
        begins = behind;
    }
    let path = if !is_scp && !path.starts_with('/') { path.to_owned() } else { format!("/{begins}{path}") };
    let slashes = path.len() - path.trim_start_matches('/').len();
    let right = format!("{SCHEME}{}{}", right.join(","), &path[slashes.saturating_sub(1)..]);
    Some(suggest(message, text, &right))
}

/// A server that is written as other programs read it.
enum Misread<'t> {
    /// An IPv6 address without its brackets, and the text behind it and a colon.
    Ipv6 { host: &'t str, behind: &'t str },
    /// A server, with a port if it has one, and the text behind it and a colon: the beginning of a path.
    Behind { server: &'t str, behind: &'t str },
    /// Two numbers behind two colons.
    TwoPorts,
}

impl<'t> Misread<'t> {
    /// `None`: it is read as it was meant.
    fn of(part: &'t str) -> Option<Self> {
        if let Some((host, behind)) = without_brackets(part) {
            return Some(Self::Ipv6 { host, behind });
        }
        let host = match part.strip_prefix('[') {
            Some(rest) => 1 + rest.find(']')? + 1,
            None => part.find(':').unwrap_or(part.len()),
        };
        let behind = part[host..].strip_prefix(':')?;
        if is_port(behind) {
            return None;
        }
        match behind.split_once(':') {
            Some((port, path)) if is_port(port) && is_port(path) => Some(Self::TwoPorts),
            // The port is a number: the text behind the second colon is a path.
            Some((port, path)) if is_port(port) => {
                Some(Self::Behind { server: &part[..host + 1 + port.len()], behind: path })
            }
            _ => Some(Self::Behind { server: &part[..host], behind }),
        }
    }
}

/// An IPv6 address without brackets, and the text behind it and a colon: a port or a path.
fn without_brackets(part: &str) -> Option<(&str, &str)> {
    let is_ipv6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    // An address of a link ends with its interface, in which no colon can stand.
    if let Some((address, zone)) = part.split_once('%') {
        let (zone, behind) = zone.split_once(':').unwrap_or((zone, ""));
        return is_ipv6(address).then(|| (&part[..address.len() + 1 + zone.len()], behind));
    }
    if is_ipv6(part) {
        return Some((part, ""));
    }
    // A text too long for a group of an address is a port; a text that is no number begins a path.
    let (host, behind) = part.rsplit_once(':')?;
    (host.contains(':') && is_ipv6(host)).then_some((host, behind))
}

/// Whether it is meant as a port, right or wrong.
fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The ports that servers of other protocols have unless another one is written: `inhaul serve` is not there.
const PORTS_OF_OTHERS: [&str; 5] = ["21", "22", "80", "443", "873"];

/// An address of another protocol.
fn of_other_scheme(text: &str, plain: &str, scheme: &str, rest: &str) -> Wrong {
    let message = format!("'{}' is no address of inhaul: {scheme} is not supported", shown(plain));
    let names =
        ["http", "https", "ftp", "ftps", "ssh", "scp", "sftp", "rsync", "udt", "tcp", "udp", "dav", "davs", "gsiftp"];
    if !names.iter().any(|name| scheme.eq_ignore_ascii_case(name)) {
        return Wrong::new(message);
    }
    let (hosts, path) = rest.find(['/', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let host = hosts.rsplit('@').next().unwrap_or(hosts);
    // A written port is the port of 'inhaul serve', unless it is only the default port of the scheme.
    let host = match host.rsplit_once(':') {
        Some((name, port)) if PORTS_OF_OTHERS.contains(&port) && !path.contains('#') => name,
        _ => host,
    };
    suggest(format!("{message}; 'inhaul serve' must run there"), text, &format!("{SCHEME}{host}{path}"))
}

/// Why the whole address cannot be read.
fn explained(error: &SourceError, text: &str, whole: &str) -> Wrong {
    let (address, ticket) = whole.rsplit_once('#').unwrap_or((whole, ""));
    let rest = address.strip_prefix(SCHEME).unwrap_or(address);
    let (hosts, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let right = match error {
        SourceError::Ticket(_) | SourceError::TicketCount { .. } => {
            let joined: String = ticket.split_whitespace().collect();
            let bare = joined.trim_end_matches(PUNCTUATION);
            let is_name = ticket.contains('/') || ticket.len() < TICKET_CHARS_MIN;
            match bare {
                token if token.parse::<Token>().is_ok() => format!("{address}#.{token}"),
                _ if is_name => format!("{address}%23{ticket}"),
                bare => format!("{address}#{bare}"),
            }
        }
        SourceError::Port(_) => {
            // The ports of other mirrors stay.
            let of_no_port = |part: &str| matches!(part.parse::<Server>(), Err(SourceError::Port(_)));
            let part = |part| match (of_no_port(part), part.rsplit_once(':')) {
                (true, Some((host, _))) => host,
                _ => part,
            };
            let behind = rest.find(['/', '#']).map_or("", |at| &rest[at..]);
            let ticket = whole.strip_prefix(address).unwrap_or_default();
            let hosts = hosts.split('#').next().unwrap_or_default().split(',').map(part).collect::<Vec<_>>();
            format!("{SCHEME}{}{behind}{ticket}", hosts.join(","))
        }
        SourceError::Path(_) => {
            let behind = whole.strip_prefix(address).unwrap_or_default();
            format!("{SCHEME}{hosts}{}{behind}", path.replace('%', "%25"))
        }
        SourceError::Host(_) => {
            let hosts: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
            let behind = whole.find(['/', '#']).filter(|at| *at >= SCHEME.len());
            let behind = behind.or_else(|| whole[SCHEME.len()..].find(['/', '#']).map(|at| at + SCHEME.len()));
            format!("{SCHEME}{}{}", hosts.join(","), behind.map_or("", |at| &whole[at..]))
        }
        _ => return Wrong::new(error.to_string()),
    };
    let message = match error {
        SourceError::Port(_) => format!("{error}; without one, it is {}", inhaul_mover::DEFAULT_PORT),
        _ => error.to_string(),
    };
    suggest(message, text, &right)
}

/// The error that suggests `right`, if that parses, or its own correction.
fn suggest(message: String, text: &str, right: &str) -> Wrong {
    // A suggestion that is no better than the text itself would be corrected without an end.
    if right == text {
        return Wrong::new(message);
    }
    let mut right = right.to_owned();
    // Some have two things wrong with them.
    for _ in 0..4 {
        match source(&right) {
            Ok(_) => return Wrong::new(message).or(text, right),
            Err(Wrong { mend: Some(crate::wrong::Mend::Word { right: better, .. }), .. }) if better != right => {
                right = better;
            }
            Err(_) => break,
        }
    }
    Wrong::new(message)
}

/// A text as it is shown: without the part behind its `#`.
fn shown(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrong::Mend;

    #[test]
    fn all_forms_are_the_same_address() {
        for (text, canonical) in [
            ("dtn1", "inhaul://dtn1:4321/"),
            ("dtn1:5001", "inhaul://dtn1:5001/"),
            ("dtn1/run 7/a", "inhaul://dtn1:4321/run 7/a"),
            ("dtn1:5001/run7", "inhaul://dtn1:5001/run7"),
            ("inhaul://dtn1:5001/run7\n", "inhaul://dtn1:5001/run7"),
            ("[::1]:5001/x", "inhaul://[::1]:5001/x"),
            ("[fe80::1%eth0]", "inhaul://[fe80::1%eth0]:4321/"),
            ("10.0.0.1,dtn2:5001/x", "inhaul://10.0.0.1:4321,dtn2:5001/x"),
        ] {
            assert_eq!(source(text).unwrap().to_string(), canonical, "{text}");
            let hosts = canonical["inhaul://".len()..].split('/').next().unwrap();
            assert_eq!(servers(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(","), hosts);
            assert_eq!(destination(text).is_ok(), !hosts.contains(','), "{text}");
        }
        let ticket = inhaul_identity::Fingerprint::of(b"a").to_string();
        for text in [format!("dtn1#{ticket}"), format!("dtn1:4321/x#{ticket} \n")] {
            assert_eq!(server(&text).unwrap().ticket.to_secret_text(), ticket, "{text}");
        }
        assert!(server("a,b/x").unwrap_err().message.contains("name one"));
    }

    #[test]
    fn what_is_no_address_says_what_to_write() {
        let ticket = inhaul_identity::Fingerprint::of(b"a").to_string();
        let grant = inhaul_identity::Grant { rights: inhaul_identity::Rights::ALL, scope: Default::default() };
        let token = Token::make(&[1; 32], Default::default(), grant, inhaul_identity::UnixTime::MAX, None);
        let token = token.to_secret_text();
        let text = |text: &str| text.replace("TICKET", &ticket).replace("TOKEN", &token);
        for (wrong, right) in [
            ("me@dtn1:/data/x", "inhaul://dtn1/data/x"),
            ("dtn1:x/y", "inhaul://dtn1/x/y"),
            ("dtn1::module/x", "inhaul://dtn1/module/x"),
            ("dtn1:/x", "inhaul://dtn1/x"),
            ("inhaul://me@dtn1:5001/x#TICKET", "inhaul://dtn1:5001/x#TICKET"),
            ("inhaul://dtn1:/x", "inhaul://dtn1/x"),
            ("INHAUL://dtn1/x", "inhaul://dtn1/x"),
            ("inhaul:/dtn1/x", "inhaul://dtn1/x"),
            ("inhaul:///dtn1/x", "inhaul://dtn1/x"),
            ("https://me@dtn1:8443/x", "inhaul://dtn1:8443/x"),
            ("HTTP://dtn1:5001/x#TICKET", "inhaul://dtn1:5001/x#TICKET"),
            ("http://dtn1:5001#TICKET", "inhaul://dtn1:5001#TICKET"),
            ("https://dtn1:443/x", "inhaul://dtn1/x"),
            ("http://dtn1:80/x#TICKET", "inhaul://dtn1:80/x#TICKET"),
            ("rsync://dtn1:5001/x", "inhaul://dtn1:5001/x"),
            ("ssh://me@[::1]:5001/x", "inhaul://[::1]:5001/x"),
            ("http://dtn1:5001:/x", "inhaul://dtn1:5001/x"),
            ("dtn1:5001:/x#TICKET", "inhaul://dtn1:5001/x#TICKET"),
            ("dtn1:5001:x/y", "inhaul://dtn1:5001/x/y"),
            ("dtn1:5001::x", "inhaul://dtn1:5001/x"),
            ("dtn1:5001:", "inhaul://dtn1:5001/"),
            ("dtn1:5001:#TICKET", "inhaul://dtn1:5001/#TICKET"),
            ("me@dtn1:5001:/x", "inhaul://dtn1:5001/x"),
            ("inhaul://dtn1:5001:/x", "inhaul://dtn1:5001/x"),
            ("inhaul://10.0.0.1:5001::x/y#TICKET", "inhaul://10.0.0.1:5001/x/y#TICKET"),
            ("dtn1:5001:,dtn2:5002:/x", "inhaul://dtn1:5001,dtn2:5002/x"),
            ("dtn1:99999,dtn2:5002/x", "inhaul://dtn1,dtn2:5002/x"),
            ("dtn1:0#TICKET", "inhaul://dtn1#TICKET"),
            ("[::1]:5001:/x", "inhaul://[::1]:5001/x"),
            ("[::1]::x/y", "inhaul://[::1]/x/y"),
            ("me@[::1]:x/y", "inhaul://[::1]/x/y"),
            ("//dtn1:5001/x#TICKET", "inhaul://dtn1:5001/x#TICKET"),
            ("fe80::1%eth0/x#TICKET", "inhaul://[fe80::1%eth0]/x#TICKET"),
            ("fe80::fc:ff:fe00:1%25eth0/x", "inhaul://[fe80::fc:ff:fe00:1%25eth0]/x"),
            ("me@fe80::1%eth0:/x", "inhaul://[fe80::1%eth0]/x"),
            ("fe80::1%eth0:5001/x", "inhaul://[fe80::1%eth0]:5001/x"),
            ("fe80::1:54321/x", "inhaul://[fe80::1]:54321/x"),
            ("http://fe80::1%eth0/x", "inhaul://[fe80::1%eth0]/x"),
            ("::1:/x", "inhaul://[::1]/x"),
            ("dtn1,::1/x", "inhaul://dtn1,[::1]/x"),
            ("sftp://dtn1/x", "inhaul://dtn1/x"),
            ("fe80::1/x", "inhaul://[fe80::1]/x"),
            ("“inhaul://dtn1/x#TICKET”", "inhaul://dtn1/x#TICKET"),
            ("‘dtn1/x’", "dtn1/x"),
            ("dtn1:0/x", "inhaul://dtn1/x"),
            ("dtn1:99999/x#TICKET", "inhaul://dtn1/x#TICKET"),
            ("inhaul://dtn1:http/x", "inhaul://dtn1/http/x"),
            ("dtn1/100%", "inhaul://dtn1/100%25"),
            ("dtn1, dtn2/x#TICKET", "inhaul://dtn1,dtn2/x#TICKET"),
            ("dtn1,/x", "inhaul://dtn1/x"),
            ("dtn1/run#7/a", "inhaul://dtn1/run%237/a"),
            ("dtn1/run#7", "inhaul://dtn1/run%237"),
            ("dtn1/x#TICKET.", "inhaul://dtn1/x#TICKET"),
            ("dtn1/x#TICKET.TOKEN,", "inhaul://dtn1/x#TICKET.TOKEN"),
            ("dtn1/x#TICKET.TO KEN", "inhaul://dtn1/x#TICKET.TOKEN"),
            ("dtn1/x#TOKEN", "inhaul://dtn1/x#.TOKEN"),
            ("“me@dtn1:/x#TOKEN”", "inhaul://dtn1/x#.TOKEN"),
        ] {
            let (broken, wrong) = (wrong.replace("TO KEN", &format!("{} {}", &token[..30], &token[30..])), wrong);
            let found = source(&text(&broken)).unwrap_err();
            let expected = Mend::Word { wrong: text(&broken), right: text(right) };
            assert_eq!(found.mend, Some(expected), "{wrong}: {found}");
            assert!(!found.message.contains(&ticket) && !found.message.contains(&token), "{found}");
        }
        assert!(source("dtn1:5001:5002").unwrap_err().message.contains("two ports"));
        for text in [
            "",
            ".",
            "./x",
            "/x",
            "///x",
            "dtn1:5001:5002",
            "~/x",
            "-",
            "s3://bucket/x",
            "file:///x",
            &format!("a/x#{}", &ticket[1..]),
        ] {
            assert_eq!(source(text).unwrap_err().mend, None, "{text}");
        }
        assert!(source_not_here(env!("CARGO_MANIFEST_DIR")).unwrap_err().message.contains("is a local directory"));
    }
}
