//! A session by hand: frames by the rules, or any bytes.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use inhaul_identity::Rights;
use inhaul_mover::control_stream::{ControlStream, StreamError};
use inhaul_mover::frame::{Frame, FrameError, SessionRole, VERSION, framed};
use inhaul_mover::{Server, ServerIdentity, Trust, UnknownServer};

use crate::datagram::FlowSeal;

/// How long anything of a session may take that is expected to come.
const STEP: Duration = Duration::from_secs(10);

/// The version of the session protocol that the program under test speaks.
pub fn session_version() -> u16 {
    std::env::var("INHAUL_SESSION").ok().and_then(|text| text.parse().ok()).unwrap_or(VERSION)
}

/// A message from the other side.
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

/// One end of a session's connection: a client's, or a hostile server's. It is secured when the first is sent or heard.
#[derive(Debug)]
pub struct Session {
    tcp: TcpStream,
    way: Way,
    /// How much content the other side wants with a description, by its last request.
    early: u32,
}

/// How far a connection is secured.
#[derive(Debug)]
enum Way {
    /// Not at all yet; as the side that connects, or as a server.
    Bare {
        /// Whether it is the server's end.
        is_server: bool,
    },
    Secured(Box<ControlStream>),
    /// No secure connection came about. Has the message in the clear, if it was a frame.
    Failed(Option<Frame>),
}

impl Session {
    /// Connects to a server and says nothing.
    ///
    /// # Errors
    /// When the connection does not come about.
    pub fn connect(server: SocketAddr) -> std::io::Result<Self> {
        Self::new(TcpStream::connect_timeout(&server, STEP)?, false)
    }

    /// The server's end of this connection.
    ///
    /// # Errors
    /// When the connection is no more.
    pub fn over(tcp: TcpStream) -> std::io::Result<Self> {
        Self::new(tcp, true)
    }

    fn new(tcp: TcpStream, is_server: bool) -> std::io::Result<Self> {
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(Some(STEP))?;
        Ok(Self { tcp, way: Way::Bare { is_server }, early: 0 })
    }

    /// The secured connection; `None` if none came about.
    fn secured(&mut self) -> Option<&mut ControlStream> {
        if let Way::Bare { is_server } = self.way {
            self.way = self.secure(is_server);
        }
        match &mut self.way {
            Way::Secured(stream) => Some(stream),
            Way::Bare { .. } | Way::Failed(_) => None,
        }
    }

    fn secure(&self, is_server: bool) -> Way {
        let Ok(tcp) = self.tcp.try_clone() else { return Way::Failed(None) };
        let deadline = Instant::now() + STEP;
        let secured = if is_server {
            ControlStream::secured_server(tcp, identity(), deadline)
        } else if clear_word(&self.tcp) {
            // It is read as it stands there.
            let mut stream = ControlStream::new(tcp).unwrap();
            return Way::Failed(stream.receive(deadline).ok());
        } else {
            let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
            let server = Server::new(self.peer().ip().to_string(), self.peer().port());
            ControlStream::secured_client(tcp, &server, &trust, deadline)
        };
        match secured {
            Ok(stream) => Way::Secured(Box::new(stream)),
            Err(error) => {
                println!("no secure session: {error}");
                Way::Failed(None)
            }
        }
    }

    /// The keys of the session's one flow.
    ///
    /// # Panics
    /// When there is no secure connection, or its keys have been taken.
    pub fn flow_seal(&mut self) -> FlowSeal {
        let stream = self.secured().expect("the session is secure");
        FlowSeal::new(&stream.take_flow_secrets().unwrap().expect("datagrams are sealed"))
    }

    /// What streams show that are to carry the session's datagrams.
    ///
    /// # Panics
    /// When there is no secure connection.
    pub fn tunnel_token(&mut self) -> u128 {
        self.secured().and_then(|stream| stream.tunnel_token()).expect("the session is secure")
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
        let stream = self.secured().ok_or(ErrorKind::NotConnected)?;
        stream.queue_bytes(bytes).and_then(|()| stream.write_all(Instant::now() + STEP)).map_err(std::io::Error::other)
    }

    /// Sends a frame of any kind with any body, with its checksum.
    ///
    /// # Errors
    /// When the other side has gone, or takes nothing for ten seconds.
    pub fn send_raw(&mut self, kind: u8, body: &[u8]) -> std::io::Result<()> {
        self.send_bytes(&framed(kind, body))
    }

    /// The next frame, which is waited for at most for `within`.
    pub fn receive(&mut self, within: Duration) -> Heard {
        let deadline = Instant::now() + within.max(Duration::from_millis(1));
        let Some(stream) = self.secured() else {
            let Way::Failed(said) = &mut self.way else { return Heard::End };
            return said.take().map_or(Heard::End, Heard::Frame);
        };
        match stream.receive(deadline) {
            Ok(frame) => {
                if let Frame::Open { early, .. } = frame {
                    self.early = early;
                }
                Heard::Frame(frame)
            }
            Err(StreamError::Frame(error)) => Heard::Garbled(error),
            Err(StreamError::TimedOut) => Heard::Silence,
            Err(_) => Heard::End,
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

    /// Requests `path`, and returns its manifest's bytes, or the other answer.
    ///
    /// # Errors
    /// The answer that is no manifest.
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

/// Who the hostile servers of this process are.
fn identity() -> &'static ServerIdentity {
    static IDENTITY: OnceLock<ServerIdentity> = OnceLock::new();
    IDENTITY.get_or_init(|| ServerIdentity::passing(Rights::NONE).unwrap())
}

/// Whether a server has said something before it was spoken to: that is in the clear.
fn clear_word(tcp: &TcpStream) -> bool {
    tcp.set_nonblocking(true).unwrap();
    let peeked = tcp.peek(&mut [0]);
    tcp.set_nonblocking(false).unwrap();
    matches!(peeked, Ok(1))
}
