//! Checks of the path from a server: whether UDP passes, its round-trip time, and its MTU.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use inhaul_base::{Bitrate, Span, Time, format_bytes};
use inhaul_udp::{Arrival, Clock, Interest, Interface, Poller, Socket};

use super::finding::{Cost, Finding, Verdict};
use super::kernel::per_second;
use inhaul_engine::engine::probe::{self, ECHO_LEN_MIN, PROBE_LEN, Probe};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::NetOptions;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::Trust;
use inhaul_session::session::connect::{Session, Wanted};
use inhaul_session::session::frame::SessionRole;
use inhaul_session::session::secured;
use inhaul_session::system::sockets::{self, Ends};

/// Small probes that are sent one after another, and how long each may take.
const SMALL_PROBES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(1);
/// Beside two round trips, how long a large probe may take.
const SLACK: Duration = Duration::from_millis(50);
/// Copies of each large probe: one may be lost.
const COPIES: usize = 2;
/// Transfers use no larger packets unless told (a jumbo frame).
const MTU_MAX: u16 = 9000;
/// Sizes that are common, largest first: jumbo frames, Ethernet, and what tunnels and PPP leave of it.
const MTU_COMMON: [u16; 9] = [9000, 8900, 4352, 1500, 1492, 1450, 1400, 1280, 576];
/// What GTP falls back to when the largest size does not pass (kit/WIRE.md 7.1).
const MTU_FALLBACKS: [u16; 3] = [1500, 1280, 576];
/// Of IPv4 and UDP, and of IPv6 and UDP.
const HEADERS_V4: u16 = 28;
const HEADERS_V6: u16 = 48;

/// A server that lets us try the path.
pub(super) struct Path {
    server: Server,
    session: Session,
    prober: Prober,
}

impl Path {
    pub(super) fn open(server: &Server, trust: &Trust) -> Result<Self, MoveError> {
        let mut session = Session::connect(server, SessionRole::Fetch, Wanted::no_data(trust))?;
        let token = session.ask_to_probe()?;
        let prober = Prober::new(session.ends(), token).map_err(MoveError::system("no UDP socket for probes"))?;
        Ok(Self { server: server.clone(), session, prober })
    }

    /// Where probes go.
    pub(super) fn peer(&self) -> SocketAddr {
        self.prober.peer
    }

    /// Tries the path. `interface` is the one that it begins at here.
    pub(super) fn look(
        mut self,
        interface: Option<&Interface>,
        rate: Bitrate,
        note: &mut dyn FnMut(Finding),
    ) -> Result<(), MoveError> {
        if let Some(bytes) = secured::packet_to(&self.server, None) {
            note(tcp_packets(&self.server, bytes));
        }
        let failed = MoveError::system("cannot probe");
        let result = self.prober.examine(&self.server, interface, rate, note).map_err(failed);
        self.session.finish_probing();
        result.and_then(|passes| {
            let detail = format!("none of {SMALL_PROBES} probes came back, though TCP passes");
            passes.then_some(()).ok_or(MoveError::UdpBlocked { server: self.server, detail })
        })
    }
}

/// What it costs that large packets of TCP vanish without a word.
fn tcp_packets(server: &Server, bytes: u16) -> Finding {
    let found = format!(
        "large packets of TCP to or from {server} vanish, and nobody says so; those of {bytes} bytes come through"
    );
    let wait_s = secured::FIRST_TRY.as_secs_f64();
    let cost = Cost::new(1e3 * wait_s, "ms", format!("the first connection takes {wait_s:.0} s longer"));
    Finding::costs("tcp-packets", found, cost).fix([
        format!("inhaul get --mtu {bytes} ..."),
        "let ICMP 'fragmentation needed' (IPv6: 'packet too big') through the firewalls on the way".to_owned(),
    ])
}

/// Sends probes and collects their echoes.
struct Prober {
    socket: Socket,
    peer: SocketAddr,
    token: u64,
    next_number: u32,
    clock: Clock,
    poller: Poller,
}

impl Prober {
    fn new(ends: Ends, token: u64) -> io::Result<Self> {
        let peer = ends.peer;
        let socket = sockets::connect(&NetOptions::default(), ends).map_err(io::Error::other)?;
        let poller = Poller::new()?;
        poller.add(&socket, 0, Interest::Read)?;
        Ok(Self { socket, peer, token, next_number: 0, clock: Clock::start(), poller })
    }

