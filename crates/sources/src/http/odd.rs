//! HTTP servers that do what real ones do, right and wrong: for tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client has asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub path: String,
    /// First and last byte.
    pub range: Option<(u64, u64)>,
    pub if_match: Option<String>,
    pub authorization: Option<String>,
    /// How many requests there were before this one.
    pub before: u64,
}

/// What a server answers.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// The length that it claims, if it is another.
    pub length: Option<u64>,
    /// It closes the connection after so many bytes of the body.
    pub closes_after: Option<usize>,
    /// It waits so long before each 16 KiB.
    pub drips: Duration,
}

impl Reply {
    /// A status without a body.
    pub fn status(status: &'static str) -> Self {
        let (headers, body) = (Vec::new(), Vec::new());
        Self { status, headers, body, length: None, closes_after: None, drips: Duration::ZERO }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The whole of `data`.
    pub fn whole(data: &[u8]) -> Self {
        Self { body: data.to_vec(), ..Self::status("200 OK") }
    }

    /// What was asked for of `data`, as servers that know ranges answer.
    pub fn part(data: &[u8], asked: &Asked) -> Self {
        let size = data.len() as u64;
        match asked.range {
            None => Self::whole(data),
            Some((first, _)) if first >= size => {
                Self::status("416 Range Not Satisfiable").with("content-range", format!("bytes */{size}"))
            }
            Some((first, last)) => {
                let last = last.min(size - 1);
                let body = data[first as usize..=last as usize].to_vec();
                let range = format!("bytes {first}-{last}/{size}");
                Self { body, ..Self::status("206 Partial Content") }.with("content-range", range)
            }
        }
    }
}

type Manner = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server that runs until it is dropped.
pub struct OddServer {
    pub(crate) address: SocketAddr,
    /// What was asked of it.
    pub asked: Arc<Mutex<Vec<Asked>>>,
    sent: Arc<AtomicU64>,
}

impl OddServer {
    pub fn start(manner: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, sent): (Arc<Mutex<Vec<Asked>>>, Arc<AtomicU64>) = Default::default();
        let manner: Arc<Manner> = Arc::new(manner);
        let (heard, counted) = (Arc::clone(&asked), Arc::clone(&sent));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (manner, heard, counted) = (Arc::clone(&manner), Arc::clone(&heard), Arc::clone(&counted));
                std::thread::spawn(move || drop(converse(stream, &*manner, &heard, &counted)));
            }
        });
        Self { address, asked, sent }
    }

    /// The URL of a file there.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Bytes of bodies that it has sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn converse(
    mut stream: TcpStream,
    manner: &Manner,
    heard: &Mutex<Vec<Asked>>,
    counted: &AtomicU64,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut asked = Asked::default();
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        asked.path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            let value = value.trim().to_owned();
            match name.to_ascii_lowercase().as_str() {
                "range" => {
                    let (first, last) = value.trim_start_matches("bytes=").split_once('-').unwrap();
                    asked.range = Some((first.parse().unwrap(), last.parse().unwrap()));
                }
                "if-match" => asked.if_match = Some(value),
                "authorization" => asked.authorization = Some(value),
                _ => {}
            }
        }
        let before = {
            let mut heard = heard.lock().unwrap();
            asked.before = heard.len() as u64;
            heard.push(asked.clone());
            asked
        };
        let reply = manner(&before);
        let length = reply.length.unwrap_or(reply.body.len() as u64);
        let fields: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let has_length =
            reply.headers.iter().any(|(name, _)| *name == "content-length" || *name == "transfer-encoding");
        let length = if has_length { String::new() } else { format!("content-length: {length}\r\n") };
        write!(stream, "HTTP/1.1 {}\r\n{length}{fields}\r\n", reply.status)?;
        let body = &reply.body[..reply.closes_after.unwrap_or(usize::MAX).min(reply.body.len())];
        for piece in body.chunks(16 << 10) {
            if reply.drips > Duration::ZERO {
                std::thread::sleep(reply.drips);
            }
            stream.write_all(piece)?;
            counted.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        if reply.closes_after.is_some() {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
