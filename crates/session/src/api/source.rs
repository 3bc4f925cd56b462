//! Where data comes from, as users write it: `inhaul://host[:port][,host[:port]...]/path[#ticket[,ticket...]]`.

use std::cmp::Ordering;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use inhaul_base::byte_text::{bytes_of, quoted};
use inhaul_identity::{Ticket, TicketError};

use super::url;

/// The default port, for TCP and UDP.
pub const DEFAULT_PORT: u16 = 4321;
/// Most servers of one source.
const SERVERS_MAX: usize = 256;

/// A server, by name or address. Two of the same host and port are the same, whatever their tickets.
#[derive(Clone, Debug)]
pub struct Server {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// TCP and UDP port.
    pub port: u16,
    /// What stood behind the `#`: the fingerprint of its key, and a token for it.
    pub ticket: Arc<Ticket>,
    /// It is no inhaul server: its copy of the data set is what this URL names.
    pub url: Option<Arc<str>>,
}

impl Server {
    /// A server of which nothing else is known.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, ticket: Arc::default(), url: None }
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Server {}

impl PartialOrd for Server {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Server {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.host, self.port, &self.url).cmp(&(&other.host, other.port, &other.url))
    }
}

/// A data set and the servers that each have a copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The servers, in the order given; at least one, each once.
    pub mirrors: Vec<Server>,
    /// Path below the offered directories, without slashes at its ends; empty means everything that is offered. It is
    /// any bytes, as text: see [`inhaul_base::byte_text`].
    pub path: String,
}

/// Where data is brought: a server, and a path beneath the directory that it takes data into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The server.
    pub server: Server,
    /// The path, without slashes before it. Empty, or with a slash at its end, it is a directory for data sets to land
    /// in; otherwise what the one data set becomes. Any bytes, as in [`Source::path`].
    pub path: String,
}

/// Why a source or a server could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not start with `inhaul://`.
    #[error("'{0}' is no source: write inhaul://HOST[:PORT]/PATH, with more hosts after commas for mirrors")]
    Scheme(String),
    /// A host is missing or has characters that no host has.
    #[error("'{0}' is no host: write a name, an IPv4 address, or an IPv6 address in brackets like [::1]")]
    Host(String),
    /// A port is no number from 1 to 65535.
    #[error("'{0}' is no port: write a number from 1 to 65535")]
    Port(String),
    /// A `%` is not followed by two hexadecimal digits.
    #[error("'{0}' is no path: write % as %25, a byte that is not UTF-8 as %XX, and other characters as they are")]
    Path(String),
    /// What stands behind the `#` is no ticket.
    #[error("what stands behind the '#' is no ticket ({0}); a '#' of the path is written %23")]
    Ticket(#[from] TicketError),
    /// There are other numbers of tickets and of servers.
    #[error("there are {tickets} tickets for {servers} servers: write one for all, or one for each with commas")]
    TicketCount {
        /// Tickets behind the `#`.
        tickets: usize,
        /// Servers before it.
        servers: usize,
    },
    /// More servers are named than any transfer uses.
    #[error("more than {SERVERS_MAX} servers of one data set are too many: name fewer")]
    TooMany,
    /// A URL of a source that is read by ranges names no file.
    #[error("'{0}' names no file: write the URL of one")]
    NoFile(String),
    /// Somebody else names a source that only the user of this host may name.
    #[error("'{0}' may not be named here: only the user of this host may have it read")]
    NotTrusted(Server),
    /// A destination has several servers.
    #[error("data is brought to one server: name one host")]
    SeveralServers,
    /// A mirror is named twice.
    #[error("{0} is named twice")]
    Repeated(Server),
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let (mut mirrors, mut path) = (Vec::new(), None);
        for part in url::split_urls(text) {
            if url::is_ranges_url(part) {
                add_mirror(&mut mirrors, ranges_at(part)?)?;
                path.get_or_insert(file_name(part)?);
                continue;
            }
            let (servers, of_servers) = servers_of(part)?;
            servers.into_iter().try_for_each(|server| add_mirror(&mut mirrors, server))?;
            path = Some(of_servers);
        }
        Ok(Self { mirrors, path: path.unwrap_or_default() })
    }
}

fn add_mirror(mirrors: &mut Vec<Server>, server: Server) -> Result<(), SourceError> {
    if mirrors.len() >= SERVERS_MAX {
        return Err(SourceError::TooMany);
    }
    if mirrors.contains(&server) {
        return Err(SourceError::Repeated(server));
    }
    mirrors.push(server);
    Ok(())
}

