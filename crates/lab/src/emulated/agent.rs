//! What runs in the hosts of an emulated network: this program again, told by one line of JSON on its standard input what to do.
//!
//! A sender's agent serves until its input ends. A receiver's agent says `ready`, waits for a second line, and receives its flows
//! from then on. Both end with their report, one line of JSON.

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, Span};
use inhaul_mover::{
    BenchServerOptions, MoveError, NetOptions, Server, StagedFlow, StagedFlowReport, StagedOptions, StagedReport, Stop,
    bench_server, staged,
};
use serde::{Deserialize, Serialize};

use super::kernel_tcp::{self, Served, TcpJob, TcpReceived, TcpSent};

/// Where a sender's agent serves flows of our own transports.
pub(crate) const TRANSPORT_PORT: u16 = 4321;
/// Where it serves flows of the kernel's TCP.
pub(crate) const TCP_PORT: u16 = 4322;
/// What a receiver's agent says when it waits for the start.
pub(crate) const READY: &str = "ready";
/// The longest job.
const JOB_BYTES_MAX: u64 = 16 << 20;

/// What an agent is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    Serve { send_rate: Option<u64> },
    Receive(ReceiveJob),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReceiveJob {
    pub(crate) end_s: f64,
    pub(crate) sample_s: f64,
    /// Our own transports, each with its flows.
    pub(crate) transports: Vec<TransportJob>,
    pub(crate) tcp: Vec<TcpJob>,
}

/// The flows of a transport that a receiver has; they share an endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TransportJob {
    pub(crate) transport: String,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) receive_rate: Option<u64>,
    pub(crate) flows: Vec<FlowJob>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FlowJob {
    /// Its number in the plan.
    pub(crate) flow: usize,
    pub(crate) server: Ipv4Addr,
    pub(crate) start_s: f64,
    pub(crate) stop_s: Option<f64>,
    pub(crate) size: Option<u64>,
    pub(crate) rate: Option<u64>,
}

/// What a sender's agent saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServeReport {
    pub(crate) tcp: Vec<TcpSent>,
    pub(crate) failure: Option<String>,
}

/// What a receiver's agent saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReceiveReport {
    /// Flows of our own transports, by their numbers.
    pub(crate) flows: Vec<(usize, StagedFlowReport)>,
    pub(crate) tcp: Vec<TcpReceived>,
    pub(crate) failure: Option<String>,
}

/// Runs an agent in this process: what `inhaul lab agent` does.
///
/// # Errors
/// When standard input is no job, or standard output is gone.
pub fn run_agent() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = String::new();
    io::Read::take(&mut input, JOB_BYTES_MAX).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Job::Serve { send_rate } => say(&serve(&mut input, send_rate)?),
        Job::Receive(job) => {
            let mut output = io::stdout().lock();
            writeln!(output, "{READY}")?;
            output.flush()?;
            line.clear();
            input.read_line(&mut line)?;
            drop(output);
            say(&receive(&job))
        }
    }
}

fn say(report: &impl Serialize) -> io::Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    writeln!(output)?;
    output.flush()
}

fn net_options(transport: &str, parameters: &[(String, String)]) -> NetOptions {
    NetOptions { mtu: None, offload: true, cpu: None, transport: transport.to_owned(), parameters: parameters.to_vec() }
}

/// Serves until `input` ends.
fn serve(input: &mut impl BufRead, send_rate: Option<u64>) -> io::Result<ServeReport> {
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let served = Served::default();
    let listener = TcpListener::bind(any(TCP_PORT))?;
    let of_listener = Arc::clone(&served);
    thread::spawn(move || kernel_tcp::serve(&listener, &of_listener));
    let options = BenchServerOptions {
        listen: any(TRANSPORT_PORT),
        receive_rate: None,
        send_rate: send_rate.map(Bitrate::from_bps),
        net: net_options("gtp", &[]),
    };
    let stop = Stop::new();
    let of_server = stop.clone();
    let server = thread::spawn(move || bench_server(&options, &of_server, |_| {}));
    let mut rest = Vec::new();
    input.read_until(b'\n', &mut rest)?;
    stop.stop();
    let failure = match server.join() {
        Ok(Ok(()) | Err(MoveError::Interrupted)) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the server's thread has died".to_owned()),
    };
    let tcp = served.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    Ok(ServeReport { tcp, failure })
}

fn receive(job: &ReceiveJob) -> ReceiveReport {
    let began = Instant::now();
    thread::scope(|scope| {
        let transports: Vec<_> = job.transports.iter().map(|one| scope.spawn(|| receive_transport(job, one))).collect();
        let mut in_order: Vec<&TcpJob> = job.tcp.iter().collect();
        in_order.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        let mut tcp = Vec::new();
        for one in in_order {
            // A thread for each only while it lasts: web-like traffic has thousands.
            thread::sleep(Duration::from_secs_f64(one.start_s).saturating_sub(began.elapsed()));
            tcp.push(scope.spawn(move || kernel_tcp::receive(one, began, job.end_s, job.sample_s)));
        }
        let mut report = ReceiveReport::default();
        for (thread, of) in transports.into_iter().zip(&job.transports) {
            match thread.join() {
                Ok(Ok(staged)) => report.flows.extend(of.flows.iter().map(|flow| flow.flow).zip(staged.flows)),
                Ok(Err(error)) => report.failure = Some(error.to_string()),
                Err(_) => report.failure = Some("a receiver's thread has died".to_owned()),
            }
        }
        report.tcp = tcp.into_iter().filter_map(|thread| thread.join().ok()).collect();
        report
    })
}

fn receive_transport(job: &ReceiveJob, of: &TransportJob) -> Result<StagedReport, MoveError> {
    let flows = of.flows.iter().map(|flow| StagedFlow {
        server: Server { host: flow.server.to_string(), port: TRANSPORT_PORT },
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
        net: net_options(&of.transport, &of.parameters),
    };
    staged(&options, &Stop::new())
}
