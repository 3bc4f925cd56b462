//! The way through a proxy: what it is asked, and what it answers. What follows is between the client and the server:
//! TLS, which the proxy cannot look into.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use inhaul_store::printable;

use crate::api::error::{MoveError, PROXY_UNREACHABLE};
use crate::api::proxy::{Proxy, ProxyKind};
use crate::api::source::Server;
use crate::session::dial::dial;

/// How long a proxy may take to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest answer that is read.
const ANSWER_MAX: usize = 8 << 10;
/// Longest status line that is shown.
const SHOWN_MAX: usize = 80;

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// More of it has to come.
    Part,
    /// It is whole, and means yes. It has so many bytes.
    Yes(usize),
    /// The proxy will not, in words.
    No(String),
    /// The proxy wants another name or password, or any.
    Credentials,
    /// It is no answer.
    Illegal,
}

/// Connects to `server` through `proxy`, with packets of at most `packet` bytes, if that is given.
pub(crate) fn connect(proxy: &Proxy, server: &Server, packet: Option<u16>) -> Result<TcpStream, MoveError> {
    let at = Server::new(proxy.host.clone(), proxy.port);
    let tcp = dial(&at, packet).map_err(|error| {
        // What is said of servers is not true of proxies.
        let why = match error {
            MoveError::Unreachable { detail, .. } | MoveError::UnknownHost { detail, .. } => detail,
            error => error.to_string(),
        };
        MoveError::Unreachable {
            server: server.clone(),
            detail: format!("{PROXY_UNREACHABLE}{proxy} cannot be reached: {why}"),
        }
    })?;
    let mut talk = Talk { tcp, proxy, server, until: Instant::now() + PATIENCE };
    match proxy.kind {
        ProxyKind::Http => talk.ask(&http_request(proxy, server), http_answer)?,
        ProxyKind::Socks5 => {
            let (first, method): (&[u8], u8) =
                if proxy.credentials.is_some() { (&[5, 1, 2], 2) } else { (&[5, 1, 0], 0) };
            talk.ask(first, |bytes| socks_method(bytes, method))?;
            if let Some((name, password)) = &proxy.credentials {
                talk.ask(&socks_credentials(name, password), socks_welcome)?;
            }
            talk.ask(&socks_request(server)?, socks_answer)?;
        }
    }
    let unlimited = talk.tcp.set_read_timeout(None).and_then(|()| talk.tcp.set_write_timeout(None));
    unlimited.map_err(|error| talk.broken(&error))?;
    Ok(talk.tcp)
}

/// A conversation with a proxy.
struct Talk<'t> {
    tcp: TcpStream,
    proxy: &'t Proxy,
    server: &'t Server,
    until: Instant,
}

impl Talk<'_> {
    /// Sends a request, and reads the answer to its end and no further.
    fn ask(&mut self, request: &[u8], read: impl Fn(&[u8]) -> Answer) -> Result<(), MoveError> {
        let sent = self.tcp.set_write_timeout(Some(PATIENCE)).and_then(|()| self.tcp.write_all(request));
        sent.map_err(|error| self.broken(&error))?;
        let mut answer = Vec::new();
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.failed("it does not answer in time"));
            }
            let mut byte = [0];
            // What comes behind the answer is the server's. It is short: it may be read byte by byte.
            let count = self.tcp.set_read_timeout(Some(left)).and_then(|()| self.tcp.read(&mut byte));
            match count {
                Ok(0) => return Err(self.failed("it has closed the connection")),
                Ok(_) => answer.push(byte[0]),
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(self.broken(&error)),
            }
            match read(&answer) {
                Answer::Part if answer.len() < ANSWER_MAX => {}
                Answer::Yes(_) => return Ok(()),
                Answer::No(why) => return Err(self.failed(&format!("it says {why}"))),
                Answer::Credentials => {
                    let proxy = self.proxy;
                    let text = match proxy.credentials {
                        None => format!(
                            "the proxy {proxy} wants a name and a password: write them before its host, USER:PASSWORD@"
                        ),
                        Some(_) => format!("the proxy {proxy} does not take this name and password"),
                    };
                    return Err(MoveError::Usage(text));
                }
                Answer::Part | Answer::Illegal => return Err(self.failed("it does not answer as such a proxy does")),
            }
        }
    }

    fn broken(&self, error: &std::io::Error) -> MoveError {
        self.failed(&error.to_string())
    }

    fn failed(&self, why: &str) -> MoveError {
        let detail = format!("there is no way through the proxy {}: {why}", self.proxy);
        MoveError::Unreachable { server: self.server.clone(), detail }
    }
}

