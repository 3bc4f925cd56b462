//! A relay between a client and a server, TCP and UDP, that damages what passes.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inhaul_base::RandomStream;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

/// The relay's address: the session names the server's UDP port, so relay and server must differ by address.
const HOST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How often a thread looks whether it should stop.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes of a socket's buffer: the relay itself should lose nothing.
const BUFFER: usize = 8 << 20;

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

type Datagrams = dyn FnMut(Direction, Vec<u8>) -> Vec<Vec<u8>> + Send;
type Stream = dyn FnMut(Direction, &mut Vec<u8>) + Send;

/// A relay that listens at 127.0.0.2 on the server's port.
pub struct Relay {
    /// Where clients find it.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    datagrams: Mutex<Box<Datagrams>>,
    stream: Mutex<Box<Stream>>,
    stop: AtomicBool,
    udp_blocked: AtomicBool,
    delay_us: AtomicU64,
    /// Most that a datagram is delayed beside that, each by chance, which reorders them.
    jitter_us: AtomicU64,
    /// Counts resets: connections of an earlier count are reset.
    resets: AtomicU64,
    /// Counts changes of the sender's side's address.
    rebinds: AtomicU64,
    passed: AtomicU64,
}

impl Relay {
    /// A relay to `server` that damages nothing.
    pub fn honest(server: SocketAddr) -> Self {
        Self::start(server, |_, datagram| vec![datagram])
    }

