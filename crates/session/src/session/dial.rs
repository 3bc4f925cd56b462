//! From a host's name to a TCP connection, by RFC 8305 ("Happy Eyeballs"): a name may have several addresses, of both
//! families, of which some are dead. None is waited for while another could answer.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use inhaul_udp::{limit_packets, written};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::api::error::MoveError;
use crate::api::source::Server;

/// How long a host may take to accept a connection, counted from the last attempt.
const CONNECT: Duration = Duration::from_secs(10);
/// An attempt has a head start of this before the next address is tried too (RFC 8305 8: Connection Attempt Delay).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Most addresses of one name that are tried: what a resolver says is bounded too.
const ADDRESSES_MAX: usize = 16;

/// Connects to the address of `server` that answers first. Names are looked up each time: a host may have moved. No
/// packet has more bytes than `packet`, either way, if that is given.
pub(crate) fn dial(server: &Server, packet: Option<u16>) -> Result<TcpStream, MoveError> {
    let addresses = in_turns(resolve(server)?);
    if addresses.is_empty() {
        return Err(unknown_host(server, "it has no address".to_owned()));
    }
    log::debug!("{server}: connecting to {addresses:?}");
    race(&addresses, CONNECT, packet).map_err(|failures| failed(server, &failures))
}

/// Connects to one address of `server`, with packets as [`dial`] has them.
pub(crate) fn dial_at(server: &Server, address: SocketAddr, packet: Option<u16>) -> Result<TcpStream, MoveError> {
    race(&[address], CONNECT, packet).map_err(|failures| failed(server, &failures))
}

fn resolve(server: &Server) -> Result<Vec<SocketAddr>, MoveError> {
    let addresses = (server.host.as_str(), server.port).to_socket_addrs();
    addresses.map(Iterator::collect).map_err(|error| {
        if is_passing(&error) {
            let detail = format!("the name '{}' cannot be looked up just now ({error})", server.host);
            return MoveError::Unreachable { server: server.clone(), detail };
        }
        let detail = match server.host.split_once('%') {
            Some((address, _)) if address.parse().is_ok_and(|ip: Ipv6Addr| !has_zone(ip)) => {
                format!("{address} is no address of a link, and needs no interface: write [{address}]")
            }
            Some((_, zone)) if server.host.contains(':') => {
                format!("this host has no interface '{zone}'; 'ip link' lists those that it has")
            }
            _ => error.to_string(),
        };
        unknown_host(server, detail)
    })
}

/// Whether a host is an address of a link, without the link's interface.
fn is_of_some_link(host: &str) -> bool {
    host.parse().is_ok_and(|ip: Ipv6Addr| ip.is_unicast_link_local())
}

/// Whether an interface belongs to such an address: of a link, or of a group on one.
fn has_zone(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || ip.is_multicast()
}

fn unknown_host(server: &Server, detail: String) -> MoveError {
    MoveError::UnknownHost { server: server.clone(), detail }
}

/// Whether a name may resolve in a moment: no resolver has answered, rather than said that there is no such name. The
/// standard library gives the resolver's code (EAI_AGAIN) in the words of the C library only.
fn is_passing(error: &io::Error) -> bool {
    let words = error.to_string();
    error.raw_os_error().is_some()
        || ["Temporary failure in name resolution", "Try again"].iter().any(|passing| words.contains(passing))
}

/// The resolver's order, but the families take turns (RFC 8305 4), each address once.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let mut seen = std::collections::BTreeSet::new();
    let unique = addresses.into_iter().filter(|address| seen.insert(*address));
    let (first, second): (Vec<_>, Vec<_>) = unique.partition(|address| address.is_ipv6() == first_is_ipv6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns =
        std::iter::from_fn(|| Some([first.next(), second.next()]).filter(|turn| turn.iter().any(Option::is_some)));
    turns.flatten().flatten().take(ADDRESSES_MAX).collect()
}

/// An attempt that has not come to an end.
struct Attempt {
    address: SocketAddr,
    socket: OwnedFd,
}

