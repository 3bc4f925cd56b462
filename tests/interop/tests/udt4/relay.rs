//! A bad network between two UDP ports of this host: it loses, delays and repeats datagrams, by a seed.

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

/// Stands between a client, who speaks to [`Relay::port`], and a server.
pub(crate) struct Relay {
    port: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// A relay to the server at `server`.
    pub(crate) fn to(server: u16, harm: Harm, seed: u64) -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (near, far) = (Arc::new(bind()), Arc::new(bind()));
        let port = near.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let client = Arc::new(Mutex::new(None));
        let server = Arc::new(Mutex::new(Some(SocketAddr::from(([127, 0, 0, 1], server)))));
        let directions = [(near.clone(), far.clone(), client.clone(), server.clone()), (far, near, server, client)];
        let threads = (0..).zip(directions).map(|(stream, (from, to, sender, receiver))| {
            let (stop, random) = (stop.clone(), RandomStream::new(seed, stream));
            std::thread::spawn(move || carry(&from, &to, (&sender, &receiver), harm, random, &stop))
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

type Address = Mutex<Option<SocketAddr>>;

/// Carries datagrams in one direction.
fn carry(
    from: &UdpSocket,
    to: &UdpSocket,
    (sender, receiver): (&Address, &Address),
    harm: Harm,
    mut random: RandomStream,
    stop: &AtomicBool,
) {
    let mut late: BinaryHeap<Reverse<(Instant, Vec<u8>)>> = BinaryHeap::new();
    let mut memory = [0; 2048];
    let mut happens = |share| random.chance(Probability::new(share).unwrap());
    let send = |bytes: &[u8]| {
        if let Some(address) = *receiver.lock().unwrap() {
            let _ = to.send_to(bytes, address);
        }
    };
    while !stop.load(Ordering::Relaxed) {
        let next = late.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        let wait =
            next.unwrap_or(Duration::from_millis(50)).clamp(Duration::from_micros(50), Duration::from_millis(50));
        from.set_read_timeout(Some(wait)).unwrap();
        if let Ok((len, address)) = from.recv_from(&mut memory) {
            sender.lock().unwrap().get_or_insert(address);
            let bytes = &memory[..len];
            if !happens(harm.loss) {
                for _ in 0..=usize::from(happens(harm.duplication)) {
                    if happens(harm.reordering) {
                        late.push(Reverse((Instant::now() + harm.late, bytes.to_vec())));
                    } else {
                        send(bytes);
                    }
                }
            }
        }
        while late.peek().is_some_and(|Reverse((at, _))| *at <= Instant::now()) {
            if let Some(Reverse((_, bytes))) = late.pop() {
                send(&bytes);
            }
        }
    }
}