/// The servers of an `inhaul://` URL, and the path.
fn servers_of(text: &str) -> Result<(Vec<Server>, String), SourceError> {
    let Parts { hosts, path, tickets } = split(text)?;
    let mut servers: Vec<Server> = Vec::new();
    hosts.split(',').try_for_each(|host| add_mirror(&mut servers, host.parse()?))?;
    hand_out(tickets, &mut servers)?;
    // Slashes are trimmed after decoding: '%2F' is one too.
    Ok((servers, decoded(path)?.trim_matches('/').to_owned()))
}

impl FromStr for Destination {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let Parts { hosts, path, tickets } = split(text)?;
        if hosts.contains(',') {
            return Err(SourceError::SeveralServers);
        }
        let mut server: Server = hosts.parse()?;
        hand_out(tickets, std::slice::from_mut(&mut server))?;
        Ok(Self { server, path: decoded(path)?.trim_start_matches('/').to_owned() })
    }
}

/// The parts of an `inhaul://` URL.
struct Parts<'t> {
    hosts: &'t str,
    path: &'t str,
    /// What stands behind the `#`, if there is one.
    tickets: Option<&'t str>,
}

fn split(text: &str) -> Result<Parts<'_>, SourceError> {
    let rest = text.strip_prefix("inhaul://").ok_or_else(|| SourceError::Scheme(before_ticket(text).to_owned()))?;
    let (rest, tickets) = part_tickets(rest);
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(Parts { hosts, path, tickets })
}

/// Parts what stands behind the last `#`.
pub(crate) fn part_tickets(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once('#').map_or((text, None), |(text, tickets)| (text, Some(tickets)))
}

/// What may be shown of a text that is no address: what stands behind a `#` may be a secret, whichever it is.
fn before_ticket(text: &str) -> &str {
    text.split('#').next().unwrap_or_default()
}

/// Gives each server its ticket: the one that there is to all, or each to its own. An empty one is none.
fn hand_out(tickets: Option<&str>, servers: &mut [Server]) -> Result<(), SourceError> {
    let Some(text) = tickets else { return Ok(()) };
    if text.split(',').nth(SERVERS_MAX).is_some() {
        return Err(SourceError::TooMany);
    }
    let tickets = text.split(',').map(|text| text.parse().map(Arc::new)).collect::<Result<Vec<Arc<Ticket>>, _>>()?;
    match tickets.as_slice() {
        [one] => servers.iter_mut().for_each(|server| server.ticket = Arc::clone(one)),
        each if each.len() == servers.len() => {
            servers.iter_mut().zip(each).for_each(|(server, ticket)| server.ticket = Arc::clone(ticket));
        }
        _ => return Err(SourceError::TicketCount { tickets: tickets.len(), servers: servers.len() }),
    }
    Ok(())
}

/// An IPv6 address, and the interface behind it, as the system's resolver reads them: `fe80::1%eth0`. The interface may
/// be written as in other URLs, too (RFC 6874 2): `fe80::1%25eth0`. A number is one: `%251` is interface 251.
fn with_zone(host: &str) -> Option<String> {
    let Some((address, zone)) = host.split_once('%') else {
        return host.parse::<Ipv6Addr>().ok().map(|_| host.to_owned());
    };
    address.parse::<Ipv6Addr>().ok()?;
    let zone = match zone.strip_prefix("25") {
        Some(encoded) if !zone.bytes().all(|byte| byte.is_ascii_digit()) => url::decode_path(encoded).ok()?,
        _ => zone.to_owned(),
    };
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-._~+=@".contains(c);
    (!zone.is_empty() && zone.chars().all(is_legal)).then(|| format!("{address}%{zone}"))
}

impl FromStr for Server {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let (text, tickets) = part_tickets(text);
        let wrong = || SourceError::Host(before_ticket(text).to_owned());
        let zoned;
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            zoned = with_zone(host).ok_or_else(wrong)?;
            let host = zoned.as_str();
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err(wrong()),
            }
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let legal = |c: char| c.is_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || !(text.starts_with('[') || host.chars().all(legal)) {
            return Err(wrong());
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| SourceError::Port(before_ticket(port).to_owned()))?,
        };
        let mut server = Self::new(host, port);
        hand_out(tickets, std::slice::from_mut(&mut server))?;
        Ok(server)
    }
}

/// A path of a URL, decoded.
fn decoded(path: &str) -> Result<String, SourceError> {
    url::decode_path(path).map_err(|_| SourceError::Path(before_ticket(path).to_owned()))
}

/// The name of the file that a URL names.
fn file_name(text: &str) -> Result<String, SourceError> {
    url::file_name(text).map_err(|_| SourceError::Path(url::without_secrets(text)))
}