// --- HTTP -----------------------------------------------------------------------------------------------------------

fn http_request(proxy: &Proxy, server: &Server) -> Vec<u8> {
    // As a server is written: an IPv6 address in brackets.
    let host = if server.host.contains(':') { format!("[{}]", server.host) } else { server.host.clone() };
    let place = format!("{host}:{}", server.port);
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    if let Some((name, password)) = &proxy.credentials {
        let credentials = base64(format!("{name}:{password}").as_bytes());
        request += &format!("Proxy-Authorization: Basic {credentials}\r\n");
    }
    request += "\r\n";
    request.into_bytes()
}

/// Reads the answer to a CONNECT: a status line, and fields that say nothing to us, up to an empty line.
pub fn http_answer(bytes: &[u8]) -> Answer {
    const START: &[u8] = b"HTTP/1.";
    let known = bytes.len().min(START.len());
    if bytes[..known] != START[..known] {
        return Answer::Illegal;
    }
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Answer::Part };
    let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let status = line.get(START.len() + 2..START.len() + 5);
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    match status {
        Some(200..=299) => Answer::Yes(end + 4),
        Some(407) => Answer::Credentials,
        Some(100..=199) | None => Answer::Illegal,
        Some(_) => {
            let shown = printable(&line[START.len() + 2..]);
            Answer::No(format!("'{}'", shown.chars().take(SHOWN_MAX).collect::<String>().trim()))
        }
    }
}

/// RFC 4648 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let number = (0..3).fold(0, |number, k| number << 8 | usize::from(three.get(k).copied().unwrap_or(0)));
        let digit = |k: usize| if k <= three.len() { char::from(DIGITS[number >> (18 - 6 * k) & 63]) } else { '=' };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

// --- SOCKS 5 --------------------------------------------------------------------------------------------------------

/// RFC 1928 3: the proxy takes the method that was offered.
pub fn socks_method(bytes: &[u8], offered: u8) -> Answer {
    match bytes {
        [] | [5] => Answer::Part,
        [5, method] if *method == offered => Answer::Yes(2),
        [5, 0xff] => Answer::Credentials,
        _ => Answer::Illegal,
    }
}

/// RFC 1929 2.
fn socks_credentials(name: &str, password: &str) -> Vec<u8> {
    let field = |text: &str| {
        let bytes = &text.as_bytes()[..text.len().min(255)];
        [&[bytes.len() as u8], bytes].concat()
    };
    [vec![1], field(name), field(password)].concat()
}

/// The answer to name and password.
pub fn socks_welcome(bytes: &[u8]) -> Answer {
    match bytes {
        [] | [1] => Answer::Part,
        [1, 0] => Answer::Yes(2),
        [1, _] => Answer::Credentials,
        _ => Answer::Illegal,
    }
}

