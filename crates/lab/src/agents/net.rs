//! Agents in the hosts of a real network. Users start them there. A file of hosts names them, and a shared secret
//! authenticates the laboratory (docs/net.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use inhaul_base::Span;
use inhaul_identity::Rights;
use inhaul_mover::control_stream::{ControlStream, StreamError};
use inhaul_mover::frame::Frame;
use inhaul_mover::{Server, ServerIdentity, Trust, UnknownServer};
use inhaul_udp::{listen_tcp, written};
use serde::Deserialize;

use super::agent::Job;
use super::talk::Agent;
use super::{Ground, failures, judged, refusal, run_agents, tunnel};
use crate::emu::left_out;
use crate::outcome::Outcome;
use crate::result::RunResult;
use crate::scenario::{Plan, WhatChanges};

/// Laboratories that may wait to be taken.
const BACKLOG: u16 = 128;
/// How long the introduction may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Jobs that a host takes at a time.
const JOBS_MAX: usize = 64;
/// A secret that is shorter is guessed too easily.
const SECRET_MIN: usize = 16;
/// The purpose of the secret, so that it proves nothing elsewhere.
const CONTEXT: &str = "inhaul lab agent, proof of the secret, version 2";
/// The value of a connection that is proven with it.
const LABEL: &str = "EXPORTER-inhaul-lab-agent";

/// The hosts of a real network, by their names in the scenario.
#[derive(Clone, Debug)]
pub struct Hosts {
    secret: String,
    hosts: BTreeMap<String, Host>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    /// Where its agent listens: `NAME:PORT` or `ADDRESS:PORT`.
    agent: String,
    /// Where its flows go to and come from; `None`: where the agent is.
    address: Option<IpAddr>,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostsFile {
    hosts: BTreeMap<String, Host>,
}

/// Why hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// The file is no such file.
    #[error("the file of hosts makes no sense: {0}; see docs/net.md")]
    Syntax(String),
    /// The secret is too short.
    #[error("the secret is too short: it must have at least {SECRET_MIN} characters")]
    Secret,
}

impl Hosts {
    /// Reads the text of a file of hosts. Their agents must know the same `secret`.
    ///
    /// # Errors
    /// When it is not TOML of the form that docs/net.md shows, or the secret is too short.
    pub fn parse(text: &str, secret: &str) -> Result<Self, HostsError> {
        let file: HostsFile = toml_edit::de::from_str(text).map_err(|error| HostsError::Syntax(error.to_string()))?;
        Ok(Self { secret: checked(secret)?, hosts: file.hosts })
    }

    fn find(&self, host: &str) -> Result<&Host, String> {
        self.hosts.get(host).ok_or_else(|| format!("host '{host}' of the scenario is not in the file of hosts"))
    }
}

fn checked(secret: &str) -> Result<String, HostsError> {
    let secret = secret.trim();
    if secret.len() < SECRET_MIN { Err(HostsError::Secret) } else { Ok(secret.to_owned()) }
}

impl Host {
    fn agent(&self) -> Result<SocketAddr, String> {
        // Where the address is one of a link (%eth0), the system's resolver knows the interface. It takes no brackets.
        let (host, port) = self.agent.rsplit_once(':').unwrap_or((&self.agent, ""));
        let port: u16 = port.parse().map_err(|_| format!("'{}' names no port", self.agent))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let found = (bare, port).to_socket_addrs();
        let mut found = found.map_err(|error| format!("cannot find '{}': {error}", self.agent))?;
        found.next().ok_or_else(|| format!("'{}' has no address", self.agent))
    }
}

/// Runs a plan once between real hosts, in real time. The network is real: the scenario's topology only defines the
/// ideal rates.
pub fn run_net(plan: &Plan, seed: u64, hosts: &Hosts, advanced: &dyn Fn(Span)) -> RunResult {
    judged(plan, seed, "net", between(plan, seed, hosts, advanced))
}