/// The source that is read by ranges at a URL.
fn ranges_at(text: &str) -> Result<Server, SourceError> {
    let (host, port) = url::host_of(text).ok_or_else(|| SourceError::Scheme(url::without_secrets(text)))?;
    if file_name(text)?.is_empty() {
        return Err(SourceError::NoFile(url::without_secrets(text)));
    }
    Ok(Server { url: Some(Arc::from(text)), ..Server::new(host, port) })
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.url {
            f.write_str(&url::without_secrets(url))
        } else if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (servers, urls): (Vec<&Server>, Vec<&Server>) =
            self.mirrors.iter().partition(|server| server.url.is_none());
        let mut parts: Vec<String> = Vec::new();
        if !servers.is_empty() {
            let hosts = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            // The characters that reading a path does not take as they are.
            parts.push(format!("inhaul://{hosts}/{}", quoted(&bytes_of(&self.path), |c| c == '#')));
        }
        parts.extend(urls.iter().map(ToString::to_string));
        f.write_str(&parts.join(","))
    }
}

impl Source {
    /// The parts of a text that names several mirrors, as they are written: a URL of something that is read by ranges, or
    /// (false) what names inhaul servers.
    pub fn parts(text: &str) -> Vec<(&str, bool)> {
        url::split_urls(text).into_iter().map(|part| (part, url::is_ranges_url(part))).collect()
    }

    /// The same, if it is of no file of this host: of a text whose author is not the user of this host.
    ///
    /// # Errors
    /// When it names such a file.
    pub fn without_files(self) -> Result<Self, SourceError> {
        self.without(|url| url.starts_with("file:"))
    }

    /// The same, if it names only inhaul servers: of an order of a client, for whom this host must not reach what the
    /// client cannot.
    ///
    /// # Errors
    /// When it names something else.
    pub fn of_servers_only(self) -> Result<Self, SourceError> {
        self.without(|_| true)
    }

    fn without(self, is_bad: impl Fn(&str) -> bool) -> Result<Self, SourceError> {
        match self.mirrors.iter().find(|server| server.url.as_deref().is_some_and(&is_bad)) {
            Some(other) => Err(SourceError::NotTrusted(other.clone())),
            None => Ok(self),
        }
    }

    /// Its whole text, with the tickets, which `Display` leaves out: a secret if one of them has a token.
    pub fn to_secret_text(&self) -> String {
        let (servers, urls): (Vec<Server>, Vec<Server>) =
            self.mirrors.iter().cloned().partition(|server| server.url.is_none());
        let tickets: Vec<String> = servers.iter().map(|server| server.ticket.to_secret_text()).collect();
        let bare = Self { mirrors: servers, path: self.path.clone() }.to_string();
        let first = if tickets.iter().all(String::is_empty) { bare } else { format!("{bare}#{}", tickets.join(",")) };
        let urls = urls.iter().filter_map(|server| server.url.as_deref());
        std::iter::once(first.as_str()).filter(|text| !text.is_empty()).chain(urls).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, port: u16) -> Server {
        Server::new(host, port)
    }

    #[test]
    fn source_reads_what_people_write() {
        for (text, mirrors, path) in [
            ("inhaul://a/f", vec![server("a", 4321)], "f"),
            ("inhaul://a:9/d/f.bin", vec![server("a", 9)], "d/f.bin"),
            ("inhaul://a:1,b:2,c/d/", vec![server("a", 1), server("b", 2), server("c", 4321)], "d"),
            ("inhaul://10.0.0.1/", vec![server("10.0.0.1", 4321)], ""),
            ("inhaul://data.example.org", vec![server("data.example.org", 4321)], ""),
            ("inhaul://[::1]:77,[fe80::1%eth0]/x", vec![server("::1", 77), server("fe80::1%eth0", 4321)], "x"),
            (
                "inhaul://[fe80::1%25eth0.7]:9,[fe80::2%253]/x",
                vec![server("fe80::1%eth0.7", 9), server("fe80::2%253", 4321)],
                "x",
            ),
            ("inhaul://[fe80::1%25a%2Bb]/", vec![server("fe80::1%a+b", 4321)], ""),
            ("inhaul://a/with space/100%25", vec![server("a", 4321)], "with space/100%"),
            ("inhaul://a/%2Fetc%2F", vec![server("a", 4321)], "etc"),
            ("inhaul://a/%C3%A9", vec![server("a", 4321)], "\u{e9}"),
            ("inhaul://a/%ff.dat", vec![server("a", 4321)], "\u{10ffff}.dat"),
        ] {
            assert_eq!(text.parse(), Ok(Source { mirrors, path: path.to_owned() }), "{text}");
        }
    }

