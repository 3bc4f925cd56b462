//! The rate of this host's TCP: by how much its sockets' received bytes grow.

use std::io;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::TcpFlows;

use super::sock_diag::{SockDiag, TcpSocket};

/// Time between looks ...
pub(super) const LOOK: Span = Span::from_millis(250);
/// ... and if there are more sockets than a look covers.
const LOOK_SELDOM: Span = Span::from_secs(1);
/// Most sockets of one look.
const SOCKETS_MAX: usize = 4_000;
/// Bytes of headers of a segment: IPv4, TCP and its time stamps; and what IPv6 adds.
const HEADERS: u64 = 52;
const HEADERS_V6: u64 = 20;
/// Fewest bytes of data of a segment of bulk traffic.
const SEGMENT_MIN: u64 = 500;
/// Looks at the TCP sockets of this network namespace.
#[derive(Debug, Default)]
pub(super) struct HostTcp {
    diag: Option<SockDiag>,
    refused: bool,
    /// The received bytes of each socket at the last look, by the kernel's cookie.
    seen: Vec<Seen>,
    /// When that was, and whether all sockets were seen; `None` before the first look.
    last: Option<(Time, bool)>,
    due: Time,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    cookie: u64,
    received: u64,
}

impl HostTcp {
    /// Looks if a look is due. Returns the rate of this host's TCP, if it is known.
    pub(super) fn look(&mut self, now: Time) -> Option<TcpFlows> {
        if self.refused || now < self.due {
            return None;
        }
        let mut sockets = Vec::new();
        match self.list(&mut sockets) {
            Ok(all) => {
                self.due = now + if all { LOOK } else { LOOK_SELDOM };
                self.take(now, all, &sockets)
            }
            Err(error) => {
                log::debug!("the host's TCP is not seen: {error}");
                self.refused = true;
                None
            }
        }
    }

    fn list(&mut self, sockets: &mut Vec<TcpSocket>) -> io::Result<bool> {
        let mut diag = self.diag.take().map_or_else(SockDiag::open, Ok)?;
        let all = diag.sockets(SOCKETS_MAX, &mut |socket| sockets.push(socket))?;
        // The unread rest of a dump is dropped with its socket.
        self.diag = all.then_some(diag);
        Ok(all)
    }

    fn take(&mut self, now: Time, all: bool, sockets: &[TcpSocket]) -> Option<TcpFlows> {
        let last = self.last.replace((now, all));
        let before = std::mem::take(&mut self.seen);
        let passed = now.since(last.map_or(now, |(at, _)| at)).max(Span::from_millis(1));
        let mut rates = Vec::new();
        for socket in sockets.iter().filter(|socket| !socket.is_local) {
            let known = before.binary_search_by_key(&socket.cookie, |seen| seen.cookie).ok();
            let known = known.and_then(|at| before.get(at));
            // A new socket has received all of its bytes since the last look.
            let since = known.map(|seen| seen.received).or(last.filter(|(_, all)| *all).map(|_| 0));
            let grew = since.map_or(0, |since| socket.received.saturating_sub(since));
            if grew > 0 {
                rates.push(Bitrate::of(with_headers(socket, grew), passed));
            }
            self.seen.push(Seen { cookie: socket.cookie, received: socket.received });
        }
        self.seen.sort_unstable_by_key(|seen| seen.cookie);
        last.map(|_| TcpFlows::of(rates))
    }
}

/// The bytes of the packets that carried `data` bytes.
fn with_headers(socket: &TcpSocket, data: u64) -> u64 {
    let headers = HEADERS + if socket.peer.is_ipv6() { HEADERS_V6 } else { 0 };
    let segment = u64::from(socket.segment).max(SEGMENT_MIN);
    data.saturating_add((data / segment).saturating_mul(headers))
}

/// The number of TCP sockets that can be seen on this host, without loopback.
///
/// When the kernel, or a system call filter, refuses.
pub fn tcp_sockets_seen() -> io::Result<usize> {
    let mut count = 0;
    SockDiag::open()?.sockets(SOCKETS_MAX, &mut |socket| count += usize::from(!socket.is_local))?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn socket(cookie: u64, received: u64) -> TcpSocket {
        let peer = [192, 0, 2, 2].into();
        TcpSocket { cookie, peer, is_local: false, received, segment: 1_448 }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn take(host: &mut HostTcp, millis: u64, sockets: &[TcpSocket]) -> Option<Vec<u64>> {
        let flows = host.take(at(millis), true, sockets)?;
        Some(flows.rates().map(Bitrate::bps).collect())
    }

    #[test]
    fn take_gives_growth_as_rates_with_headers() {
        let mut host = HostTcp::default();
        assert_eq!(take(&mut host, 0, &[socket(9, 1_000_000), socket(3, 0)]), None);
        // 100 segments of one and 50 of one that is new, in 250 ms.
        let now = [socket(9, 1_144_800), socket(3, 0), socket(4, 72_400)];
        assert_eq!(take(&mut host, 250, &now), Some(vec![4_800_000, 2_400_000]));
        // It ended, and nothing more came of the others.
        assert_eq!(take(&mut host, 500, &now[..2]), Some(Vec::new()));
        // What is taken back is nothing.
        assert_eq!(take(&mut host, 750, &[socket(9, 7)]), Some(Vec::new()));
    }

    #[test]
    fn take_leaves_out_this_host() {
        let mut host = HostTcp::default();
        let sockets = |received| [TcpSocket { is_local: true, ..socket(1, received) }];
        take(&mut host, 0, &sockets(0));
        assert_eq!(take(&mut host, 250, &sockets(1_000_000)), Some(Vec::new()));
    }

    /// What a look costs: `cargo test --release -p inhaul-udp -- --ignored --nocapture cost_of_a_look`.
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_a_look() {
        for pairs in [5, 500, 1_500] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let open = |_| {
                let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (stream, listener.accept().unwrap().0)
            };
            let _open: Vec<_> = (0..pairs).map(open).collect();
            let mut host = HostTcp::default();
            let mut costs: Vec<u128> = (0..200u64)
                .map(|look| {
                    let begun = std::time::Instant::now();
                    host.look(at(look * 1_000));
                    begun.elapsed().as_micros()
                })
                .collect();
            costs.sort_unstable();
            println!("{} sockets: {} us, at most {} us", 2 * pairs, costs[100], costs[199]);
        }
    }
}