fn between(plan: &Plan, seed: u64, hosts: &Hosts, advanced: &dyn Fn(Span)) -> Result<(Outcome, Vec<String>), String> {
    let of_links = |what: &WhatChanges| matches!(what, WhatChanges::LinkRate(..) | WhatChanges::LinkUp(..));
    if plan.changes.iter().any(|change| of_links(&change.what)) {
        return Err("links of a real network are not changed: run the scenario in the simulator or emulated".to_owned());
    }
    if let Some(reason) = refusal(plan) {
        return Err(reason);
    }
    let mut seen = run_agents(plan, seed, hosts, advanced)?;
    let outcome = seen.outcome(plan, "net", Vec::new(), 0);
    let mut reasons = left_out(plan);
    reasons.append(&mut seen.failures);
    reasons.extend(failures(plan, &outcome));
    Ok((outcome, reasons))
}

impl Ground for Hosts {
    fn start(&self, host: &str, job: &Job) -> Result<Agent, String> {
        let at = self.find(host)?.agent()?;
        let lost = |error: io::Error| format!("the agent of host '{host}' at {at} cannot be reached: {error}");
        let tcp = TcpStream::connect_timeout(&at, PATIENCE).map_err(lost)?;
        let of_poll = tcp.try_clone().map_err(lost)?;
        let stream = introduce(tcp, &self.secret).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("the agent of host '{host}' at {at} knows another secret, or is busy")
            }
            _ => lost(error),
        })?;
        let (ours, theirs) = UnixStream::pair().map_err(lost)?;
        let file = |end: &UnixStream| end.try_clone().map(|end| File::from(OwnedFd::from(end))).map_err(lost);
        let (source, sink) = (file(&theirs)?, file(&theirs)?);
        let carry = move || {
            // What ends here ends for the laboratory, too: its end of the pipe is closed.
            let _ = tunnel::carry(stream, &of_poll, source, sink);
            let _ = theirs.shutdown(Shutdown::Both);
        };
        thread::Builder::new().name("lab-tunnel".to_owned()).spawn(carry).map_err(lost)?;
        Agent::new(host, (file(&ours)?, file(&ours)?), Box::new(Hangup(ours)), job)
    }

    fn address(&self, host: &str) -> Result<IpAddr, String> {
        let of = self.find(host)?;
        let ip = of.address.map_or_else(|| of.agent().map(|agent| agent.ip()), Ok)?;
        match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => Err(format!(
                "host '{host}' has {ip}, an address of a link, which the other hosts cannot write: give it an 'address' in the file of hosts"
            )),
            ip => Ok(ip),
        }
    }
}

/// Tells the other end of a pipe when the laboratory is done with it.
struct Hangup(UnixStream);

