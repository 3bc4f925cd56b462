//! What both programs share: arguments, memory, and the line that they print at their end.
//!
//!     NAME recv --listen ADDRESS:PORT --certificate FILE --mtu BYTES --memory hot|cold [--no-offload]
//!     NAME send ADDRESS:PORT --certificate FILE --seconds N --mtu BYTES --memory hot|cold [--no-offload]
//!
//! The receiver makes a certificate and writes it to FILE before it listens; the sender trusts that one.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};

/// The name that the certificate is of.
pub const NAME: &str = "inhaul-bench";
/// What both ends call the protocol in the handshake.
pub const PROTOCOL: &[u8] = b"inhaul-bench";
/// Flow-control windows and send buffers, in bytes: far more than loopback and veth hold.
pub const WINDOW: u32 = 64 << 20;
/// Buffers of the sockets, in bytes, as inhaul asks for them; the kernel's `rmem_max` and `wmem_max` limit them.
pub const RECEIVE_BUFFER: usize = 8 << 20;
pub const SEND_BUFFER: usize = 4 << 20;
/// Received datagrams are acknowledged after this many have come; by default, every second one is.
pub const ACK_EVERY: u8 = 64;

const COLD_BYTES: usize = 1 << 30;
const HOT_BYTES: usize = 1 << 16;
/// The sender hands over pieces of this length.
const PIECE_BYTES: usize = 1 << 16;

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Which side this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Receive,
    Send,
}

/// What a program was told.
#[derive(Clone, Debug)]
pub struct Setup {
    pub role: Role,
    pub address: SocketAddr,
    pub certificate: PathBuf,
    /// Of the path, in bytes, IP header included.
    pub mtu: u16,
    pub cold: bool,
    pub offload: bool,
    pub duration: Duration,
}

impl Setup {
    /// UDP payload of each datagram, in bytes.
    pub fn datagram(&self) -> u16 {
        self.mtu - if self.address.is_ipv4() { 28 } else { 48 }
    }

    /// An address of any port, for the side that does not listen.
    pub fn any(&self) -> SocketAddr {
        let any = if self.address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        any.parse().expect("an address")
    }
}

/// Reads the arguments, runs one side on this thread, and prints its line.
pub fn main(run: impl AsyncFnOnce(Setup) -> Outcome<Report>) -> ExitCode {
    let outcome = setup(std::env::args().skip(1)).and_then(|setup| {
        // Each side has one processor, so one thread has no other to wait for.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(setup))
    });
    match outcome {
        Ok(report) => {
            println!("{}", report.line());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn setup(mut arguments: impl Iterator<Item = String>) -> Outcome<Setup> {
    let role = match arguments.next().as_deref() {
        Some("recv") => Role::Receive,
        Some("send") => Role::Send,
        _ => return Err("say recv or send".into()),
    };
    let (mut address, mut certificate) = (None, None);
    let (mut mtu, mut cold, mut offload, mut duration) = (1500, false, true, Duration::from_secs(5));
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--listen" => address = Some(value()?.parse()?),
            "--certificate" => certificate = Some(PathBuf::from(value()?)),
            "--mtu" => mtu = value()?.parse()?,
            "--memory" => {
                cold = match value()?.as_str() {
                    "hot" => false,
                    "cold" => true,
                    other => return Err(format!("memory is hot or cold, not '{other}'").into()),
                }
            }
            "--no-offload" => offload = false,
            "--seconds" => duration = Duration::try_from_secs_f64(value()?.parse()?)?,
            other => address = Some(other.parse().map_err(|_| format!("'{other}' is no address and no option"))?),
        }
    }
    if mtu < 1280 {
        return Err("QUIC needs an MTU of 1280 and more".into());
    }
    let address = address.ok_or("an address is needed")?;
    Ok(Setup {
        role,
        address,
        certificate: certificate.ok_or("--certificate is needed")?,
        mtu,
        cold,
        offload,
        duration,
    })
}

/// A certificate and its key, in PEM; the certificate is in the file too.
pub fn make_certificate(setup: &Setup) -> Outcome<(String, String)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(&setup.certificate, &certificate)?;
    Ok((certificate, key))
}

/// What the sender sends: its memory, again and again. Nothing is copied.
pub struct Pieces {
    memory: Bytes,
    at: usize,
}

impl Pieces {
    pub fn new(setup: &Setup) -> Self {
        Self { memory: Bytes::from(memory(setup.cold)), at: 0 }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let piece = self.memory.slice(self.at..self.at + PIECE_BYTES);
        self.at = (self.at + PIECE_BYTES) % self.memory.len();
        Some(piece)
    }
}

/// Where the receiver copies what has come: to its memory, from end to end, again and again.
pub struct Landing {
    memory: Vec<u8>,
    at: usize,
    bytes: u64,
    began: Option<(Instant, Duration)>,
    last: Instant,
}

impl Landing {
    pub fn new(setup: &Setup) -> Self {
        Self { memory: memory(setup.cold), at: 0, bytes: 0, began: None, last: Instant::now() }
    }

    pub fn take(&mut self, chunks: &[Bytes]) {
        for mut chunk in chunks.iter().map(|chunk| &chunk[..]) {
            self.bytes += chunk.len() as u64;
            while !chunk.is_empty() {
                let len = chunk.len().min(self.memory.len() - self.at);
                self.memory[self.at..self.at + len].copy_from_slice(&chunk[..len]);
                self.at = (self.at + len) % self.memory.len();
                chunk = &chunk[len..];
            }
        }
        self.last = Instant::now();
        self.began.get_or_insert_with(|| (self.last, cpu_time()));
    }

    pub fn report(&self) -> Report {
        let (began, cpu) = self.began.unwrap_or((self.last, cpu_time()));
        Report { bytes: self.bytes, span: self.last - began, cpu: cpu_time() - cpu }
    }
}

/// What a side has to say at its end.
pub struct Report {
    pub bytes: u64,
    pub span: Duration,
    /// Processor time of the process.
    pub cpu: Duration,
}

impl Report {
    fn line(&self) -> String {
        let seconds = self.span.as_secs_f64();
        let gbit_s = if seconds > 0.0 { self.bytes as f64 * 8e-9 / seconds } else { 0.0 };
        let (bytes, cpu) = (self.bytes, self.cpu.as_secs_f64());
        format!("{{\"bytes\":{bytes},\"seconds\":{seconds:.6},\"gbit_s\":{gbit_s:.3},\"cpu_seconds\":{cpu:.6}}}")
    }
}

/// Processor time of the process until now.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory whose pages are all there.
fn memory(cold: bool) -> Vec<u8> {
    vec![1; if cold { COLD_BYTES } else { HOT_BYTES }]
}
