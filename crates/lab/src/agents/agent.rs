//! The agent that runs in each host of a network: this same program. One line of JSON on its standard input is its
//! job.
//!
//! An agent prints `ready` when it listens, a sender's with the fingerprint of its key behind it, and waits for a second line. Its time starts with that line. A sender's
//! agent serves until a third line comes or its input ends. A receiver's agent runs to the end of its flows. Both end
//! with their report, one line of JSON.

use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span};
use inhaul_identity::{Right, Rights, Ticket};
use inhaul_mover::{
    BenchServerOptions, Monitor, MoveError, NetOptions, RateDial, Server, ServerIdentity, StagedFlow, StagedFlowReport,
    StagedOptions, StagedReport, Stop, Trust, bench_server, staged,
};
use inhaul_protocols::registry;
use inhaul_udp::listen_tcp;
use serde::{Deserialize, Serialize};

use super::datagrams::{self, DatagramJob};
use super::kernel_tcp::{self, Served, TcpJob, TcpReceived, TcpSent};

/// Where a sender's agent serves flows of our own transports.
pub(super) const TRANSPORT_PORT: u16 = 4321;
/// Where it serves flows of the kernel's TCP.
pub(super) const TCP_PORT: u16 = 4322;
/// A receiver's agent's line when it waits for the start.
pub(super) const READY: &str = "ready";
/// The longest job.
const JOB_BYTES_MAX: u64 = 16 << 20;
/// The longest of the lines that follow it.
const LINE_BYTES_MAX: u64 = 64;

/// An agent's job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Job {
    Serve(ServeJob),
    Receive(ReceiveJob),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ServeJob {
    pub(super) send_rate: Option<u64>,
    /// Changes of that value, with times in seconds.
    pub(super) send_rates: Vec<(f64, u64)>,
    pub(super) datagrams: Vec<DatagramJob>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReceiveJob {
    pub(super) end_s: f64,
    pub(super) sample_s: f64,
    /// Our own transports, each with its flows.
    pub(super) transports: Vec<TransportJob>,
    pub(super) tcp: Vec<TcpJob>,
    /// Whether a host sends background UDP.
    pub(super) takes_datagrams: bool,
    /// Whether datagrams are sealed.
    #[serde(default)]
    pub(super) sealed: bool,
    /// Whether each transport's data thread has its host watched, as that of `get` has: GTP then sees the host's TCP.
    #[serde(default)]
    pub(super) host_tcp: bool,
}

/// The flows of a transport that a receiver has; they share an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TransportJob {
    pub(super) transport: String,
    pub(super) parameters: Vec<(String, String)>,
    pub(super) receive_rate: Option<u64>,
    /// Changes of that value, with times in seconds.
    pub(super) receive_rates: Vec<(f64, u64)>,
    pub(super) flows: Vec<FlowJob>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FlowJob {
    /// Its number in the plan.
    pub(super) flow: usize,
    pub(super) server: IpAddr,
    /// The fingerprint of the server's key, once its agent has told it.
    pub(super) key: Option<String>,
    pub(super) start_s: f64,
    pub(super) stop_s: Option<f64>,
    pub(super) size: Option<u64>,
    pub(super) rate: Option<u64>,
}

/// A sender's agent's record.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ServeReport {
    pub(super) tcp: Vec<TcpSent>,
    /// Processor time of the agent, in seconds.
    pub(super) cpu_s: f64,
    pub(super) failure: Option<String>,
}

/// A receiver's agent's record.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ReceiveReport {
    /// Flows of our own transports, by their numbers.
    pub(super) flows: Vec<(usize, StagedFlowReport)>,
    pub(super) tcp: Vec<TcpReceived>,
    /// Processor time of the agent, in seconds.
    pub(super) cpu_s: f64,
    pub(super) failure: Option<String>,
}

/// Runs an agent in this process, whose flows use the address `data`: what `inhaul lab agent` does.
///
/// # Errors
/// If standard input is no job, if the address to listen on is taken, or if standard output is gone.
pub fn run_agent(data: IpAddr) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    io::Read::take(&mut input, JOB_BYTES_MAX).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Job::Serve(job) => say(&serve(&mut input, &job, data)?),
        Job::Receive(job) => {
            let _sink = job.takes_datagrams.then(|| datagrams::sink(data)).transpose()?;
            wait_for_go(&mut input, READY)?;
            say(&receive(&job))
        }
    }
}

/// Says that everything is ready, and waits for the start.
fn wait_for_go(input: &mut impl BufRead, ready: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{ready}")?;
    output.flush()?;
    let mut line = String::new();
    match io::Read::take(input, LINE_BYTES_MAX).read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Processor time of this process so far, in seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn say(report: &impl Serialize) -> io::Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    writeln!(output)?;
    output.flush()
}

fn net_options(transport: &str, parameters: &[(String, String)]) -> NetOptions {
    let (transport, parameters) = (transport.to_owned(), parameters.to_vec());
    NetOptions { transport, parameters, raise_limits: true, ..NetOptions::default() }
}

