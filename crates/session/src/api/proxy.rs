//! A proxy for control ports, where there is no other way out.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Longest name, and longest password: what SOCKS 5 carries (RFC 1929 2).
const CREDENTIAL_MAX: usize = 255;

/// Which protocol a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP's CONNECT (RFC 9110 9.3.6).
    Http,
    /// SOCKS 5 (RFC 1928).
    Socks5,
}

/// A proxy through which servers' control ports are reached. Names are looked up by it. Data goes through it too, over
/// TCP: no proxy of these kinds passes UDP.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Which protocol it speaks.
    pub kind: ProxyKind,
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Name and password.
    pub credentials: Option<(String, String)>,
    /// Hosts that are reached without it: names, their domains, addresses; `*` means all.
    pub except: Vec<String>,
}

/// Why a text is no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It has another form.
    #[error("write http://HOST:PORT or socks5://HOST:PORT, with USER:PASSWORD@ before the host if it wants them")]
    Form,
    /// TLS to the proxy itself is not spoken here.
    #[error(
        "a proxy that is itself reached over TLS is not supported: data is sealed all the way to the server anyhow"
    )]
    Tls,
    /// A name or a password is too long.
    #[error("name and password of a proxy have at most {CREDENTIAL_MAX} bytes each")]
    Credentials,
}

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" => ProxyKind::Http,
            "socks5" | "socks5h" | "socks" => ProxyKind::Socks5,
            "https" => return Err(ProxyError::Tls),
            _ => return Err(ProxyError::Form),
        };
        let rest = rest.trim_end_matches('/');
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        let credentials = credentials.map(parse_credentials).transpose()?;
        let default = if kind == ProxyKind::Http { 3128 } else { 1080 };
        let (host, port) = parse_place(place, default).ok_or(ProxyError::Form)?;
        Ok(Self { kind, host, port, credentials, except: Vec::new() })
    }
}

fn parse_credentials(text: &str) -> Result<(String, String), ProxyError> {
    let (name, password) = text.split_once(':').unwrap_or((text, ""));
    let decode = |text: &str| decode(text).ok_or(ProxyError::Form);
    let (name, password) = (decode(name)?, decode(password)?);
    let is_legal = |text: &String| text.len() <= CREDENTIAL_MAX;
    if name.is_empty() || !is_legal(&name) || !is_legal(&password) {
        return Err(ProxyError::Credentials);
    }
    Ok((name, password))
}

/// A host and its port.
fn parse_place(text: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))?),
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let port = if port.is_empty() { default } else { port.parse().ok().filter(|&port| port > 0)? };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    (!host.is_empty() && host.len() <= 255 && host.chars().all(is_host)).then(|| (host.to_owned(), port))
}

/// What `%40` and the like stand for.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

impl Proxy {
    /// The proxy that variables of the environment name, as curl reads them: `HTTPS_PROXY` or else `ALL_PROXY`, and
    /// what `NO_PROXY` leaves out, each also in small letters.
    ///
    /// # Errors
    /// When what a variable has is no proxy. That says nothing of hosts that are left out.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, UnusableProxy> {
        let found = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
            .into_iter()
            .find_map(|name| get(name).filter(|value| !value.is_empty()).map(|value| (name, value)));
        let Some((name, value)) = found else { return Ok(None) };
        let except = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        let except = except.split(',').map(|host| host.trim().to_ascii_lowercase()).filter(|host| !host.is_empty());
        let except = except.collect();
        match value.parse::<Self>() {
            Ok(proxy) => Ok(Some(Self { except, ..proxy })),
            Err(error) => Err(UnusableProxy { variable: name.to_owned(), error, except }),
        }
    }

    /// Whether `host` is reached through it.
    pub fn serves(&self, host: &str) -> bool {
        !is_among(host, &self.except)
    }
}

/// A variable of the environment that should name a proxy, and does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is no proxy: {error}")]
pub struct UnusableProxy {
    variable: String,
    error: ProxyError,
    except: Vec<String>,
}

impl UnusableProxy {
    /// Whether `host` would have been reached through it. Others are reached all the same.
    pub fn stops(&self, host: &str) -> bool {
        !is_among(host, &self.except)
    }
}

/// Whether a host is named by one of these patterns: names, their domains, addresses, networks; `*` means all.
fn is_among(host: &str, patterns: &[String]) -> bool {
    let host = host.to_ascii_lowercase();
    let address: Option<IpAddr> = host.split('%').next().and_then(|host| host.parse().ok());
    patterns.iter().any(|pattern| match (address, pattern.parse::<IpAddr>()) {
        _ if pattern == "*" => true,
        (Some(address), Ok(pattern)) => address == pattern,
        (Some(address), Err(_)) => is_within(address, pattern),
        (None, _) => {
            let domain = pattern.trim_start_matches("*.").trim_start_matches('.');
            host == domain || host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
        }
    })
}