    /// A relay that sends on what `datagrams` makes of each datagram.
    pub fn start(
        server: SocketAddr,
        datagrams: impl FnMut(Direction, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        Self::with_stream(server, datagrams, |_, _| {})
    }

    /// The same, and `stream` may change the bytes of TCP as they pass.
    pub fn with_stream(
        server: SocketAddr,
        datagrams: impl FnMut(Direction, Vec<u8>) -> Vec<Vec<u8>> + Send + 'static,
        stream: impl FnMut(Direction, &mut Vec<u8>) + Send + 'static,
    ) -> Self {
        let address = SocketAddr::from((HOST, server.port()));
        let (tcp, udp) = (TcpListener::bind(address).unwrap(), udp_socket(address));
        let shared = Arc::new(Shared {
            server,
            datagrams: Mutex::new(Box::new(datagrams)),
            stream: Mutex::new(Box::new(stream)),
            stop: AtomicBool::new(false),
            udp_blocked: AtomicBool::new(false),
            delay_us: AtomicU64::new(0),
            jitter_us: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            rebinds: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let relaying = Arc::clone(&shared);
        let threads = vec![
            std::thread::spawn(move || accepting.accept(&tcp)),
            std::thread::spawn(move || relaying.from_clients(udp)),
        ];
        Self { address, shared, threads }
    }

    /// The address of `path` at the server, by way of the relay.
    pub fn source(&self, path: &str) -> String {
        format!("inhaul://{}{path}", self.address)
    }

    /// Loses all datagrams from now on, or no longer.
    pub fn block_udp(&self, blocked: bool) {
        self.shared.udp_blocked.store(blocked, Ordering::Relaxed);
    }

    /// Delays every datagram by this much from now on.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Delays each datagram at random by up to this much more from now on, so that they overtake each other.
    pub fn jitter(&self, most: Duration) {
        self.shared.jitter_us.store(most.as_micros() as u64, Ordering::Relaxed);
    }

    /// Resets all connections; new ones are relayed.
    pub fn reset_tcp(&self) {
        self.shared.resets.fetch_add(1, Ordering::Relaxed);
    }

    /// Clients' datagrams come to the server from other ports from now on, as behind a NAT that has forgotten them.
    pub fn rebind(&self) {
        self.shared.rebinds.fetch_add(1, Ordering::Relaxed);
    }

    /// Datagrams that have come to it, both ways.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A UDP socket with a large buffer that never waits for long.
fn udp_socket(address: SocketAddr) -> UdpSocket {
    let udp = UdpSocket::bind(address).unwrap();
    // Beyond the system's limit, where this user may.
    if set_socket_recv_buffer_size_force(&udp, BUFFER).is_err() {
        let _ = set_socket_recv_buffer_size(&udp, BUFFER);
    }
    udp
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn accept(self: Arc<Self>, tcp: &TcpListener) {
        while let Ok((client, _)) = tcp.accept() {
            if self.stopped() {
                return;
            }
            let Ok(server) = TcpStream::connect_timeout(&self.server, Duration::from_secs(5)) else { continue };
            let (client, server) = (Arc::new(client), Arc::new(server));
            let born = self.resets.load(Ordering::Relaxed);
            for (from, to, way) in [(&client, &server, Direction::ToServer), (&server, &client, Direction::ToClient)] {
                let (from, to, shared) = (Arc::clone(from), Arc::clone(to), Arc::clone(&self));
                std::thread::spawn(move || shared.carry(&from, &to, way, born));
            }
        }
    }

    /// Carries one direction of a connection that was made after this many resets.
    fn carry(&self, mut from: &TcpStream, mut to: &TcpStream, way: Direction, born: u64) {
        let _ = (from.set_nodelay(true), from.set_read_timeout(Some(GLANCE)));
        let mut buffer = vec![0; 1 << 16];
        while !self.stopped() {
            if self.resets.load(Ordering::Relaxed) != born {
                // The last of the two threads closes both sockets, which resets them.
                let _ = (set_socket_linger(from, Some(Duration::ZERO)), set_socket_linger(to, Some(Duration::ZERO)));
                return;
            }
            match from.read(&mut buffer) {
                Ok(0) => {
                    let _ = to.shutdown(std::net::Shutdown::Write);
                    return;
                }
                Ok(len) => {
                    let mut bytes = buffer[..len].to_vec();
                    (lock(&self.stream))(way, &mut bytes);
                    if to.write_all(&bytes).is_err() {
                        let _ = from.shutdown(std::net::Shutdown::Both);
                        return;
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => {
                    let _ = to.shutdown(std::net::Shutdown::Both);
                    return;
                }
            }
        }
    }

    /// Carries datagrams of all clients to the server; a thread for each client carries the answers.
    fn from_clients(self: Arc<Self>, udp: UdpSocket) {
        let udp = Arc::new(udp);
        let mut upstream: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
        let mut rebinds = 0;
        let mut threads = Vec::new();
        let mut line = Line::default();
        while !self.stopped() {
            let now = self.rebinds.load(Ordering::Relaxed);
            if now != rebinds {
                rebinds = now;
                upstream.clear();
            }
            if let Some((datagram, client)) = line.receive(&udp) {
                let towards = upstream.entry(client).or_insert_with(|| {
                    let socket = Arc::new(udp_socket(SocketAddr::from(([127, 0, 0, 1], 0))));
                    let (back, client_side, shared) = (Arc::clone(&socket), Arc::clone(&udp), Arc::clone(&self));
                    threads.push(std::thread::spawn(move || shared.to_client(&back, &client_side, client)));
                    socket
                });
                let socket = Arc::clone(towards);
                self.damage(&mut line, Direction::ToServer, datagram, &socket, self.server);
            }
            line.send_due();
        }
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Carries datagrams from the server at `socket` to a client.
    fn to_client(&self, socket: &UdpSocket, client_side: &Arc<UdpSocket>, client: SocketAddr) {
        let mut line = Line::default();
        while !self.stopped() {
            if let Some((datagram, _)) = line.receive(socket) {
                self.damage(&mut line, Direction::ToClient, datagram, client_side, client);
            }
            line.send_due();
        }
    }

    /// Puts the results of damaging a datagram onto the line.
    fn damage(&self, line: &mut Line, way: Direction, datagram: Vec<u8>, by: &Arc<UdpSocket>, to: SocketAddr) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        if self.udp_blocked.load(Ordering::Relaxed) {
            return;
        }
        let (delay, jitter) = (self.delay_us.load(Ordering::Relaxed), self.jitter_us.load(Ordering::Relaxed));
        for datagram in (lock(&self.datagrams))(way, datagram) {
            let by_chance = if jitter == 0 { 0 } else { line.random.below(jitter) };
            let due = Instant::now() + Duration::from_micros(delay + by_chance);
            line.count += 1;
            line.waiting.insert((due, line.count), (datagram, Arc::clone(by), to));
        }
    }
}

/// A datagram, the socket that sends it and where to.
type Waiting = (Vec<u8>, Arc<UdpSocket>, SocketAddr);

/// Datagrams that are on their way.
struct Line {
    /// By their due times; datagrams due at once stay in order.
    waiting: BTreeMap<(Instant, u64), Waiting>,
    count: u64,
    random: RandomStream,
}

impl Default for Line {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), count: 0, random: RandomStream::new(0, 0) }
    }
}

impl Line {
    /// The next datagram at `socket`, waited for until something on the line is due.
    fn receive(&self, socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
        let due = self.waiting.keys().next().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let patience = due.map_or(GLANCE, |due| due.clamp(Duration::from_micros(1), GLANCE));
        socket.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = vec![0; 1 << 16];
        let (len, from) = socket.recv_from(&mut buffer).ok()?;
        buffer.truncate(len);
        Some((buffer, from))
    }

    fn send_due(&mut self) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= Instant::now()) {
            let (datagram, by, to) = first.remove();
            let _ = by.send_to(&datagram, to);
        }
    }
}
