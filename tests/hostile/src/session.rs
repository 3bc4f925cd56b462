//! A session by hand: frames by the rules, or whatever bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use inhaul_mover::frame::{Frame, FrameError, SessionRole, VERSION, framed};

/// How long anything of a session may take that is expected to come.
const STEP: Duration = Duration::from_secs(10);

/// The version of the session protocol that the program under test speaks.
pub fn session_version() -> u16 {
    std::env::var("INHAUL_SESSION").ok().and_then(|text| text.parse().ok()).unwrap_or(VERSION)
}

/// What came from the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A frame.
    Frame(Frame),
    /// Bytes that are no frame.
    Garbled(FrameError),
    /// It closed the stream, or reset it.
    End,
    /// Nothing, in the time that was given.
    Silence,
}

impl Heard {
    /// The frame that was heard; it fails if it was anything else.
    pub fn frame(self) -> Frame {
        match self {
            Self::Frame(frame) => frame,
            other => panic!("a frame was expected, not {other:?}"),
        }
    }
}

/// One end of a session's TCP connection: a client's, or a hostile server's.
#[derive(Debug)]
pub struct Session {
    tcp: TcpStream,
    bytes: Vec<u8>,
    /// How much content the other side wants to be told with a description, by what it has asked for last.
    early: u32,
}

impl Session {
    /// Connects to a server and says nothing.
    ///
    /// # Errors
    /// When the connection does not come about.
    pub fn connect(server: SocketAddr) -> std::io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&server, STEP)?)
    }

    /// One end of this connection.
    ///
    /// # Errors
    /// When the connection is no more.
    pub fn over(tcp: TcpStream) -> std::io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(Some(STEP))?;
        Ok(Self { tcp, bytes: Vec::new(), early: 0 })
    }

    /// The connection itself.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// This end's address.
    pub fn local_ip(&self) -> IpAddr {
        self.tcp.local_addr().unwrap().ip()
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.tcp.peer_addr().unwrap()
    }

    /// Whether the other side waits for a data set's content behind its description.
    pub fn wants_content(&self) -> bool {
        self.early > 0
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// When the other side has gone, or takes nothing for ten seconds.
    pub fn send(&mut self, frame: &Frame) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.send_bytes(&bytes)
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// When the other side has gone, or takes nothing for ten seconds.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.tcp.write_all(bytes)
    }

    /// Sends a frame of this kind with this body, whatever they are, with its checksum.
    ///
    /// # Errors
    /// When the other side has gone, or takes nothing for ten seconds.
    pub fn send_raw(&mut self, kind: u8, body: &[u8]) -> std::io::Result<()> {
        self.send_bytes(&framed(kind, body))
    }

    /// The next frame, which is waited for at most for `within`.
    pub fn receive(&mut self, within: Duration) -> Heard {
        let deadline = Instant::now() + within;
        loop {
            match Frame::parse(&self.bytes) {
                Ok(Some((frame, len))) => {
                    self.bytes.drain(..len);
                    if let Frame::Open { early, .. } = frame {
                        self.early = early;
                    }
                    return Heard::Frame(frame);
                }
                Ok(None) => {}
                Err(error) => return Heard::Garbled(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // A time-out of zero would mean none.
            self.tcp.set_read_timeout(Some(left.max(Duration::from_millis(1)))).unwrap();
            let mut piece = [0; 1 << 16];
            match self.tcp.read(&mut piece) {
                Ok(0) => return Heard::End,
                Ok(len) => self.bytes.extend_from_slice(&piece[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline {
                        return Heard::Silence;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Heard::End,
            }
        }
    }

    /// The next frame, which must come within ten seconds.
    pub fn expect(&mut self) -> Frame {
        self.receive(STEP).frame()
    }

    /// Greets a server, as one who has come for `role`, and gives its UDP port.
    pub fn hello(&mut self, role: SessionRole, transport: &str) -> u16 {
        self.send(&Frame::Hello {
            version: session_version(),
            role,
            transport: transport.to_owned(),
            parameters: vec![],
        })
        .unwrap();
        match self.expect() {
            Frame::Welcome { udp_port, .. } => udp_port,
            other => panic!("a welcome was expected, not {other:?}"),
        }
    }

    /// Asks for what lies at `path`, and gives its manifest's bytes or what came instead.
    ///
    /// # Errors
    /// What came instead of a manifest.
    pub fn open(&mut self, path: &str) -> Result<Vec<u8>, Heard> {
        let open = Frame::Open { path: path.to_owned(), owner: false, attributes: false, early: 0 };
        self.send(&open).map_err(|_| Heard::End)?;
        let mut manifest = Vec::new();
        loop {
            match self.receive(STEP) {
                Heard::Frame(Frame::DataSet { last, bytes }) => {
                    manifest.extend_from_slice(&bytes);
                    if last {
                        return Ok(manifest);
                    }
                }
                other => return Err(other),
            }
        }
    }

    /// Closes the connection so that the other side sees a reset.
    pub fn reset(self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.tcp, Some(Duration::ZERO));
    }
}
