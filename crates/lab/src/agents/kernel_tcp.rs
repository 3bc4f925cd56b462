//! The kernel's TCP, for comparison: a flow is a connection. One end sends zeros and the other counts them.
//!
//! The receiver connects and writes one line, `NUMBER CONGESTION BYTES`. The sender chooses that congestion control,
//! sends that number of bytes (0: without end), and closes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use inhaul_udp::tcp_counts;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_tcp_congestion};
use serde::{Deserialize, Serialize};

/// The longest line that asks for a flow.
const LINE_MAX: u64 = 128;
/// Bytes that are read and written at a time.
const CHUNK: usize = 256 << 10;
/// A sender without any answer for this long is given up.
const LINE_PATIENCE: Duration = Duration::from_secs(10);

/// A flow to receive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TcpJob {
    /// Its number in the plan.
    pub(super) flow: usize,
    /// Where it comes from.
    pub(super) server: SocketAddr,
    /// The congestion control, by the kernel's name.
    pub(super) congestion: String,
    /// When it starts, in seconds.
    pub(super) start_s: f64,
    /// When it is stopped, in seconds.
    pub(super) stop_s: Option<f64>,
    /// Bytes; `None`: without end.
    pub(super) size: Option<u64>,
    /// The receiver's limit of bytes in flight; `None`: the kernel's choice.
    pub(super) window: Option<u64>,
}

/// Its receiver's record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TcpReceived {
    pub(super) flow: usize,
    pub(super) samples: Vec<(f64, u64)>,
    pub(super) stop_s: Option<f64>,
    pub(super) bytes: u64,
    pub(super) failure: Option<String>,
}

/// Its sender's record.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TcpSent {
    pub(super) flow: usize,
    pub(super) retransmitted: u32,
    pub(super) segment_bytes: u32,
    pub(super) rtt_us: u32,
    pub(super) failure: Option<String>,
}

/// The flows that a sender has served; shared with the threads that do.
pub(super) type Served = Arc<Mutex<Vec<TcpSent>>>;

/// Serves flows for as long as the process lives.
pub(super) fn serve(listener: &TcpListener, served: &Served) {
    for stream in listener.incoming().flatten() {
        let served = Arc::clone(served);
        // Without a thread the flow is not served, and its receiver says that it came to nothing.
        let _ = thread::Builder::new().name("tcp-sender".to_owned()).spawn(move || serve_flow(stream, &served));
    }
}

