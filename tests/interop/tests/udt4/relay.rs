//! A bad network between two UDP ports of this host: it loses, delays and repeats datagrams, by a seed. Somebody may
//! stand at its side ([`Tap`]), who sees each datagram and adds others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inhaul_base::{Probability, RandomStream};

/// What happens to datagrams.
#[derive(Clone, Copy)]
pub(crate) struct Harm {
    /// Share that is lost.
    pub(crate) loss: f64,
    /// Share that is late by up to `late`, and so overtaken.
    pub(crate) reordering: f64,
    pub(crate) late: Duration,
    /// Share that comes twice.
    pub(crate) duplication: f64,
}

impl Harm {
    /// A good network.
    pub(crate) const NONE: Self = Self { loss: 0.0, reordering: 0.0, late: Duration::ZERO, duplication: 0.0 };
}

/// Who stands at the side.
pub(crate) trait Tap: Send {
    /// A datagram has come, and goes to the server or to the client.
    fn see(&mut self, to_server: bool, datagram: &[u8]);

    /// Further datagrams to the server now: from the client's address or from another one.
    fn forge(&mut self) -> Vec<Forged> {
        Vec::new()
    }
}

/// A datagram to the server that the client did not send.
pub(crate) struct Forged {
    pub(crate) datagram: Vec<u8>,
    /// Whether it comes from where the client's come from.
    pub(crate) from_client: bool,
}

/// No attacker.
struct Nobody;

impl Tap for Nobody {
    fn see(&mut self, _: bool, _: &[u8]) {}
}

/// Stands between a client, who speaks to [`Relay::port`], and a server.
pub(crate) struct Relay {
    port: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// A relay to the server at `server`.
    pub(crate) fn to(server: u16, harm: Harm, seed: u64) -> Self {
        Self::tapped(server, harm, seed, &Arc::new(Mutex::new(Nobody)))
    }

    /// A relay with somebody at its side.
    pub(crate) fn tapped(server: u16, harm: Harm, seed: u64, tap: &Arc<Mutex<impl Tap + 'static>>) -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (near, far) = (Arc::new(bind()), Arc::new(bind()));
        let port = near.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let (client, server) = (Arc::new(Mutex::new(None)), SocketAddr::from(([127, 0, 0, 1], server)));
        let server = Arc::new(Mutex::new(Some(server)));
        let way = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, sender: &Address, receiver: &Address, stream| Way {
            from: from.clone(),
            to: to.clone(),
            stranger: bind(),
            sender: sender.clone(),
            receiver: receiver.clone(),
            to_server: stream == 0,
            harm,
            random: RandomStream::new(seed, stream),
        };
        let ways = [way(&near, &far, &client, &server, 0), way(&far, &near, &server, &client, 1)];
        let threads = ways.into_iter().map(|mut way| {
            let (stop, tap) = (stop.clone(), tap.clone());
            std::thread::spawn(move || way.carry(&*tap, &stop))
        });
        Self { port, threads: threads.collect(), stop }
    }

    /// Where the client must send to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

type Address = Arc<Mutex<Option<SocketAddr>>>;

/// One direction.
struct Way {
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    stranger: UdpSocket,
    sender: Address,
    receiver: Address,
    to_server: bool,
    harm: Harm,
    random: RandomStream,
}

impl Way {
    /// Carries datagrams until the stop command.
    fn carry(&mut self, tap: &Mutex<impl Tap>, stop: &AtomicBool) {
        let mut late: BinaryHeap<Reverse<(Instant, Vec<u8>)>> = BinaryHeap::new();
        let mut memory = [0; 2048];
        let longest = Duration::from_millis(50);
        while !stop.load(Ordering::Relaxed) {
            let next = late.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
            let wait = next.unwrap_or(longest).clamp(Duration::from_micros(50), longest);
            self.from.set_read_timeout(Some(wait)).unwrap();
            if let Ok((len, address)) = self.from.recv_from(&mut memory) {
                self.sender.lock().unwrap().get_or_insert(address);
                self.pass(&memory[..len], &mut late);
                let mut tap = tap.lock().unwrap();
                tap.see(self.to_server, &memory[..len]);
                let forged = if self.to_server { tap.forge() } else { Vec::new() };
                drop(tap);
                for Forged { datagram, from_client } in forged {
                    self.send(if from_client { &self.to } else { &self.stranger }, &datagram);
                }
            }
            while late.peek().is_some_and(|Reverse((at, _))| *at <= Instant::now()) {
                if let Some(Reverse((_, bytes))) = late.pop() {
                    self.send(&self.to, &bytes);
                }
            }
        }
    }

    /// The network's effect on a datagram.
    fn pass(&mut self, bytes: &[u8], late: &mut BinaryHeap<Reverse<(Instant, Vec<u8>)>>) {
        if self.happens(self.harm.loss) {
            return;
        }
        for _ in 0..=usize::from(self.happens(self.harm.duplication)) {
            if self.happens(self.harm.reordering) {
                late.push(Reverse((Instant::now() + self.harm.late, bytes.to_vec())));
            } else {
                self.send(&self.to, bytes);
            }
        }
    }

    fn happens(&mut self, share: f64) -> bool {
        self.random.chance(Probability::new(share).unwrap())
    }

    fn send(&self, by: &UdpSocket, bytes: &[u8]) {
        if let Some(address) = *self.receiver.lock().unwrap() {
            let _ = by.send_to(bytes, address);
        }
    }
}