impl Drop for Hangup {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

// --- The introduction
// -------------------------------------------------------------------------------------------------

/// Which side proves that it knows the secret.
#[derive(Clone, Copy, Debug)]
enum Side {
    Laboratory,
    Agent,
}

/// A proof, valid only on this connection, that one side knows the secret. So an attacker in between, with keys of its
/// own, cannot pass it on.
fn proof(secret: &str, stream: &ControlStream, side: Side) -> io::Result<blake3::Hash> {
    let context: &[u8] = match side {
        Side::Laboratory => b"laboratory",
        Side::Agent => b"agent",
    };
    let of_connection: [u8; 32] = stream.exporter(LABEL, context).ok_or(io::ErrorKind::NotConnected)?;
    Ok(blake3::keyed_hash(&blake3::derive_key(CONTEXT, secret.as_bytes()), &of_connection))
}

/// Whether these bytes are the proof. Hashes are compared in constant time.
fn is_proof(bytes: &[u8], expected: blake3::Hash) -> bool {
    bytes.try_into().is_ok_and(|bytes: [u8; 32]| blake3::Hash::from(bytes) == expected)
}

/// The laboratory's side. `PermissionDenied`: it was not believed, or the agent cannot be.
fn introduce(tcp: TcpStream, secret: &str) -> io::Result<ControlStream> {
    let deadline = Instant::now() + PATIENCE;
    let peer = tcp.peer_addr()?;
    // Both prove that they know the secret: whose key it is does not matter.
    let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
    let server = Server::new(written(peer), peer.port());
    let denied = |_: StreamError| io::Error::from(io::ErrorKind::PermissionDenied);
    let mut stream = ControlStream::secured_client(tcp, &server, &trust, deadline).map_err(io::Error::other)?;
    let own = proof(secret, &stream, Side::Laboratory)?;
    stream.send(&Frame::Authorize { token: own.as_bytes().to_vec() }, deadline).map_err(denied)?;
    let theirs = proof(secret, &stream, Side::Agent)?;
    match stream.receive(deadline).map_err(denied)? {
        Frame::TokenGrant { token } if is_proof(&token, theirs) => Ok(stream),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// The agent's side; `None` if the caller does not know the secret.
fn believed(tcp: TcpStream, identity: &ServerIdentity, secret: &str) -> io::Result<Option<ControlStream>> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = ControlStream::secured_server(tcp, identity, deadline).map_err(io::Error::other)?;
    let theirs = proof(secret, &stream, Side::Laboratory)?;
    match stream.receive(deadline).map_err(io::Error::other)? {
        Frame::Authorize { token } if is_proof(&token, theirs) => {}
        _ => return Ok(None),
    }
    let token = proof(secret, &stream, Side::Agent)?.as_bytes().to_vec();
    stream.send(&Frame::TokenGrant { token }, deadline).map_err(io::Error::other)?;
    Ok(Some(stream))
}

/// Listens for laboratories that know `secret` and runs an agent, a process of its own, for each job; its flows use
/// the address `data`. Calls `ready` with the address once it listens. It ends only with the program.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve_agents(listen: SocketAddr, data: IpAddr, secret: &str, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let secret: Arc<str> = checked(secret).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?.into();
    let identity = ServerIdentity::passing(Rights::NONE).map_err(io::Error::other)?;
    let listener = listen_tcp(listen, BACKLOG, None)?;
    ready(listener.local_addr()?);
    let jobs = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        let (secret, jobs, identity) = (Arc::clone(&secret), Arc::clone(&jobs), identity.clone());
        if jobs.fetch_add(1, Ordering::AcqRel) >= JOBS_MAX {
            jobs.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let of_thread = Arc::clone(&jobs);
        let work = move || {
            // The caller sees a failure as the end of the stream.
            let _ = serve_job(stream, data, &identity, &secret);
            of_thread.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("lab-agent".to_owned()).spawn(work).is_err() {
            jobs.fetch_sub(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

fn serve_job(tcp: TcpStream, data: IpAddr, identity: &ServerIdentity, secret: &str) -> io::Result<()> {
    let of_poll = tcp.try_clone()?;
    let Some(stream) = believed(tcp, identity, secret)? else { return Ok(()) };
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "agent", "--data", &data.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = command.spawn()?;
    let (Some(input), Some(output)) = (agent.stdin.take(), agent.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let file = |end: OwnedFd| File::from(end);
    let carried = tunnel::carry(stream, &of_poll, file(output.into()), file(input.into()));
    // Its input has ended by now, and it ends with that.
    agent.wait()?;
    carried
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use std::io::{Read, Write};

    const SECRET: &str = "a secret that is long enough";

    #[test]
    fn parse_takes_hosts_and_refuses_what_is_none() {
        let text =
            "[hosts.s1]\nagent = \"127.0.0.1:4320\"\n[hosts.d1]\nagent = \"localhost:4320\"\naddress = \"10.0.0.2\"\n";
        let hosts = Hosts::parse(text, SECRET).unwrap();
        assert_eq!(hosts.address("s1").unwrap().to_string(), "127.0.0.1");
        assert_eq!(hosts.address("d1").unwrap().to_string(), "10.0.0.2");
        assert!(hosts.address("d2").unwrap_err().contains("'d2'"));
        for wrong in ["", "[hosts.s1]\nagnet = \"x\"", "hosts = 3"] {
            assert!(matches!(Hosts::parse(wrong, SECRET), Err(HostsError::Syntax(_))), "{wrong}");
        }
        assert!(matches!(Hosts::parse(text, "  short  "), Err(HostsError::Secret)));
    }

    /// What both sides make of each other.
    fn meet(ours: &str, theirs: &'static str) -> (io::Result<ControlStream>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let agent = thread::spawn(move || {
            let (tcp, _) = listener.accept().unwrap();
            believed(tcp, &ServerIdentity::passing(Rights::NONE).unwrap(), theirs).unwrap().is_some()
        });
        (introduce(TcpStream::connect(to).unwrap(), ours), agent.join().unwrap())
    }

    #[test]
    fn introduction_succeeds_with_the_same_secret_alone() {
        let (ours, theirs) = meet(SECRET, SECRET);
        assert!(ours.is_ok() && theirs);
        let (ours, theirs) = meet("another secret that is long enough", SECRET);
        assert_eq!((ours.unwrap_err().kind(), theirs), (io::ErrorKind::PermissionDenied, false));
    }

    #[test]
    fn introduction_is_good_on_its_own_connection_only() {
        // An attacker in between, who acts as an agent to the laboratory and as a laboratory to the agent, and forwards
        // their messages.
        let agents = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at_agent, at_between) = (agents.local_addr().unwrap(), between.local_addr().unwrap());
        let agent = thread::spawn(move || {
            let (tcp, _) = agents.accept().unwrap();
            believed(tcp, &ServerIdentity::passing(Rights::NONE).unwrap(), SECRET).unwrap().is_some()
        });
        let middle = thread::spawn(move || {
            let deadline = Instant::now() + PATIENCE;
            let identity = ServerIdentity::passing(Rights::NONE).unwrap();
            let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
            let (tcp, _) = between.accept().unwrap();
            let mut laboratory = ControlStream::secured_server(tcp, &identity, deadline).unwrap();
            let tcp = TcpStream::connect(at_agent).unwrap();
            let mut agent =
                ControlStream::secured_client(tcp, &Server::new("127.0.0.1", at_agent.port()), &trust, deadline)
                    .unwrap();
            agent.send(&laboratory.receive(deadline).unwrap(), deadline).unwrap();
            agent.receive(deadline).is_ok()
        });
        assert!(introduce(TcpStream::connect(at_between).unwrap(), SECRET).is_err());
        assert!(!agent.join().unwrap() && !middle.join().unwrap());
    }

    #[test]
    fn tunnel_carries_both_ways_until_both_have_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let file = |end: &UnixStream| File::from(OwnedFd::from(end.try_clone().unwrap()));
        let (mut near, at_laboratory) = UnixStream::pair().unwrap();
        let (mut far, at_agent) = UnixStream::pair().unwrap();
        let agent = thread::spawn(move || {
            let (tcp, _) = listener.accept().unwrap();
            let of_poll = tcp.try_clone().unwrap();
            let stream = believed(tcp, &ServerIdentity::passing(Rights::NONE).unwrap(), SECRET).unwrap().unwrap();
            let carried = tunnel::carry(stream, &of_poll, file(&at_agent), file(&at_agent));
            at_agent.shutdown(Shutdown::Both).unwrap();
            carried
        });
        let laboratory = thread::spawn(move || {
            let tcp = TcpStream::connect(to).unwrap();
            let of_poll = tcp.try_clone().unwrap();
            let stream = introduce(tcp, SECRET).unwrap();
            let carried = tunnel::carry(stream, &of_poll, file(&at_laboratory), file(&at_laboratory));
            at_laboratory.shutdown(Shutdown::Both).unwrap();
            carried
        });
        let bytes: Vec<u8> = (0..3_000_000).map(|n| (n % 251) as u8).collect();
        let sent = bytes.clone();
        let writer = thread::spawn(move || {
            near.write_all(&sent).unwrap();
            near
        });
        let mut come = vec![0; bytes.len()];
        far.read_exact(&mut come).unwrap();
        assert!(come == bytes);
        let mut near = writer.join().unwrap();
        far.write_all(b"done\n").unwrap();
        let mut line = [0; 5];
        near.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"done\n");
        near.shutdown(Shutdown::Write).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        laboratory.join().unwrap().unwrap();
        agent.join().unwrap().unwrap();
    }
}