fn serve_flow(stream: TcpStream, served: &Served) {
    let Ok((flow, congestion, size)) = asked(&stream) else { return };
    let note = |sent: TcpSent| {
        let mut served = served.lock().unwrap_or_else(PoisonError::into_inner);
        match served.iter_mut().find(|known| known.flow == flow) {
            Some(known) => *known = sent,
            None => served.push(sent),
        }
    };
    let mut sent = TcpSent { flow, ..TcpSent::default() };
    if let Err(error) = set_tcp_congestion(&stream, &congestion) {
        sent.failure = Some(format!("the kernel does not have the congestion control '{congestion}': {error}"));
        return note(sent);
    }
    let mut stream = stream;
    let chunk = vec![0; CHUNK];
    let (mut left, mut noted) = (size.unwrap_or(u64::MAX), Instant::now());
    while left > 0 {
        let now = left.min(CHUNK as u64) as usize;
        // Its receiver ends a flow by closing it.
        if stream.write_all(&chunk[..now]).is_err() {
            break;
        }
        left -= now as u64;
        if noted.elapsed() >= Duration::from_millis(100) {
            noted = Instant::now();
            note(sent.with_counts(&stream));
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    note(sent.with_counts(&stream));
}

/// The request in the first line: number, congestion control, bytes.
fn asked(stream: &TcpStream) -> io::Result<(usize, String, Option<u64>)> {
    stream.set_read_timeout(Some(LINE_PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
    parse_line(&line).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn parse_line(line: &str) -> Option<(usize, String, Option<u64>)> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let (flow, congestion, size) = (words.next()?, words.next()?, words.next()?);
    let size: u64 = size.parse().ok()?;
    let legal = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (words.next().is_none() && legal(congestion)).then_some(())?;
    Some((flow.parse().ok()?, congestion.to_owned(), (size > 0).then_some(size)))
}

impl TcpSent {
    fn with_counts(&self, stream: &TcpStream) -> Self {
        let counts = tcp_counts(stream).unwrap_or_default();
        Self {
            // The record stays when the connection is gone.
            retransmitted: self.retransmitted.max(counts.retransmitted),
            segment_bytes: self.segment_bytes.max(counts.segment_bytes),
            rtt_us: if counts.rtt_us > 0 { counts.rtt_us } else { self.rtt_us },
            ..self.clone()
        }
    }
}

/// Receives a flow from its start, which is waited for, to its end or that of the run. Seconds count from `began`.
pub(super) fn receive(job: &TcpJob, began: Instant, end_s: f64, sample_s: f64) -> TcpReceived {
    let mut received = TcpReceived { flow: job.flow, ..TcpReceived::default() };
    let end = Duration::from_secs_f64(job.stop_s.unwrap_or(end_s).min(end_s));
    thread::sleep(Duration::from_secs_f64(job.start_s).saturating_sub(began.elapsed()));
    let outcome = receive_until(job, began, end, sample_s, &mut received);
    let now = began.elapsed().as_secs_f64();
    received.samples.push((now, received.bytes));
    match outcome {
        Ok(()) if job.size.is_some_and(|size| received.bytes >= size) || job.stop_s.is_some() => {
            received.stop_s = Some(now);
        }
        // The run ended before the flow did.
        Ok(()) if began.elapsed() >= end => {}
        Ok(()) => {
            received.stop_s = Some(now);
            received.failure = Some("its sender closed the connection early".to_owned());
        }
        Err(error) => {
            received.stop_s = Some(now);
            received.failure = Some(error.to_string());
        }
    }
    received
}

fn receive_until(
    job: &TcpJob,
    began: Instant,
    end: Duration,
    sample_s: f64,
    received: &mut TcpReceived,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(job.server)?;
    if let Some(window) = job.window {
        set_socket_recv_buffer_size(&stream, usize::try_from(window).unwrap_or(usize::MAX))?;
    }
    writeln!(stream, "{} {} {}", job.flow, job.congestion, job.size.unwrap_or(0))?;
    let mut chunk = vec![0; CHUNK];
    let mut next_sample = began.elapsed().as_secs_f64();
    while began.elapsed() < end {
        let patience = end.saturating_sub(began.elapsed()).min(Duration::from_secs_f64(sample_s));
        stream.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => received.bytes += n as u64,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let now = began.elapsed().as_secs_f64();
        if now >= next_sample {
            received.samples.push((now, received.bytes));
            next_sample = now + sample_s;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_line_takes_what_receivers_write_and_nothing_else() {
        assert_eq!(parse_line("3 cubic 100\n"), Some((3, "cubic".to_owned(), Some(100))));
        assert_eq!(parse_line("0 inhaul_stcp 0\n"), Some((0, "inhaul_stcp".to_owned(), None)));
        for wrong in ["", "3 cubic 100", "3 cubic\n", "x cubic 1\n", "3 ../x 1\n", "3 cubic 1 2\n", "3 cubic -1\n"] {
            assert_eq!(parse_line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn receive_counts_a_flow_over_loopback_and_its_sender_knows_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let served = Served::default();
        let of_server = Arc::clone(&served);
        thread::spawn(move || serve(&listener, &of_server));
        let job = |flow, congestion: &str, size, stop_s| TcpJob {
            flow,
            server,
            congestion: congestion.to_owned(),
            start_s: 0.0,
            stop_s,
            size,
            window: None,
        };
        let began = Instant::now();
        let whole = receive(&job(7, "reno", Some(1_000_000), None), began, 20.0, 0.01);
        assert_eq!((whole.bytes, whole.failure), (1_000_000, None));
        assert!(whole.stop_s.is_some() && whole.samples.last().is_some_and(|last| last.1 == 1_000_000));
        let stopped = receive(&job(8, "reno", None, Some(0.1)), Instant::now(), 20.0, 0.01);
        assert!(stopped.bytes > 0 && stopped.stop_s.is_some() && stopped.failure.is_none(), "{stopped:?}");
        let unknown = receive(&job(9, "nosuch", Some(10), None), Instant::now(), 20.0, 0.01);
        assert!(unknown.failure.is_some());
        let served = served.lock().unwrap();
        assert!(served.iter().any(|sent| sent.flow == 7 && sent.segment_bytes > 0));
        assert!(served.iter().any(|sent| sent.flow == 9 && sent.failure.is_some()));
    }
}