/// Begins an attempt at each address, one after the other, until one of them connects. Fails with what became of each
/// when none is left, or when none has connected `patience` after the last began.
fn race(
    addresses: &[SocketAddr],
    patience: Duration,
    packet: Option<u16>,
) -> Result<TcpStream, Vec<(SocketAddr, io::Error)>> {
    let mut waiting = addresses.iter().copied();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failures = Vec::new();
    let mut next_at = Instant::now();
    let mut until = next_at + patience;
    loop {
        let now = Instant::now();
        // One that has failed makes room for the next at once.
        if now >= next_at || attempts.is_empty() {
            match waiting.next() {
                Some(address) => {
                    (next_at, until) = (now + ATTEMPT_DELAY, now + patience);
                    match begin(address, packet) {
                        Ok(socket) => attempts.push(Attempt { address, socket }),
                        Err(error) => failures.push((address, error)),
                    }
                    continue;
                }
                None if attempts.is_empty() => return Err(failures),
                None => next_at = until,
            }
        }
        if now >= until {
            failures.extend(attempts.iter().map(|attempt| (attempt.address, io::ErrorKind::TimedOut.into())));
            return Err(failures);
        }
        if let Some(stream) = settle(&mut attempts, &mut failures, next_at.min(until) - now) {
            return Ok(stream);
        }
    }
}

/// Begins to connect, without waiting for it.
fn begin(address: SocketAddr, packet: Option<u16>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(bytes) = packet {
        limit_packets(&socket, address.ip(), bytes)?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Waits until an attempt comes to an end, for as long as given; the connection, if it is a good one.
fn settle(
    attempts: &mut Vec<Attempt>,
    failures: &mut Vec<(SocketAddr, io::Error)>,
    wait: Duration,
) -> Option<TcpStream> {
    let mut ready: Vec<PollFd<'_>> =
        attempts.iter().map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT)).collect();
    let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    // Interrupted: the caller comes again.
    let _ = poll(&mut ready, Some(&timeout));
    let ended: Vec<bool> = ready.iter().map(|one| !one.revents().is_empty()).collect();
    let mut ended = ended.into_iter();
    let (done, going): (Vec<_>, Vec<_>) = attempts.drain(..).partition(|_| ended.next().unwrap_or(false));
    *attempts = going;
    for Attempt { address, socket } in done {
        let connected = sockopt::socket_error(&socket).and_then(|result| result).map_err(io::Error::from);
        let stream = connected.and_then(|()| {
            let stream = TcpStream::from(socket);
            stream.set_nonblocking(false).map(|()| stream)
        });
        match stream {
            Ok(stream) => return Some(stream),
            Err(error) => failures.push((address, error)),
        }
    }
    None
}

/// Whether this host can have no connection over IPv6: its kernel has none, or it has no address.
fn is_without_ipv6(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].iter().any(|none| error.raw_os_error() == Some(none.raw_os_error()))
}