/// Serves until `input` has another line, or ends.
fn serve(input: &mut impl BufRead, job: &ServeJob, data: IpAddr) -> io::Result<ServeReport> {
    let served = Served::default();
    let listener = listen_tcp((data, TCP_PORT).into(), 128, None)?;
    let of_listener = Arc::clone(&served);
    named("tcp-listener").spawn(move || kernel_tcp::serve(&listener, &of_listener))?;
    // The receivers request the scenario's settings.
    let identity = ServerIdentity {
        plaintext: true,
        ..ServerIdentity::passing(Rights::only(Right::Read)).map_err(io::Error::other)?
    };
    let fingerprint = identity.key.fingerprint();
    let dial = (!job.send_rates.is_empty()).then(RateDial::default);
    let options = BenchServerOptions {
        listen: (data, TRANSPORT_PORT).into(),
        receive_rate: None,
        send_rate: job.send_rate.map(Bitrate::from_bps),
        send_dial: dial.clone(),
        identity,
        net: net_options(registry::DEFAULT.name, &[]),
    };
    let stop = Stop::new();
    let of_server = stop.clone();
    let (listens, listening) = channel();
    let server = named("lab-server").spawn(move || {
        bench_server(&options, &of_server, |_| {
            // The thread that waits for it is there, or has given up.
            let _ = listens.send(());
        })
    })?;
    // An end of the channel without a word is the server's end: its error is in the report.
    let _ = listening.recv();
    wait_for_go(input, &format!("{READY} {fingerprint}"))?;
    let began = Instant::now();
    for one in job.datagrams.clone() {
        let stop = stop.clone();
        named("lab-datagrams").spawn(move || datagrams::send(&one, began, &stop))?;
    }
    if let Some(dial) = dial {
        let rates = job.send_rates.clone();
        named("lab-dial").spawn(move || turn(&dial, &rates, began))?;
    }
    let mut rest = Vec::new();
    io::Read::take(input, LINE_BYTES_MAX).read_until(b'\n', &mut rest)?;
    stop.stop();
    let failure = match server.join() {
        Ok(Ok(()) | Err(MoveError::Interrupted)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the server's thread has died".to_owned()),
    };
    let tcp = served.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    Ok(ServeReport { tcp, cpu_s: cpu_s(), failure })
}

/// A thread that will have this name.
fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// Turns the dial to each rate when its time has come.
fn turn(dial: &RateDial, rates: &[(f64, u64)], began: Instant) {
    for (at_s, bps) in rates {
        thread::sleep(Duration::from_secs_f64(*at_s).saturating_sub(began.elapsed()));
        dial.set(Bitrate::from_bps(*bps));
    }
}

/// The result of a flow over TCP; without a thread, the reason.
fn received(job: &TcpJob, thread: io::Result<ScopedJoinHandle<'_, TcpReceived>>) -> Option<TcpReceived> {
    match thread {
        Ok(thread) => thread.join().ok(),
        Err(error) => {
            let failure = Some(format!("cannot start a thread: {error}"));
            Some(TcpReceived { flow: job.flow, failure, ..TcpReceived::default() })
        }
    }
}

fn receive(job: &ReceiveJob) -> ReceiveReport {
    let began = Instant::now();
    thread::scope(|scope| {
        let begin = |one| named("lab-transport").spawn_scoped(scope, move || receive_transport(job, one));
        let transports: Vec<_> = job.transports.iter().map(begin).collect();
        let mut in_order: Vec<&TcpJob> = job.tcp.iter().collect();
        in_order.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        let mut tcp = Vec::new();
        for one in in_order {
            // A thread for each only while it lasts: web-like traffic has thousands.
            thread::sleep(Duration::from_secs_f64(one.start_s).saturating_sub(began.elapsed()));
            let run = move || kernel_tcp::receive(one, began, job.end_s, job.sample_s);
            tcp.push((one, named("tcp-receiver").spawn_scoped(scope, run)));
        }
        let mut report = ReceiveReport::default();
        for (thread, of) in transports.into_iter().zip(&job.transports) {
            let ended = thread.map(ScopedJoinHandle::join);
            match ended
                .unwrap_or_else(|error| Ok(Err(MoveError::System { what: "cannot start a thread", source: error })))
            {
                Ok(Ok(staged)) => report.flows.extend(of.flows.iter().map(|flow| flow.flow).zip(staged.flows)),
                Ok(Err(error)) => report.failure = Some(error.to_string()),
                Err(_) => report.failure = Some("a receiver's thread has died".to_owned()),
            }
        }
        report.tcp = tcp.into_iter().filter_map(|(one, thread)| received(one, thread)).collect();
        report.cpu_s = cpu_s();
        report
    })
}

fn receive_transport(job: &ReceiveJob, of: &TransportJob) -> Result<StagedReport, MoveError> {
    let flows = of.flows.iter().map(|flow| StagedFlow {
        server: Server {
            // Malformed keys count as missing, and a server without a key is not trusted.
            ticket: flow.key.as_deref().and_then(|key| key.parse::<Ticket>().ok()).unwrap_or_default().into(),
            ..Server::new(flow.server.to_string(), TRANSPORT_PORT)
        },
        start: Span::from_secs_f64(flow.start_s),
        stop: flow.stop_s.map(Span::from_secs_f64),
        size: flow.size,
        rate: flow.rate.map(Bitrate::from_bps),
    });
    let options = StagedOptions {
        flows: flows.collect(),
        end: Span::from_secs_f64(job.end_s),
        sample: Span::from_secs_f64(job.sample_s),
        receive_rate: of.receive_rate.map(Bitrate::from_bps),
        receive_rates: of
            .receive_rates
            .iter()
            .map(|(at, bps)| (Span::from_secs_f64(*at), Bitrate::from_bps(*bps)))
            .collect(),
        net: NetOptions {
            trust: Trust { plaintext: !job.sealed, ..Trust::default() },
            monitor: if job.host_tcp { Monitor::Auto } else { Monitor::Off },
            ..net_options(&of.transport, &of.parameters)
        },
    };
    staged(&options, &Stop::new())
}
