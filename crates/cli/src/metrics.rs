//! `--metrics`: the server's counters, as OpenMetrics text over HTTP, or as Prometheus's own text on request.
//!
//! It answers only `GET` and `HEAD` of `/metrics`, to a bounded number of clients at once, each for a bounded time.

mod prometheus;
mod text;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use inhaul_mover::{Counters, MoveError, listen_tcp};

/// How long a client may take in all.
const DEADLINE: Duration = Duration::from_secs(2);
/// Bytes that a request may have.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Clients at once; further ones are hung up on.
const CLIENTS_MAX: usize = 8;
/// Clients that may wait to be taken.
const BACKLOG: u16 = 128;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers at `address` from now on, on threads of its own.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) fn serve(address: SocketAddr, counters: &Arc<Counters>) -> Result<SocketAddr, MoveError> {
    let failed = |source| MoveError::System { what: "metrics cannot be offered at the address of --metrics", source };
    let listener = listen_tcp(address, BACKLOG, None).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let counters = Arc::clone(counters);
    let run = move || accept(&listener, &counters);
    std::thread::Builder::new().name("inhaul-metrics".to_owned()).spawn(run).map_err(failed)?;
    Ok(address)
}

fn accept(listener: &TcpListener, counters: &Arc<Counters>) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((tcp, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // This thread alone counts up.
        if clients.load(Ordering::Acquire) >= CLIENTS_MAX {
            continue;
        }
        clients.fetch_add(1, Ordering::AcqRel);
        let (counters, done) = (Arc::clone(counters), Done(Arc::clone(&clients)));
        let answer = move || {
            let _done = done;
            // A client that is gone needs no answer.
            let _ = answer(tcp, Instant::now() + DEADLINE, &counters);
        };
        // Without a thread there is no answer, and the place is free again.
        let _ = std::thread::Builder::new().name("inhaul-scrape".to_owned()).spawn(answer);
    }
}

/// A client's place, until it is dropped.
struct Done(Arc<AtomicUsize>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn answer(mut tcp: TcpStream, deadline: Instant, counters: &Counters) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    let answer = loop {
        tcp.set_read_timeout(Some(left(deadline)?))?;
        let len = tcp.read(&mut piece)?;
        request.extend_from_slice(&piece[..len]);
        if len == 0 {
            return Ok(());
        }
        if let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break respond(&String::from_utf8_lossy(&request[..end]), counters);
        }
        if request.len() > REQUEST_BYTES_MAX {
            break Answer::refused("431 Request Header Fields Too Large", "the request is too long\n");
        }
    };
    let answer = answer.bytes();
    let mut rest = &answer[..];
    while !rest.is_empty() {
        tcp.set_write_timeout(Some(left(deadline)?))?;
        let len = tcp.write(rest)?;
        rest = &rest[len..];
    }
    Ok(())
}

/// The answer.
struct Answer {
    status: &'static str,
    kind: &'static str,
    /// For HEAD it is only measured (RFC 9110 9.3.2).
    body: String,
    is_head: bool,
}

impl Answer {
    fn refused(status: &'static str, why: &str) -> Self {
        Self { status, kind: "text/plain", body: why.to_owned(), is_head: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, kind, body, is_head } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nVary: Accept\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        if *is_head { head.into_bytes() } else { [head.as_bytes(), body.as_bytes()].concat() }
    }
}

/// The answer to the request with this head.
fn respond(head: &str, counters: &Counters) -> Answer {
    let mut words = head.split('\r').next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let answer = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match text::encode(counters) {
            Ok(text) if prometheus::is_wanted(head) => Answer {
                status: "200 OK",
                kind: prometheus::CONTENT_TYPE,
                body: prometheus::of_openmetrics(&text),
                is_head: false,
            },
            Ok(body) => Answer { status: "200 OK", kind: text::CONTENT_TYPE, body, is_head: false },
            Err(_) => Answer::refused("500 Internal Server Error", "the numbers cannot be written\n"),
        },
        ("GET" | "HEAD", _) => Answer::refused("404 Not Found", "the numbers are at /metrics\n"),
        _ => Answer::refused("405 Method Not Allowed", "only GET and HEAD are understood\n"),
    };
    Answer { is_head: method == "HEAD", ..answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(head: &str) -> String {
        String::from_utf8(respond(head, &Counters::default()).bytes()).unwrap()
    }

    #[test]
    fn respond_knows_one_path_and_two_methods() {
        for (request, status) in [
            ("GET /metrics HTTP/1.1", "200 OK"),
            ("GET /metrics?x=1 HTTP/1.1", "200 OK"),
            ("HEAD /metrics HTTP/1.1", "200 OK"),
            ("GET / HTTP/1.1", "404 Not Found"),
            ("HEAD / HTTP/1.1", "404 Not Found"),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("", "405 Method Not Allowed"),
        ] {
            assert!(answer(request).starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}");
        }
        assert!(answer("PUT / HTTP/1.1").contains("\r\nAllow: GET, HEAD\r\n"));
    }

    #[test]
    fn head_is_what_get_has_without_its_body() {
        for path in ["/metrics", "/"] {
            let (get, head) = (answer(&format!("GET {path} HTTP/1.1")), answer(&format!("HEAD {path} HTTP/1.1")));
            let (of_get, body) = get.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with("\r\n\r\n") && !body.is_empty(), "{head}");
            let lines = |head: &str| head.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
            // The numbers of a moment later may be longer by a digit.
            let without_length =
                |head| lines(head).into_iter().filter(|line| !line.starts_with("Content-Length")).collect::<Vec<_>>();
            assert_eq!(without_length(&head), without_length(of_get));
            assert!(head.contains("\r\nContent-Length: "), "{head}");
        }
    }

    #[test]
    fn prometheus_text_is_given_to_those_who_ask_for_it() {
        let plain = answer("GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4");
        assert!(plain.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{plain}");
        assert!(plain.contains("\n# TYPE inhaul_connections_total counter\n"), "{plain}");
        assert!(!plain.contains("# UNIT") && !plain.contains("# EOF"), "{plain}");
        let open = answer("GET /metrics HTTP/1.1\r\nAccept: */*");
        assert!(open.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{open}");
        // Every family is described before its samples, and by their name.
        let (_, body) = plain.split_once("\r\n\r\n").unwrap();
        let mut described = "";
        for line in body.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => described = rest.split_once(' ').unwrap().0,
                None if line.starts_with('#') => {}
                None => assert_eq!(line.split(['{', ' ']).next(), Some(described), "{line}"),
            }
        }
    }
}
