//! Agents in the hosts of a real network. Users start them there. A file of hosts names them, and a shared secret
//! authenticates the laboratory (docs/net.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use inhaul_base::Span;
use serde::Deserialize;

use super::agent::Job;
use super::talk::Agent;
use super::{Ground, failures, judged, refusal, run_agents};
use crate::emu::left_out;
use crate::outcome::Outcome;
use crate::result::RunResult;
use crate::scenario::{Plan, WhatChanges};

/// How long the other side may take for each line of the introduction.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest of these lines.
const LINE_MAX: u64 = 256;
/// What an agent's host says when it believes the laboratory.
const WELCOME: &str = "welcome";
/// Jobs that a host takes at a time.
const JOBS_MAX: usize = 64;
/// A secret that is shorter is guessed too easily.
const SECRET_MIN: usize = 16;
/// What the secret is for, so that it proves nothing elsewhere.
const CONTEXT: &str = "inhaul lab agent, proof of the secret, version 1";

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
        let found = self.agent.to_socket_addrs().map_err(|error| format!("cannot find '{}': {error}", self.agent))?;
        found.into_iter().next().ok_or_else(|| format!("'{}' has no address", self.agent))
    }
}

/// Runs a plan once between real hosts, in real time. The network is what it is: the scenario's topology says only
/// what is ideal.
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
        let stream = TcpStream::connect_timeout(&at, PATIENCE).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        introduce(&stream, &self.secret).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("the agent of host '{host}' at {at} knows another secret, or is busy")
            }
            _ => lost(error),
        })?;
        let input = stream.try_clone().map_err(lost)?;
        let file = |stream: TcpStream| File::from(OwnedFd::from(stream));
        Agent::new(host, (file(input), file(stream)), Box::new(()), job)
    }

    fn address(&self, host: &str) -> Result<IpAddr, String> {
        let of = self.find(host)?;
        of.address.map_or_else(|| of.agent().map(|agent| agent.ip()), Ok)
    }
}

// --- The introduction
// -------------------------------------------------------------------------------------------------

/// What proves that the secret is known without telling it: the agent's host has chosen `nonce`.
fn proof(secret: &str, nonce: &str) -> String {
    let key = blake3::derive_key(CONTEXT, secret.as_bytes());
    blake3::keyed_hash(&key, nonce.as_bytes()).to_hex().to_string()
}

/// The laboratory's side. `PermissionDenied`: it was not believed.
fn introduce(stream: &TcpStream, secret: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let nonce = read_line(stream)?;
    writeln!(&*stream, "{}", proof(secret, &nonce))?;
    if read_line(stream).is_ok_and(|line| line == WELCOME) {
        stream.set_read_timeout(None)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The agent's side: whether the caller knows the secret.
fn is_believed(stream: &TcpStream, secret: &str) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut random = [0; 32];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let nonce = blake3::hash(&random).to_hex().to_string();
    writeln!(&*stream, "{nonce}")?;
    let answer = blake3::Hash::from_hex(read_line(stream)?);
    let wanted = blake3::Hash::from_hex(proof(secret, &nonce));
    // These hashes are compared in constant time.
    let believed = answer.is_ok_and(|answer| wanted.is_ok_and(|wanted| wanted == answer));
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(believed)
}

/// Reads a line byte by byte, because another reader needs the bytes after it.
fn read_line(stream: &TcpStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::with_capacity(1, stream.take(LINE_MAX)).read_line(&mut line)?;
    line.strip_suffix('\n').map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Listens for laboratories that know `secret` and runs an agent, a process of its own, for each job; its flows use
/// the address `data`. Calls `ready` with the address once it listens. It ends only with the program.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve_agents(listen: SocketAddr, data: IpAddr, secret: &str, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let secret: Arc<str> = checked(secret).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?.into();
    let listener = TcpListener::bind(listen)?;
    ready(listener.local_addr()?);
    let jobs = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        let (secret, jobs) = (Arc::clone(&secret), Arc::clone(&jobs));
        if jobs.fetch_add(1, Ordering::AcqRel) >= JOBS_MAX {
            jobs.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let of_thread = Arc::clone(&jobs);
        let work = move || {
            // The caller sees a failure as the end of the stream.
            let _ = serve_job(&stream, data, &secret);
            of_thread.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("lab-agent".to_owned()).spawn(work).is_err() {
            jobs.fetch_sub(1, Ordering::AcqRel);
        }
    }
    Ok(())
}

fn serve_job(stream: &TcpStream, data: IpAddr, secret: &str) -> io::Result<()> {
    if !is_believed(stream, secret)? {
        return Ok(());
    }
    stream.set_nodelay(true)?;
    writeln!(&*stream, "{WELCOME}")?;
    let end = || stream.try_clone().map(|stream| Stdio::from(OwnedFd::from(stream)));
    let mut command = Command::new("/proc/self/exe");
    command.args(["lab", "agent", "--data", &data.to_string()]).stdin(end()?).stdout(end()?);
    command.spawn()?.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn meet(ours: &str, theirs: &'static str) -> (io::Result<()>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let agent = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let believed = is_believed(&stream, theirs).unwrap();
            if believed {
                writeln!(&stream, "{WELCOME}").unwrap();
            }
            believed
        });
        (introduce(&TcpStream::connect(to).unwrap(), ours), agent.join().unwrap())
    }

    #[test]
    fn introduction_succeeds_with_the_same_secret_alone() {
        let (ours, theirs) = meet(SECRET, SECRET);
        assert!(ours.is_ok() && theirs);
        let (ours, theirs) = meet("another secret that is long enough", SECRET);
        assert_eq!((ours.unwrap_err().kind(), theirs), (io::ErrorKind::PermissionDenied, false));
    }

    #[test]
    fn proof_depends_on_secret_and_nonce() {
        assert_ne!(proof(SECRET, "a"), proof(SECRET, "b"));
        assert_ne!(proof(SECRET, "a"), proof("x", "a"));
    }
}
