//! Requests: over connections that are kept, through redirects, with secrets only for the host that they are for.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use inhaul_base::ByteRange;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_MATCH, LOCATION, RANGE};
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::netrc;
use super::s3::S3Object;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::{Ca, Trust};
use inhaul_session::api::url::decode_path;
use inhaul_session::session::tls;

/// How long a server may take to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take to answer, and to send the next bytes.
const SILENCE: Duration = Duration::from_secs(30);
/// Redirects that are followed.
const REDIRECTS_MAX: usize = 8;
/// A head is not longer than this, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Connections that are kept: one for each lane.
const KEPT_MAX: usize = 8;
/// Longest text of a server that is repeated.
const SAID_CHARS_MAX: usize = 200;

/// Why there is no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection came about.
    Unreached(String),
    /// The connection broke.
    Broken(String),
    /// The server has too much to do, or something behind it has.
    Busy { detail: String, after: Option<Duration> },
    /// There is no such file.
    NotFound(String),
    /// The server does not give it to us.
    NoRight(String),
    /// The file is another one than before.
    Changed,
    /// The server's certificate is not believed.
    Untrusted(String),
    /// The server breaks the rules of HTTP, or does what cannot be used.
    Rules(String),
}

/// A client for one URL.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    origin: Origin,
    /// What is sent to its host, if anything.
    authorization: Option<String>,
    /// Where the origin has sent us last. It may be valid for a while only.
    location: Mutex<Option<Uri>>,
}

/// Where the user has said that the file is.
#[derive(Debug)]
enum Origin {
    /// At this URL.
    Url(Uri),
    /// In a bucket: the URL is another one for each request.
    S3(S3Object),
}

impl Origin {
    /// The URL to ask now.
    fn url(&self) -> Result<Uri, Failure> {
        match self {
            Self::Url(url) => Ok(url.clone()),
            Self::S3(object) => {
                let url = object.url(now());
                url.parse().map_err(|_| Failure::Rules("its bucket or endpoint makes no URL".to_owned()))
            }
        }
    }

    /// Whether secrets for the origin may go to this URL.
    fn is_at(&self, url: &Uri) -> bool {
        matches!(self, Self::Url(own) if own.scheme() == url.scheme() && own.authority() == url.authority())
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) response: Response<Body>,
}

impl Found {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The status as people know it.
    pub(super) fn status_text(&self) -> String {
        self.response.status().to_string()
    }

    /// A field of the head, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }
}

impl Client {
    /// For the file at `url`.
    pub(super) fn new(server: &Server, url: &str, trust: &Trust) -> Result<Self, MoveError> {
        let wrong = |detail: String| MoveError::Usage(format!("'{server}' is no URL that can be read: {detail}"));
        let (secret, bare) = part_userinfo(url);
        let origin = match S3Object::find(url) {
            Some(object) => Origin::S3(object),
            None => Origin::Url(bare.parse().map_err(|error: ureq::http::uri::InvalidUri| wrong(error.to_string()))?),
        };
        let first = origin.url().map_err(|_| wrong("its bucket or endpoint makes no URL".to_owned()))?;
        let host = match origin {
            Origin::Url(_) => first.host().unwrap_or_default().to_owned(),
            Origin::S3(_) => String::new(),
        };
        let login = secret.or_else(|| netrc::login_for(&host).map(|(user, password)| format!("{user}:{password}")));
        let basic = |login: String| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
        let roots = tls::roots(trust.ca.as_ref().unwrap_or(&Ca::System));
        let roots = match roots {
            Ok(roots) => roots,
            // Without TLS none are needed.
            Err(_) if first.scheme_str() == Some("http") => Vec::new(),
            Err(detail) => return Err(MoveError::Untrusted { server: server.clone(), detail }),
        };
        let roots: Vec<Certificate<'static>> =
            roots.iter().map(|root| Certificate::from_der(root.as_ref()).to_owned()).collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .tls_config(tls)
            .user_agent(concat!("inhaul/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_connections(KEPT_MAX)
            .max_idle_connections_per_host(KEPT_MAX)
            .build()
            .new_agent();
        Ok(Self { agent, origin, authorization: login.map(basic), location: Mutex::new(None) })
    }

    /// Asks for the file, or a range of it, in the version that `condition` names.
    pub(super) fn get(&self, range: Option<ByteRange>, condition: Option<&str>) -> Result<Found, Failure> {
        let known = self.location.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(location) = known {
            let found = self.ask(&location, range, condition)?;
            // What the origin has sent us to may be over: it is asked again.
            if !matches!(found.status(), 300..=499) || matches!(found.status(), 412 | 416 | 429) {
                return Ok(found);
            }
        }
        self.follow(range, condition)
    }

    /// Asks at the origin, and follows where it sends us.
    fn follow(&self, range: Option<ByteRange>, condition: Option<&str>) -> Result<Found, Failure> {
        let origin = self.origin.url()?;
        let mut at = origin.clone();
        for _ in 0..=REDIRECTS_MAX {
            let found = self.ask(&at, range, condition)?;
            // S3 names the region of a bucket that was asked for in another one.
            if let (Origin::S3(object), Some(region)) = (&self.origin, found.header("x-amz-bucket-region"))
                && found.status() >= 300
                && object.learn_region(region)
            {
                at = self.origin.url()?;
                continue;
            }
            if !matches!(found.status(), 301 | 302 | 303 | 307 | 308) {
                let location = (at != origin && matches!(self.origin, Origin::Url(_))).then_some(at);
                *self.location.lock().unwrap_or_else(PoisonError::into_inner) = location;
                return Ok(found);
            }
            let to = found.response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.ok_or_else(|| Failure::Rules("it redirects to nowhere".to_owned()))?;
            at = next(&origin, &at, to)?;
        }
        Err(Failure::Rules(format!("it redirects more than {REDIRECTS_MAX} times")))
    }

    fn ask(&self, uri: &Uri, range: Option<ByteRange>, condition: Option<&str>) -> Result<Found, Failure> {
        let mut request = self.agent.get(uri).header(ACCEPT_ENCODING, "identity");
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        }
        if let Some(etag) = condition {
            request = request.header(IF_MATCH, etag);
        }
        if let Some(authorization) = self.authorization.as_ref().filter(|_| self.origin.is_at(uri)) {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.call().map(|response| Found { response }).map_err(failure_of)
    }
}

/// Where a redirect leads from `at`, if it is to be followed.
fn next(origin: &Uri, at: &Uri, to: &str) -> Result<Uri, Failure> {
    let shown: String = to.split(['?', '#']).next().unwrap_or_default().chars().take(SAID_CHARS_MAX).collect();
    let refused = |why: &str| Failure::Rules(format!("it redirects to {shown:?}, {why}"));
    let next = resolve(at, to).ok_or_else(|| refused("which is no URL of HTTP"))?;
    match (at.scheme_str(), next.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => {}
        (_, Some("http")) => return Err(refused("which is not secret on its way as its own address is")),
        _ => return Err(refused("which is no URL of HTTP")),
    }
    if next.host() != origin.host() && is_inside(&next) && !is_inside(origin) {
        return Err(refused("a host of this network, which only its users may name"));
    }
    Ok(next)
}

/// The time of day; 1970 if the system's clock is wrong by more than a calendar has.
fn now() -> jiff::Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(since).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()).unwrap_or_default()
}