    #[test]
    fn source_refuses_by_name() {
        let text = str::to_owned;
        for (source, error) in [
            ("a:1/f", SourceError::Scheme(text("a:1/f"))),
            ("ftp://a/f", SourceError::Scheme(text("ftp://a/f"))),
            ("inhaul:///f", SourceError::Host(text(""))),
            ("inhaul://a,,b/f", SourceError::Host(text(""))),
            ("inhaul://me@a/f", SourceError::Host(text("me@a"))),
            ("inhaul://[::1/f", SourceError::Host(text("[::1"))),
            ("inhaul://[nonsense]/f", SourceError::Host(text("[nonsense]"))),
            ("inhaul://[fe80::1%]/f", SourceError::Host(text("[fe80::1%]"))),
            ("inhaul://[fe80::1%a b]/f", SourceError::Host(text("[fe80::1%a b]"))),
            ("inhaul://[::1]x/f", SourceError::Host(text("[::1]x"))),
            ("inhaul://a:0/f", SourceError::Port(text("0"))),
            ("inhaul://a:99999/f", SourceError::Port(text("99999"))),
            ("inhaul://::1/f", SourceError::Host(text("::1"))),
            ("inhaul://a/50%", SourceError::Path(text("50%"))),
            // What stands behind a '#' may be a secret.
            ("ftp://a/f#.secret", SourceError::Scheme(text("ftp://a/f"))),
            ("inhaul://a/50%#.secret#", SourceError::Path(text("50%"))),
            ("inhaul://a,b,,#.secret", SourceError::Host(text(""))),
            ("inhaul://a/%+1", SourceError::Path(text("%+1"))),
            ("inhaul://a,a:4321/f", SourceError::Repeated(server("a", 4321))),
        ] {
            assert_eq!(source.parse::<Source>(), Err(error), "{source}");
        }
    }

    #[test]
    fn destination_keeps_the_slash_at_its_end() {
        for (text, path) in [
            ("inhaul://a", ""),
            ("inhaul://a/", ""),
            ("inhaul://a//x", "x"),
            ("inhaul://a/d/", "d/"),
            ("inhaul://a/%64%2F", "d/"),
        ] {
            assert_eq!(text.parse(), Ok(Destination { server: server("a", 4321), path: path.to_owned() }), "{text}");
        }
        assert_eq!("inhaul://a,b/x".parse::<Destination>(), Err(SourceError::SeveralServers));
        assert!(matches!("/x".parse::<Destination>(), Err(SourceError::Scheme(_))));
    }

    #[test]
    fn display_can_be_read_again() {
        for text in [
            "inhaul://a:4321/f",
            "inhaul://a:1,[::1]:2/d/f",
            "inhaul://a:1/100%25/%252F",
            "inhaul://a:1/%23",
            "inhaul://a:1/%FF/%80",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn source_takes_so_many_servers_and_no_more() {
        let named = |count| (0..count).map(|k| format!("h{k}")).collect::<Vec<_>>().join(",");
        let most: Source = format!("inhaul://{}/f", named(SERVERS_MAX)).parse().unwrap();
        assert_eq!(most.mirrors.len(), SERVERS_MAX);
        let parsed = format!("inhaul://{}/f", named(SERVERS_MAX + 1)).parse::<Source>();
        assert_eq!(parsed, Err(SourceError::TooMany));
        assert_eq!(format!("inhaul://a/f#{}", ",".repeat(SERVERS_MAX)).parse::<Source>(), Err(SourceError::TooMany));
    }

    #[test]
    fn tickets_are_for_all_servers_or_one_for_each() {
        let [a, b] = [b"a", b"b"].map(|key| inhaul_identity::Fingerprint::of(key));
        let pins = |text: &str| {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_secret_text().parse::<Source>().unwrap(), source);
            source.mirrors.iter().map(|server| server.ticket.fingerprint).collect::<Vec<_>>()
        };
        assert_eq!(pins(&format!("inhaul://x,y/f#{a}")), [Some(a), Some(a)]);
        assert_eq!(pins(&format!("inhaul://x,y/f#{a},{b}")), [Some(a), Some(b)]);
        assert_eq!(pins(&format!("inhaul://x,y/f#,{b}")), [None, Some(b)]);
        assert_eq!(pins("inhaul://x/a%23b"), [None]);
        assert_eq!(format!("x:1#{a}").parse::<Server>().unwrap().ticket.fingerprint, Some(a));
        let count = SourceError::TicketCount { tickets: 3, servers: 2 };
        assert_eq!(format!("inhaul://x,y/f#{a},{b},{a}").parse::<Source>(), Err(count));
        assert!(matches!("inhaul://x/a#b".parse::<Source>(), Err(SourceError::Ticket(_))));
        let shown = format!("inhaul://x/f#{a}").parse::<Source>().unwrap().to_string();
        assert_eq!(shown, "inhaul://x:4321/f", "what is shown and logged has no ticket");
    }
}
