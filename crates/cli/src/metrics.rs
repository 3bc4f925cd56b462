//! `--metrics`: what the server counts, as OpenMetrics text over HTTP.
//!
//! It answers `GET /metrics` and nothing else, to a bounded number of clients at once, each for a bounded time.

mod text;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use inhaul_mover::{Counters, MoveError};

/// How long a client may take in all.
const DEADLINE: Duration = Duration::from_secs(2);
/// Bytes that a request may have.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Clients at once; further ones are hung up on.
const CLIENTS_MAX: usize = 8;
/// The pause after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers at `address` from now on, on threads of its own.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) fn serve(address: SocketAddr, counters: &Arc<Counters>) -> Result<SocketAddr, MoveError> {
    let failed = |source| MoveError::System { what: "metrics cannot be offered at the address of --metrics", source };
    let listener = TcpListener::bind(address).map_err(failed)?;
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
    let (status, kind, body) = loop {
        tcp.set_read_timeout(Some(left(deadline)?))?;
        let len = tcp.read(&mut piece)?;
        request.extend_from_slice(&piece[..len]);
        if len == 0 {
            return Ok(());
        }
        if request.windows(4).any(|window| window == b"\r\n\r\n") {
            break respond(&request, counters);
        }
        if request.len() > REQUEST_BYTES_MAX {
            break ("431 Request Header Fields Too Large", "text/plain", "the request is too long\n".to_owned());
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    let mut rest = &answer[..];
    while !rest.is_empty() {
        tcp.set_write_timeout(Some(left(deadline)?))?;
        let len = tcp.write(rest)?;
        rest = &rest[len..];
    }
    Ok(())
}

/// The status, the content type and the body for a request.
fn respond(request: &[u8], counters: &Counters) -> (&'static str, &'static str, String) {
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET", b"/metrics") => match text::encode(counters) {
            Ok(text) => ("200 OK", text::CONTENT_TYPE, text),
            Err(_) => ("500 Internal Server Error", "text/plain", "the numbers cannot be written\n".to_owned()),
        },
        (b"GET", _) => ("404 Not Found", "text/plain", "the numbers are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn respond_knows_one_path_and_one_method() {
        let status = |request: &str| respond(request.as_bytes(), &Counters::default()).0;
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.1\r\n\r\n"), "200 OK");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404 Not Found");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status("\r\n\r\n"), "405 Method Not Allowed");
    }
}