    /// Whether UDP passes at all.
    fn examine(
        &mut self,
        server: &Server,
        interface: Option<&Interface>,
        rate: Bitrate,
        note: &mut dyn FnMut(Finding),
    ) -> io::Result<bool> {
        let mut trips = Vec::new();
        for _ in 0..SMALL_PROBES {
            let asked = self.ask(ECHO_LEN_MIN as u16)?;
            trips.extend(self.collect(&asked, PATIENCE)?.into_iter().map(|(_, trip)| trip));
        }
        let Some(&rtt) = trips.iter().min() else {
            let found = format!("TCP to {server} passes, UDP does not");
            let fix =
                format!("let UDP port {} of that host through the firewalls on the way, as TCP", self.peer.port());
            note(Finding::new("udp", Verdict::Broken, found).fix([fix]));
            return Ok(false);
        };
        note(reachability(server, rtt, trips.len(), rate));
        note(self.segmentation(rtt, rate)?);
        let largest = interface.map_or(1500, |interface| u16::try_from(interface.mtu).unwrap_or(u16::MAX)).min(MTU_MAX);
        let carried = self.path_mtu(largest, rtt)?;
        note(mtu(carried, largest, rate));
        Ok(true)
    }

    /// Sends a probe whose echo is `echo_len` bytes long; gives its number and when it left.
    fn ask(&mut self, echo_len: u16) -> io::Result<(u32, Time)> {
        let probe = self.next_probe(echo_len);
        let sent = self.clock.now();
        sockets::send(&self.socket, self.peer, &[&probe.encode()], None)?;
        Ok((probe.number, sent))
    }

    fn next_probe(&mut self, echo_len: u16) -> Probe {
        self.next_number += 1;
        Probe { token: self.token, number: self.next_number, echo_len }
    }

    /// Waits until an echo of the probe `(number, sent)` has come, or patience is at its end; gives its round-trip
    /// time.
    fn collect(&mut self, &(number, sent): &(u32, Time), patience: Duration) -> io::Result<Option<(u32, Span)>> {
        let deadline = self.clock.now() + Span::from_nanos(patience.as_nanos() as u64);
        let mut memory = vec![0; usize::from(u16::MAX)];
        let mut ready = Vec::new();
        let mut arrivals: Vec<Arrival> = Vec::new();
        loop {
            self.socket.receive(&mut [IoSliceMut::new(&mut memory)], &[1], &mut arrivals)?;
            let now = self.clock.now();
            let echoed: Vec<u32> =
                arrivals.drain(..).flat_map(|arrival| probe::echoes(&mut memory, &arrival, self.token)).collect();
            if echoed.contains(&number) {
                return Ok(Some((number, now.since(sent))));
            }
            if now >= deadline {
                return Ok(None);
            }
            self.poller.sleep_until(self.clock, deadline, &mut ready)?;
        }
    }

    /// Whether the device that the path begins at takes datagrams that the kernel has cut.
    fn segmentation(&mut self, rtt: Span, rate: Bitrate) -> io::Result<Finding> {
        const CHECK: &str = "send-offload";
        let (first, last) = (self.next_probe(ECHO_LEN_MIN as u16), self.next_probe(ECHO_LEN_MIN as u16));
        let sent = self.clock.now();
        let heads = [first.encode(), last.encode()];
        let message = [&heads[0][..], &heads[1][..]];
        let went =
            self.socket.segments() && sockets::send(&self.socket, self.peer, &message, Some(PROBE_LEN as u16)).is_ok();
        if went && self.collect(&(last.number, sent), patience(rtt))?.is_some() {
            return Ok(Finding::ok(CHECK, "datagrams that the kernel cuts (GSO) reach the server"));
        }
        let each = per_second(rate, 1500);
        let text = format!("serving at {rate}, each of {each:.0} packets/s takes a system call of its own");
        Ok(Finding::costs(
            CHECK,
            "datagrams that the kernel cuts (GSO) do not leave",
            Cost::new(each, "packets/s", text),
        )
        .fix(["turn on the device's checksums: sudo ethtool -K DEVICE tx on"]))
    }