/// RFC 1928 4.
fn socks_request(server: &Server) -> Result<Vec<u8>, MoveError> {
    let mut request = vec![5, 1, 0];
    match server.host.parse() {
        Ok(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend_from_slice(&ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend_from_slice(&ip.octets());
        }
        Err(_) => {
            let len = u8::try_from(server.host.len());
            let len = len.map_err(|_| MoveError::Usage(format!("'{}' is no name of a host", server.host)))?;
            request.extend_from_slice(&[3, len]);
            request.extend_from_slice(server.host.as_bytes());
        }
    }
    request.extend_from_slice(&server.port.to_be_bytes());
    Ok(request)
}

/// RFC 1928 6.
pub fn socks_answer(bytes: &[u8]) -> Answer {
    let reply = match bytes {
        [] | [5] => return Answer::Part,
        [5, reply, ..] => *reply,
        _ => return Answer::Illegal,
    };
    let why = match reply {
        0 => {
            let address = match bytes.get(3..) {
                None | Some([]) => return Answer::Part,
                Some([1, ..]) => 4,
                Some([4, ..]) => 16,
                Some([3]) => return Answer::Part,
                Some([3, len, ..]) => 1 + usize::from(*len),
                Some(_) => return Answer::Illegal,
            };
            let whole = 4 + address + 2;
            return if bytes.len() < whole { Answer::Part } else { Answer::Yes(whole) };
        }
        2 => "that its rules do not allow it",
        3 => "that the network cannot be reached",
        4 => "that the host cannot be reached",
        5 => "that nothing listens on the port",
        6 => "that it took too long",
        _ => "that it failed",
    };
    Answer::No(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A proxy that plays `script`: what it reads, as so many bytes, and what it says then.
    fn plays(script: Vec<(usize, Vec<u8>)>) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let mut tcp = listener.accept().unwrap().0;
            let mut heard = Vec::new();
            for (len, says) in script {
                let mut bytes = vec![0; len];
                tcp.read_exact(&mut bytes).unwrap();
                heard.extend(bytes);
                tcp.write_all(&says).unwrap();
            }
            heard
        });
        (port, thread)
    }

    fn through(scheme: &str, port: u16, host: &str) -> Result<TcpStream, MoveError> {
        let (scheme, user) = scheme.split_once(' ').unwrap_or((scheme, ""));
        connect(&format!("{scheme}://{user}127.0.0.1:{port}").parse().unwrap(), &Server::new(host, 443), None)
    }

    #[test]
    fn connect_is_asked_for_and_what_follows_is_the_server_s() {
        let request = "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n";
        let (port, proxy) = plays(vec![(request.len(), b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\nserver".to_vec())]);
        let mut tcp = through("http me:secret@", port, "2001:db8::1").unwrap();
        assert_eq!(String::from_utf8(proxy.join().unwrap()).unwrap(), request);
        let mut rest = String::new();
        tcp.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "server");
    }

    #[test]
    fn a_proxy_that_is_not_there_is_no_server_that_is_not_there() {
        let text = through("http", 1, "dtn1").unwrap_err().to_string();
        assert!(text.contains("nothing listens on port 1; check --proxy, or HTTPS_PROXY"), "{text}");
        assert!(!text.contains("inhaul serve"), "{text}");
    }

    #[test]
    fn refusals_are_told_in_words() {
        let request = "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n".len();
        for (answer, told) in [
            ("HTTP/1.1 403 No \u{1b}[2J here\r\n\r\n", "says '403 No"),
            ("HTTP/1.1 407 Authenticate\r\n\r\n", "USER:PASSWORD@"),
            ("SSH-2.0-x", "does not answer as such a proxy does"),
            ("HTTP/1.1 ", "closed the connection"),
        ] {
            let (port, proxy) = plays(vec![(request, answer.as_bytes().to_vec())]);
            let error = through("http", port, "h").unwrap_err().to_string();
            assert!(error.contains(told) && !error.contains('\u{1b}'), "{error}");
            proxy.join().unwrap();
        }
        let (port, proxy) = plays(vec![(request, [b"HTTP/1.1 200 OK\r\n".as_slice(), &[b'x'; 9000]].concat())]);
        assert!(through("http", port, "h").unwrap_err().to_string().contains("as such a proxy does"));
        proxy.join().unwrap();
    }

    #[test]
    fn socks_is_spoken_with_names_and_addresses() {
        let (port, proxy) =
            plays(vec![(3, vec![5, 2]), (12, vec![1, 0]), (4 + 1 + 4 + 2, vec![5, 0, 0, 3, 1, b'x', 0, 9])]);
        through("socks5 user:passw@", port, "host").unwrap();
        let heard = proxy.join().unwrap();
        assert_eq!(
            heard,
            [&[5, 1, 2, 1, 4][..], b"user", &[5], b"passw", &[5, 1, 0, 3, 4], b"host", &[1, 187]].concat()
        );
        let (port, proxy) = plays(vec![(3, vec![5, 0]), (10, vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0])]);
        through("socks5", port, "192.0.2.1").unwrap();
        assert_eq!(proxy.join().unwrap()[3..], [5, 1, 0, 1, 192, 0, 2, 1, 1, 187]);
        let (port, proxy) = plays(vec![(3, vec![5, 0]), (10, vec![5, 2])]);
        let error = through("socks5", port, "192.0.2.1").unwrap_err().to_string();
        assert!(error.contains("its rules do not allow it"), "{error}");
        proxy.join().unwrap();
        let (port, proxy) = plays(vec![(3, vec![5, 0xff])]);
        assert!(matches!(through("socks5", port, "h"), Err(MoveError::Usage(_))));
        proxy.join().unwrap();
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}
