//! Addresses of servers, and of what they offer, as users write them: every command reads them here.
//!
//! `inhaul://` may be left out: HOST, HOST:PORT, HOST/PATH and HOST:PORT/PATH are addresses, with or without a ticket
//! behind their `#`. What other programs take for one (`user@host:path`), or what was damaged when it was copied, is an
//! error that says what to write instead.

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
/// What may stand behind an address that was copied from a text, and is no part of it.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', ']', '>', '}', '\'', '"', '`', '’', '”', '»', '“'];
/// Quotes that a text may have around an address, as pairs.
const QUOTES: [(char, char); 9] =
    [('“', '”'), ('„', '“'), ('‘', '’'), ('‚', '‘'), ('«', '»'), ('»', '«'), ('"', '"'), ('\'', '\''), ('`', '`')];
/// No fingerprint and no token is as short: what is, is a part of a name.
const TICKET_CHARS_MIN: usize = 20;

/// A data set and its servers, of a command that has local paths besides: what exists here is none, unless it is
/// written with `inhaul://`.
pub(crate) fn source_not_here(text: &str) -> Result<Source, Wrong> {
    not_here(text)?;
    source(text)
}

/// A data set and its servers.
pub(crate) fn source(text: &str) -> Result<Source, Wrong> {
    let whole = whole(text)?;
    whole.parse().map_err(|error| explained(&error, text, &whole))
}

/// A place at a server, of a command that has local paths besides.
pub(crate) fn destination(text: &str) -> Result<Destination, Wrong> {
    not_here(text)?;
    let whole = whole(text)?;
    whole.parse().map_err(|error| explained(&error, text, &whole))
}

/// The servers of an address, whatever its path is.
pub(crate) fn servers(text: &str) -> Result<Vec<Server>, Wrong> {
    Ok(source(text)?.mirrors)
}

/// The one server of an address, whatever its path is.
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

/// A path of addresses by itself, as [`Source::path`] has it: `%XX` is a byte, and so is one that is no UTF-8.
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
    if !is_whole && (rest.is_empty() || rest.starts_with(['/', '.', '~', '-'])) {
        let looks = "an address is HOST[:PORT]/PATH, with the ticket that the server prints behind a '#'";
        return Err(Wrong::new(format!("'{}' is no address: {looks}", shown(plain))));
    }
    let (hosts, path) = rest.find(['/', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if let Some((_, host)) = hosts.rsplit_once('@') {
        let right = format!("{SCHEME}{host}{path}");
        return Err(suggest(format!("'{}' has a user: inhaul has none, and needs no ssh", shown(plain)), text, &right));
    }
    if hosts.parse::<Ipv6Addr>().is_ok() {
        let right = format!("{SCHEME}[{hosts}]{path}");
        return Err(suggest(format!("'{hosts}' needs brackets"), text, &right));
    }
    match hosts.split_once(':') {
        // As scp and rsync write it.
        Some((host, behind)) if !hosts.starts_with('[') && !hosts.contains(',') && !is_port(behind) => {
            let path = format!("{behind}{path}");
            let right = format!("{SCHEME}{host}/{}", path.trim_start_matches([':', '/']));
            let why = if is_whole { format!("'{behind}' is no port") } else { "scp's form is not inhaul's".to_owned() };
            Err(suggest(format!("'{}': {why}", shown(plain)), text, &right))
        }
        _ => Ok(format!("{SCHEME}{rest}")),
    }
}

/// Whether it is meant as a port, right or wrong.
fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An address of another protocol.
fn of_other_scheme(text: &str, plain: &str, scheme: &str, rest: &str) -> Wrong {
    let message = format!("'{}' is no address of inhaul: {scheme} is not supported", shown(plain));
    if !matches!(scheme, "http" | "https" | "ftp" | "ssh" | "scp" | "sftp" | "rsync" | "udt" | "tcp" | "udp") {
        return Wrong::new(message);
    }
    let (hosts, path) = rest.find(['/', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let host = hosts.rsplit('@').next().unwrap_or(hosts);
    // The port is that of the other protocol's server.
    let host = if host.starts_with('[') { host } else { host.split(':').next().unwrap_or(host) };
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
            let host = hosts.rsplit_once(':').map_or(hosts, |(host, _)| host);
            format!("{SCHEME}{host}{}", whole.strip_prefix(&format!("{SCHEME}{hosts}")).unwrap_or_default())
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

/// The error that says to write `right`, if that can be read; or what it is mended to.
fn suggest(message: String, text: &str, right: &str) -> Wrong {
    // What is no better than what there was would be mended without an end.
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

/// What is shown of a text: not what stands behind its `#`.
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
            ("https://me@dtn1:8443/x", "inhaul://dtn1/x"),
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
        for text in ["", ".", "./x", "/x", "~/x", "-", "s3://bucket/x", "file:///x", &format!("a/x#{}", &ticket[1..])] {
            assert_eq!(source(text).unwrap_err().mend, None, "{text}");
        }
        assert!(source_not_here(env!("CARGO_MANIFEST_DIR")).unwrap_err().message.contains("is a local directory"));
    }
}
