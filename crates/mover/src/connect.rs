//! The client's set-up: from a server's name to a session that is open.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use inhaul_store::{Listed, Manifest};

use crate::control_stream::{ControlStream, StreamError};
use crate::error::MoveError;
use crate::frame::{Frame, GroupDigest, MAX_PIECE, Memory, RefusalCode, SessionRole, VERSION};
use crate::net;
use crate::options::Stop;
use crate::order::Order;
use crate::source::Server;

/// How long a host may take to accept a connection.
const CONNECT_SECONDS: u64 = 10;
/// How long a server may take to greet.
const GREETING_SECONDS: u64 = 10;
/// How long a server may take to list a data set, or between two pieces of the list.
const LISTING_SECONDS: u64 = 120;
/// How often the stop flag is looked at.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// Largest manifest that is taken, in bytes.
const MANIFEST_BYTES_MAX: usize = 1 << 30;

/// An open session with a server, before any data flows.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) stream: ControlStream,
    /// Where the server takes datagrams.
    pub(crate) datagrams: SocketAddr,
}

impl Session {
    /// Finds the server, connects and greets. Tries each of the host's addresses.
    pub(crate) fn connect(server: &Server, role: SessionRole, transport: &str) -> Result<Self, MoveError> {
        let addresses = resolve(server)?;
        let mut failure = None;
        for address in addresses {
            log::debug!("{server}: connecting to {address}");
            match TcpStream::connect_timeout(&address, Duration::from_secs(CONNECT_SECONDS)) {
                Ok(tcp) => return Self::greet(server, tcp, role, transport),
                Err(error) => failure = Some(connect_error(server, &error)),
            }
        }
        Err(failure.unwrap_or_else(|| unknown_host(server, "it has no address")))
    }

    fn greet(server: &Server, tcp: TcpStream, role: SessionRole, transport: &str) -> Result<Self, MoveError> {
        let stream = ControlStream::new(tcp).map_err(|error| connect_error(server, &error))?;
        let mut session = Self { server: server.clone(), datagrams: stream.peer(), stream };
        session.send(&Frame::Hello { version: VERSION, role, transport: transport.to_owned() })?;
        match session.receive(GREETING_SECONDS)? {
            Frame::Welcome { version: VERSION, udp_port } => {
                session.datagrams.set_port(udp_port);
                log::debug!("{server}: session open, datagrams go to {}", session.datagrams);
                Ok(session)
            }
            Frame::Welcome { version, .. } => {
                Err(session.protocol_error(format!("it speaks version {version}, not {VERSION}")))
            }
            frame => Err(session.unexpected(&frame)),
        }
    }