/// What to tell of attempts that have all failed: each address's own end, if there were several.
fn failed(server: &Server, failures: &[(SocketAddr, io::Error)]) -> MoveError {
    let server = server.clone();
    if failures.iter().all(|(_, error)| error.kind() == io::ErrorKind::TimedOut) {
        return MoveError::TimedOut { server, seconds: CONNECT.as_secs() };
    }
    let told = |address: &SocketAddr, error: &io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nothing listens on port {}", server.port),
        io::ErrorKind::TimedOut => format!("no answer in {} s", CONNECT.as_secs()),
        io::ErrorKind::InvalidInput if is_of_some_link(&server.host) => format!(
            "an address of a link means nothing without the interface behind it: write [{}%eth0], if that is its name",
            server.host
        ),
        _ if address.is_ipv6() && is_without_ipv6(error) => {
            "this host has no IPv6: the server needs an IPv4 address, or a name that has one".to_owned()
        }
        _ => error.to_string(),
    };
    let detail = match failures {
        [(address, error)] => told(address, error),
        several => {
            let each =
                several.iter().map(|(address, error)| format!("{}: {}", written(*address), told(address, error)));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    MoveError::Unreachable { server, detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// An address at which connections are neither taken nor refused: its queue is full, and SYNs are dropped.
    fn black_hole() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            queued.push(stream);
        }
        (listener, queued, address)
    }

    #[test]
    fn families_take_turns_from_the_resolver_s_first_and_each_address_is_tried_once() {
        let resolved = ["[::1]:1", "[::2]:1", "[::1]:1", "[::3]:1", "127.0.0.1:1", "127.0.0.2:1"];
        let expected = ["[::1]:1", "127.0.0.1:1", "[::2]:1", "127.0.0.2:1", "[::3]:1"];
        assert_eq!(in_turns(addresses(&resolved)), addresses(&expected));
        assert_eq!(in_turns(addresses(&["127.0.0.1:1", "[::1]:1"])), addresses(&["127.0.0.1:1", "[::1]:1"]));
        let many: Vec<SocketAddr> = (0..255).map(|k| SocketAddr::from(([127, 0, 0, k], 1))).collect();
        assert_eq!(in_turns(many).len(), ADDRESSES_MAX);
    }

    #[test]
    fn the_first_that_connects_wins_over_dead_addresses_before_it() {
        let (_listener, _queued, silent) = black_hole();
        let live = TcpListener::bind("127.0.0.2:0").unwrap();
        let refusing = SocketAddr::from(([127, 0, 0, 3], silent.port()));
        let tried = [refusing, silent, live.local_addr().unwrap()];
        let stream = race(&tried, CONNECT, None).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live.local_addr().unwrap());
    }

    #[test]
    fn both_families_are_tried() {
        let Ok(six) = TcpListener::bind("[::1]:0") else {
            println!("skipped: there is no IPv6 here");
            return;
        };
        let address = six.local_addr().unwrap();
        let refusing = SocketAddr::from(([127, 0, 0, 3], address.port()));
        assert_eq!(race(&[refusing, address], CONNECT, None).unwrap().peer_addr().unwrap(), address);
        assert_eq!(race(&[address, refusing], CONNECT, None).unwrap().peer_addr().unwrap(), address);
    }

    #[test]
    fn an_address_of_a_link_needs_an_interface_that_there_is() {
        for (host, words) in [
            ("fe80::1", "write [fe80::1%eth0]"),
            ("fe80::1%nowhere", "this host has no interface 'nowhere'"),
            ("::1%lo", "::1 is no address of a link, and needs no interface: write [::1]"),
        ] {
            let text = dial(&Server::new(host, 9), None).unwrap_err().to_string();
            assert!(text.contains(words), "{host}: {text}");
        }
    }

    #[test]
    fn a_host_without_ipv6_is_told_so() {
        for code in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            let failures = [("[::1]:5".parse().unwrap(), io::Error::from(code))];
            let text = failed(&Server::new("::1", 5), &failures).to_string();
            assert!(text.contains("this host has no IPv6") && !text.contains("os error"), "{text}");
        }
    }

    #[test]
    fn what_became_of_each_address_is_told() {
        let (_listener, _queued, silent) = black_hole();
        let refusing = SocketAddr::from(([127, 0, 0, 3], silent.port()));
        let failures = race(&[refusing, silent], Duration::from_millis(300), None).unwrap_err();
        let server = Server::new("many", silent.port());
        let error = failed(&server, &failures);
        let text = error.to_string();
        assert!(matches!(error, MoveError::Unreachable { .. }), "{error}");
        assert!(text.contains("127.0.0.3: nothing listens on port"), "{text}");
        assert!(text.contains("127.0.0.1: no answer"), "{text}");
        let failures = race(&[silent], Duration::from_millis(50), None).unwrap_err();
        assert!(matches!(failed(&server, &failures), MoveError::TimedOut { .. }));
    }

    #[test]
    fn a_resolver_that_does_not_answer_is_no_name_that_does_not_exist() {
        let passing = "failed to lookup address information: Temporary failure in name resolution";
        assert!(is_passing(&io::Error::other(passing)));
        assert!(!is_passing(&io::Error::other("failed to lookup address information: Name or service not known")));
    }
}
