//! Background UDP: a sender that does not react to the network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use inhaul_mover::Stop;
use serde::{Deserialize, Serialize};

/// Where they go to.
pub(super) const DATAGRAM_PORT: u16 = 4323;
/// IPv4 and UDP headers, in bytes.
const HEADERS: usize = 28;
/// Datagrams that are later than this are not sent any more: their time has passed.
const LATENESS_KEPT: Duration = Duration::from_millis(10);

/// The datagrams of one sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DatagramJob {
    pub(super) to: SocketAddr,
    /// Bits per second while it flows, headers included.
    pub(super) rate: u64,
    /// Length of each packet with all headers from IP up, in bytes.
    pub(super) packet_bytes: u16,
    /// When it flows: begins and ends, in seconds.
    pub(super) spells: Vec<(f64, f64)>,
}

/// Sends until the last spell is over or `stop` is set.
pub(super) fn send(job: &DatagramJob, began: Instant, stop: &Stop) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(job.to)?;
    let body = vec![0; usize::from(job.packet_bytes).saturating_sub(HEADERS)];
    let gap = Duration::from_secs_f64(f64::from(job.packet_bytes) * 8.0 / job.rate.max(1) as f64);
    for (from, to) in &job.spells {
        let (mut next, end) = (Duration::from_secs_f64(*from), Duration::from_secs_f64(*to));
        while next < end && !stop.is_set() {
            let now = began.elapsed();
            if now < next {
                thread::sleep((next - now).min(Duration::from_millis(100)));
                continue;
            }
            next = next.max(now.saturating_sub(LATENESS_KEPT));
            // A full buffer and a receiver that is not there yet lose packets, as the network does.
            let _ = socket.send(&body);
            next += gap;
        }
    }
    Ok(())
}

/// A socket that receives the datagrams and is never read. Without it the receiver's kernel would answer each of them.
pub(super) fn sink(at: IpAddr) -> io::Result<UdpSocket> {
    UdpSocket::bind((at, DATAGRAM_PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_keeps_to_its_spells_and_its_rate() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        sink.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        // 100 packets of 100 bytes at 8 Mbit/s take 10 ms; two spells of 5 ms have 50 each.
        let job = DatagramJob {
            to: sink.local_addr().unwrap(),
            rate: 8_000_000,
            packet_bytes: 100,
            spells: vec![(0.0, 0.005), (0.05, 0.055)],
        };
        let began = Instant::now();
        send(&job, began, &Stop::new()).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(50));
        let mut buffer = [0; 200];
        let lengths: Vec<usize> = std::iter::from_fn(|| sink.recv(&mut buffer).ok()).collect();
        assert!((1..=100).contains(&lengths.len()) && lengths.iter().all(|len| *len == 72), "{lengths:?}");
    }

    #[test]
    fn send_stops_when_it_is_told() {
        let to = "127.0.0.1:9".parse().unwrap();
        let job = DatagramJob { to, rate: 1_000, packet_bytes: 1500, spells: vec![(0.0, 1e9)] };
        let stop = Stop::new();
        stop.stop();
        send(&job, Instant::now(), &stop).unwrap();
    }
}