    /// Asks for a data set and takes its manifest in.
    pub(crate) fn open(&mut self, path: &str, owner: bool, attributes: bool) -> Result<Manifest, MoveError> {
        self.send(&Frame::Open { path: format!("/{path}"), owner, attributes })?;
        let mut bytes = Vec::new();
        loop {
            match self.receive(LISTING_SECONDS)? {
                Frame::DataSet { last, bytes: piece } => {
                    if bytes.len() + piece.len() > MANIFEST_BYTES_MAX {
                        return Err(self.protocol_error("its list of files is larger than 1 GiB".to_owned()));
                    }
                    bytes.extend_from_slice(&piece);
                    if last {
                        return Manifest::decode(&bytes).map_err(|error| self.protocol_error(error.to_string()));
                    }
                }
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    /// Asks what there is at `path` and hears it while it is read, until `each` says no.
    pub(crate) fn list(
        &mut self,
        path: &str,
        recursive: bool,
        each: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), MoveError> {
        self.send(&Frame::List { recursive, path: format!("/{path}") })?;
        loop {
            match self.receive(LISTING_SECONDS)? {
                Frame::Listing { last, bytes } => {
                    let items = Listed::decode_all(&bytes).map_err(|error| self.protocol_error(error.to_string()))?;
                    if !items.into_iter().all(&mut *each) || last {
                        return Ok(());
                    }
                }
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    /// Orders a transfer for which this host has the data; gives the token that probes carry, and the sessions that bring it.
    pub(crate) fn order(&mut self, order: &Order) -> Result<u64, MoveError> {
        self.delegate(order)?;
        match self.receive(GREETING_SECONDS)? {
            Frame::ProbeGrant { token } => Ok(token),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// Orders a transfer.
    pub(crate) fn delegate(&mut self, order: &Order) -> Result<(), MoveError> {
        let order = order.to_json().map_err(|error| MoveError::Internal(error.to_string()))?;
        if order.len() > MAX_PIECE {
            return Err(MoveError::Usage("these are too many patterns and sources for one transfer".to_owned()));
        }
        self.send(&Frame::Delegate { order })
    }

    /// Asks for leave to probe the server's UDP port; gives the token that probes carry.
    pub(crate) fn ask_to_probe(&mut self) -> Result<u64, MoveError> {
        self.send(&Frame::Probe)?;
        match self.receive(GREETING_SECONDS)? {
            Frame::ProbeGrant { token } => Ok(token),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// Says that there will be no more probes.
    pub(crate) fn finish_probing(mut self) {
        // A server that is gone has no need to know.
        let _ = self.send(&Frame::Finish);
    }

    /// Asks for a bench.
    pub(crate) fn open_bench(&mut self, size: u64, memory: Memory) -> Result<(), MoveError> {
        self.send(&Frame::Bench { size, memory })?;
        match self.receive(GREETING_SECONDS)? {
            Frame::DataSet { last: true, .. } => Ok(()),
            frame => Err(self.unexpected(&frame)),
        }
    }

    /// The digests of the next groups of a run that was asked for, which goes on at group `next` for `left` more. Waits until
    /// `stop` is set.
    pub(crate) fn digests(&mut self, next: u64, left: u64, stop: &Stop) -> Result<Vec<GroupDigest>, MoveError> {
        loop {
            match self.receive_until(LISTING_SECONDS, stop)? {
                Frame::Digests { first_group, values }
                    if first_group == next && !values.is_empty() && values.len() as u64 <= left =>
                {
                    return Ok(values);
                }
                // The transport's own set-up, for data that this session will not ask for.
                Frame::Protocol { .. } => {}
                frame => return Err(self.unexpected(&frame)),
            }
        }
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), MoveError> {
        let sent = self.stream.send(frame, Instant::now() + Duration::from_secs(GREETING_SECONDS));
        sent.map_err(|error| self.stream_error(&error, GREETING_SECONDS))
    }

    fn receive(&mut self, seconds: u64) -> Result<Frame, MoveError> {
        let received = self.stream.receive(Instant::now() + Duration::from_secs(seconds));
        received.map_err(|error| self.stream_error(&error, seconds))
    }

    /// Receives within so many seconds, unless `stop` is set before.
    fn receive_until(&mut self, seconds: u64, stop: &Stop) -> Result<Frame, MoveError> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            if stop.is_set() {
                return Err(MoveError::Interrupted);
            }
            match self.stream.receive(deadline.min(Instant::now() + STOP_LOOK)) {
                Err(StreamError::TimedOut) if Instant::now() < deadline => {}
                received => return received.map_err(|error| self.stream_error(&error, seconds)),
            }
        }
    }

    fn stream_error(&self, error: &StreamError, seconds: u64) -> MoveError {
        let server = self.server.clone();
        match error {
            StreamError::TimedOut | StreamError::Stuck => MoveError::TimedOut { server, seconds },
            // It has ended or its host has, or it is none of ours and hangs up on strangers.
            StreamError::Closed | StreamError::Io(_) => MoveError::Unreachable { server, detail: error.to_string() },
            StreamError::Frame(_) => self.protocol_error(error.to_string()),
        }
    }

    fn protocol_error(&self, detail: String) -> MoveError {
        MoveError::Protocol { server: self.server.clone(), detail }
    }

    /// What a frame means that is not the answer hoped for.
    fn unexpected(&self, frame: &Frame) -> MoveError {
        let server = self.server.clone();
        match frame {
            Frame::Refused { code: RefusalCode::NotFound, text } => {
                MoveError::PathNotFound { server, detail: text.clone() }
            }
            Frame::Refused { text, .. } => MoveError::Refused { server, detail: text.clone() },
            _ => self.protocol_error("it answered out of turn".to_owned()),
        }
    }
}

fn resolve(server: &Server) -> Result<Vec<SocketAddr>, MoveError> {
    let addresses = (server.host.as_str(), server.port).to_socket_addrs();
    addresses.map(Iterator::collect).map_err(|error| unknown_host(server, &error.to_string()))
}

fn unknown_host(server: &Server, detail: &str) -> MoveError {
    MoveError::UnknownHost { server: server.clone(), detail: detail.to_owned() }
}

fn connect_error(server: &Server, error: &std::io::Error) -> MoveError {
    let server = server.clone();
    match error.kind() {
        std::io::ErrorKind::TimedOut => MoveError::TimedOut { server, seconds: CONNECT_SECONDS },
        std::io::ErrorKind::ConnectionRefused => {
            MoveError::Unreachable { detail: format!("nothing listens on port {}", server.port), server }
        }
        _ => MoveError::Unreachable { server, detail: error.to_string() },
    }
}

/// Runs the jobs at once, each on a thread, and gives their results in the jobs' order.
///
/// # Errors
/// When the user stops it: the threads are left to their time-outs.
pub(crate) fn at_once<T: Send + 'static>(
    jobs: Vec<Box<dyn FnOnce() -> T + Send>>,
    stop: &Stop,
) -> Result<Vec<T>, MoveError> {
    let (done, results) = mpsc::channel();
    let count = jobs.len();
    for (index, job) in jobs.into_iter().enumerate() {
        let done = done.clone();
        let run = move || {
            // Nobody listens any more once the user has stopped it.
            let _ = done.send((index, job()));
        };
        net::spawn_helper("inhaul-connect", run)?;
    }
    drop(done);
    let mut ordered: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut missing = count;
    while missing > 0 {
        if stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        match results.recv_timeout(STOP_LOOK) {
            Ok((index, result)) => {
                ordered[index] = Some(result);
                missing -= 1;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(MoveError::Internal("a thread that connects has died".to_owned()));
            }
        }
    }
    Ok(ordered.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn server(host: &str, port: u16) -> Server {
        Server { host: host.to_owned(), port }
    }

    #[test]
    fn connect_tells_an_unknown_host_from_one_where_nothing_listens() {
        let unknown = Session::connect(&server("no-such-host.invalid", 1), SessionRole::Fetch, "gtp").unwrap_err();
        assert!(matches!(unknown, MoveError::UnknownHost { .. }), "{unknown}");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nothing = Session::connect(&server("127.0.0.1", port), SessionRole::Fetch, "gtp").unwrap_err();
        assert!(matches!(nothing, MoveError::Unreachable { .. }), "{nothing}");
    }

    #[test]
    fn connect_says_when_something_else_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = std::thread::spawn(move || {
            use std::io::Write;
            let (mut tcp, _) = listener.accept().unwrap();
            tcp.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        });
        let error = Session::connect(&server("127.0.0.1", port), SessionRole::Fetch, "gtp").unwrap_err();
        other.join().unwrap();
        assert!(matches!(error, MoveError::Protocol { .. }), "{error}");
    }

    #[test]
    fn at_once_keeps_the_order() {
        let jobs: Vec<Box<dyn FnOnce() -> usize + Send>> = (0..5usize).map(|k| Box::new(move || k) as _).collect();
        assert_eq!(at_once(jobs, &Stop::new()).unwrap(), [0, 1, 2, 3, 4]);
    }
}