/// Why a request has failed.
fn failure_of(error: ureq::Error) -> Failure {
    match error {
        ureq::Error::HostNotFound => Failure::Unreached("no host has this name; check its spelling".to_owned()),
        ureq::Error::ConnectionFailed | ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            Failure::Unreached("it takes no connection".to_owned())
        }
        ureq::Error::Io(error) if is_of_certificate(&error) => Failure::Untrusted(error.to_string()),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::Unreached("connection refused".to_owned())
        }
        ureq::Error::Io(error) => Failure::Broken(error.to_string()),
        ureq::Error::Timeout(_) => Failure::Broken(format!("it sent nothing for {} s", SILENCE.as_secs())),
        ureq::Error::Rustls(error) => Failure::Untrusted(error.to_string()),
        error @ (ureq::Error::Tls(_) | ureq::Error::Pem(_)) => Failure::Untrusted(error.to_string()),
        ureq::Error::Protocol(error) => Failure::Broken(error.to_string()),
        // What such an error says may hold the URL, and that a secret.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            Failure::Rules("it is no URL that can be asked for".to_owned())
        }
        error => Failure::Rules(error.to_string()),
    }
}

/// Whether the TLS library has found the server's certificate wanting.
fn is_of_certificate(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// The user's name and password in a URL, decoded, and the URL without them.
fn part_userinfo(url: &str) -> (Option<String>, String) {
    let bare = || (None, url.to_owned());
    let Some((scheme, rest)) = url.split_once("://") else { return bare() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((userinfo, host)) = rest[..end].rsplit_once('@') else { return bare() };
    // A % that encodes nothing is meant as it is.
    let login = decode_path(userinfo).unwrap_or_else(|_| userinfo.to_owned());
    // What stands behind a '#' is never sent.
    let path = rest[end..].split('#').next().unwrap_or_default();
    (Some(login), format!("{scheme}://{host}{path}"))
}

/// The URL that `to` means, seen from `at` (RFC 3986 5).
fn resolve(at: &Uri, to: &str) -> Option<Uri> {
    let to = to.trim().split('#').next()?;
    let (scheme, authority) = (at.scheme_str()?, at.authority()?.as_str());
    let whole = if to.contains("://") {
        to.to_owned()
    } else if let Some(rest) = to.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if to.starts_with('/') {
        format!("{scheme}://{authority}{to}")
    } else {
        let directory = at.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{scheme}://{authority}{directory}/{to}")
    };
    let uri: Uri = whole.parse().ok()?;
    uri.host().filter(|host| !host.is_empty())?;
    Some(uri)
}

/// Whether a URL leads to this host, or into a network that is not the internet. One that cannot be looked up leads
/// nowhere.
fn is_inside(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(443);
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    found.iter().any(|address| match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_unspecified(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn resolve_reads_every_form_of_a_location() {
        let at = uri("https://a.example:8443/d/e?x=1");
        for (to, whole) in [
            ("http://b/c", "http://b/c"),
            ("//b/c?d=1", "https://b/c?d=1"),
            ("/c", "https://a.example:8443/c"),
            ("f", "https://a.example:8443/d/f"),
            (" /c#g ", "https://a.example:8443/c"),
        ] {
            assert_eq!(resolve(&at, to), Some(uri(whole)), "{to}");
        }
        assert_eq!(resolve(&at, "http:///c"), None);
    }

    #[test]
    fn userinfo_is_not_a_part_of_what_is_asked_for() {
        let (login, bare) = part_userinfo("https://me:a%40b@h:1/p@q?r#s");
        assert_eq!((login.as_deref(), bare.as_str()), (Some("me:a@b"), "https://h:1/p@q?r"));
        assert_eq!(part_userinfo("http://h/p@q").0, None);
    }

    #[test]
    fn is_inside_knows_networks_that_are_not_the_internet() {
        for inside in ["http://127.0.0.1/", "http://10.1.2.3/x", "http://[::1]:80/", "http://169.254.169.254/latest"] {
            assert!(is_inside(&uri(inside)), "{inside}");
        }
        assert!(!is_inside(&uri("http://93.184.216.34/")));
    }
}