    /// The largest IP packet, of at most `largest` bytes, that comes from the server; 0 when none of 576 bytes does.
    fn path_mtu(&mut self, largest: u16, rtt: Span) -> io::Result<u16> {
        let ladder = std::iter::once(largest).chain(MTU_COMMON.into_iter().filter(|&mtu| mtu < largest));
        let (mut good, mut bad) = (0, largest.saturating_add(1));
        for mtu in ladder {
            if self.passes(mtu, rtt)? {
                good = mtu;
                break;
            }
            bad = mtu;
        }
        // What lies between two common sizes is found by halving.
        while good > 0 && bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.passes(middle, rtt)? { good = middle } else { bad = middle }
        }
        Ok(good)
    }

    fn passes(&mut self, mtu: u16, rtt: Span) -> io::Result<bool> {
        let headers = if self.peer.ip().to_canonical().is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        for _ in 0..COPIES {
            let asked = self.ask(mtu - headers)?;
            if self.collect(&asked, patience(rtt))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn patience(rtt: Span) -> Duration {
    Duration::from_nanos(2 * rtt.as_nanos()) + SLACK
}

fn reachability(server: &Server, rtt: Span, echoes: usize, rate: Bitrate) -> Finding {
    let under_way = rate.bytes_in(rtt);
    let found = format!(
        "{server} answers over UDP: {echoes} of {SMALL_PROBES} probes, RTT {:.2} ms; {} are under way at {rate}",
        rtt.as_secs_f64() * 1e3,
        format_bytes(under_way)
    );
    if echoes == SMALL_PROBES {
        return Finding::ok("udp", found);
    }
    let lost = 1.0 - echoes as f64 / SMALL_PROBES as f64;
    let text = format!("{:.0} % of these few probes were lost; a bench measures it: inhaul bench", lost * 100.0);
    Finding::costs("udp", found, Cost::new(lost, "ratio", text))
}

/// What the path carries, beside what the interface here would.
fn mtu(carried: u16, largest: u16, rate: Bitrate) -> Finding {
    const CHECK: &str = "path-mtu";
    if carried == 0 {
        let found = "small UDP packets pass, and those of 576 bytes do not";
        return Finding::new(CHECK, Verdict::Broken, found).fix(["look for a firewall that drops large UDP packets"]);
    }
    if carried >= largest {
        return Finding::ok(
            CHECK,
            format!("packets of {carried} bytes come through, as the interface here takes them"),
        );
    }
    let used = MTU_FALLBACKS.into_iter().find(|&mtu| mtu <= carried).unwrap_or(carried);
    let found = format!("the path carries packets of {carried} bytes, the interface here {largest}");
    if used == carried {
        return Finding::ok(CHECK, format!("{found}; transfers find that out"));
    }
    let more = per_second(rate, used.into()) - per_second(rate, carried.into());
    let text = format!("transfers fall back to {used} bytes: {more:.0} packets/s more at {rate}");
    Finding::costs(CHECK, found, Cost::new(more, "packets/s", text)).fix([format!("inhaul get --mtu {carried} ...")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_packets_costs_a_wait_and_has_a_mend() {
        let finding = tcp_packets(&Server::new("a", 7), 1280);
        assert_eq!((finding.verdict, finding.fix[0].as_str()), (Verdict::Costs, "inhaul get --mtu 1280 ..."));
        assert_eq!(finding.cost.unwrap().text, "the first connection takes 3 s longer");
    }

    #[test]
    fn mtu_costs_the_packets_that_a_fallback_adds() {
        let rate = Bitrate::from_bps(8 * 1400 * 1280);
        assert_eq!(mtu(1500, 1500, rate).verdict, Verdict::Ok);
        assert_eq!(mtu(1500, 9000, rate).verdict, Verdict::Ok);
        assert_eq!(mtu(0, 1500, rate).verdict, Verdict::Broken);
        let finding = mtu(1400, 1500, rate);
        // 1400 packets/s of 1280 bytes for 1280 of 1400.
        assert_eq!(finding.cost.unwrap().value, 120.0);
        assert_eq!(finding.fix, ["inhaul get --mtu 1400 ..."]);
    }

    #[test]
    fn reachability_costs_what_was_lost() {
        let server: Server = "a:1".parse().unwrap();
        let rate = Bitrate::from_gbps(1);
        assert_eq!(reachability(&server, Span::from_millis(20), SMALL_PROBES, rate).verdict, Verdict::Ok);
        assert!((reachability(&server, Span::from_millis(20), 4, rate).cost.unwrap().value - 0.2).abs() < 1e-9);
    }
}