/// Whether an address is one of a network, like `10.0.0.0/8`.
fn is_within(address: IpAddr, network: &str) -> bool {
    let parts = network.split_once('/').and_then(|(base, bits)| Some((base.parse().ok()?, bits.parse::<u32>().ok()?)));
    match (address, parts) {
        (IpAddr::V4(address), Some((IpAddr::V4(base), bits @ 0..=32))) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            address.to_bits() & mask == base.to_bits() & mask
        }
        (IpAddr::V6(address), Some((IpAddr::V6(base), bits @ 0..=128))) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            address.to_bits() & mask == base.to_bits() & mask
        }
        _ => false,
    }
}

impl fmt::Display for Proxy {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.kind == ProxyKind::Http { "http" } else { "socks5" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    /// Without the password: it must not come into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("at", &self.to_string()).field("except", &self.except).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Proxy {
        text.parse().unwrap()
    }

    #[test]
    fn a_proxy_is_what_curl_takes_for_one() {
        let plain = proxy("http://proxy.example:8080/");
        assert_eq!((plain.kind, plain.host.as_str(), plain.port), (ProxyKind::Http, "proxy.example", 8080));
        assert_eq!(plain.credentials, None);
        let bare = proxy("10.0.0.1");
        assert_eq!((bare.kind, bare.port), (ProxyKind::Http, 3128));
        let socks = proxy("socks5h://me:p%40ss:w@[2001:db8::1]:99");
        assert_eq!((socks.kind, socks.host.as_str(), socks.port), (ProxyKind::Socks5, "2001:db8::1", 99));
        assert_eq!(socks.credentials, Some(("me".to_owned(), "p@ss:w".to_owned())));
        assert_eq!(socks.to_string(), "socks5://[2001:db8::1]:99");
        assert!(!format!("{socks:?}").contains("p@ss"));
        assert_eq!(proxy("socks5://h").port, 1080);
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "http://",
            "ftp://a:1",
            "http://a:0",
            "http://a:99999",
            "http://a b:1",
            "http://:x@a:1",
            "http://[::1:1",
            "http://u%zz@a:1",
            "http://u%0a@a:1",
            "http://a\r\n:1",
        ] {
            assert!(text.parse::<Proxy>().is_err(), "{text:?}");
        }
        assert_eq!("https://a:1".parse::<Proxy>(), Err(ProxyError::Tls));
        assert_eq!(format!("http://{}@a:1", "u".repeat(256)).parse::<Proxy>(), Err(ProxyError::Credentials));
    }

    #[test]
    fn the_environment_is_read_as_curl_reads_it() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Proxy::from_environment(|name| set.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("ALL_PROXY", "")]), Ok(None));
        let both = of(&[("ALL_PROXY", "socks5://a"), ("HTTPS_PROXY", "http://b:1"), ("NO_PROXY", "Local, .x.org")]);
        let both = both.unwrap().unwrap();
        assert_eq!((both.host.as_str(), &both.except[..]), ("b", &["local".to_owned(), ".x.org".to_owned()][..]));
        let unusable = of(&[("all_proxy", "gopher://a"), ("NO_PROXY", "inside.org,10.0.0.0/8")]).unwrap_err();
        assert_eq!((unusable.variable.as_str(), &unusable.error), ("all_proxy", &ProxyError::Form));
        assert!(unusable.to_string().starts_with("all_proxy is no proxy: "));
        assert!(!unusable.stops("x.inside.org") && !unusable.stops("10.1.2.3") && unusable.stops("outside.org"));
        assert!(!of(&[("HTTPS_PROXY", "https://a:b:c"), ("NO_PROXY", "*")]).unwrap_err().stops("a"));
    }

    #[test]
    fn hosts_that_are_left_out_are_reached_directly() {
        let except = ["example.org", ".dept.edu", "10.0.0.0/8", "2001:db8::/32", "fe80::/10", "192.0.2.7"]
            .map(str::to_owned)
            .to_vec();
        let proxy = Proxy { except, ..proxy("http://p:1") };
        for host in ["example.org", "A.Example.org", "x.dept.edu", "dept.edu", "10.9.8.7", "2001:db8:1::2", "192.0.2.7"]
        {
            assert!(!proxy.serves(host), "{host}");
        }
        assert!(!proxy.serves("fe80::7%eth0"), "an address of a link");
        for host in ["badexample.org", "example.org.evil", "11.0.0.1", "2001:db9::1", "192.0.2.70"] {
            assert!(proxy.serves(host), "{host}");
        }
        assert!(!Proxy { except: vec!["*".to_owned()], ..proxy }.serves("anything"));
    }
}
