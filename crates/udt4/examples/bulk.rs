//! UDT 4 memory to memory: the rate of this crate alone, like `bench/rivals/udt.cc` for libudt.
//!
//!     bulk recv PORT SENDERS MTU hot|cold [no-offload]
//!     bulk send HOST PORT SECONDS MTU hot|cold [no-offload]
//!
//! `hot` sends from and receives into one buffer that stays in the cache; `cold` walks through 1 GiB. The last line of
//! output is a JSON object with bytes and seconds. Either end may be libudt's.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::thread;

use inhaul_base::{Span, Time};
use inhaul_udp::Clock;
use inhaul_udt4::{Endpoint, Options, Socket};

const USAGE: &str = "usage: bulk recv PORT SENDERS MTU hot|cold [no-offload]
       bulk send HOST PORT SECONDS MTU hot|cold [no-offload]";

/// Most bytes of a write or a read.
const PIECE: usize = 1 << 20;
const COLD_BYTES: usize = 1 << 30;
/// What UDT may buffer, as in udt.cc.
const BUFFER_BYTES: usize = 32 << 20;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let moved = match arguments[..] {
        ["recv", port, senders, ref shape @ ..] => receive(port, senders, shape),
        ["send", host, port, seconds, ref shape @ ..] => send(host, port, seconds, shape),
        _ => Err(USAGE.into()),
    };
    match moved {
        Ok((bytes, span)) => {
            println!("{{\"bytes\": {bytes}, \"seconds\": {:.6}}}", span.as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bulk: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How the connection is, and how much memory is gone through.
fn shape(arguments: &[&str]) -> Outcome<(Options, usize)> {
    let (mtu, memory, offload) = match *arguments {
        [mtu, memory] => (mtu, memory, true),
        [mtu, memory, "no-offload"] => (mtu, memory, false),
        _ => return Err(USAGE.into()),
    };
    let mss: u16 = mtu.parse()?;
    let packets = BUFFER_BYTES / usize::from(mss).max(1);
    let options = Options { mss, offload, send_buffer: packets, receive_buffer: packets, ..Options::default() };
    let bytes = match memory {
        "hot" => PIECE,
        "cold" => COLD_BYTES,
        other => return Err(format!("memory is hot or cold, not '{other}'").into()),
    };
    Ok((options, bytes))
}

/// Memory whose pages are all there, and where the next piece of it is.
struct Memory {
    bytes: Vec<u8>,
    at: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        Self { bytes: vec![b'x'; len], at: 0 }
    }

    fn piece(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + PIECE]
    }

    /// Goes on behind `moved` bytes, and back to the start when no whole piece is left.
    fn advance(&mut self, moved: usize) {
        let next = self.at + moved;
        self.at = if next + PIECE <= self.bytes.len() { next } else { 0 };
    }
}

fn send(host: &str, port: &str, seconds: &str, arguments: &[&str]) -> Outcome<(u64, Span)> {
    let (options, len) = shape(arguments)?;
    let mut memory = Memory::new(len);
    let peer = SocketAddr::new(host.parse()?, port.parse()?);
    let endpoint = Endpoint::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options)?;
    let socket = endpoint.connect(peer)?;
    let clock = Clock::start();
    let end = Time::ZERO + Span::from_secs_f64(seconds.parse()?);
    let mut bytes = 0;
    while clock.now() < end {
        let count = socket.write(memory.piece())?;
        bytes += count as u64;
        memory.advance(count);
    }
    // Waits until all of it is acknowledged.
    socket.close()?;
    Ok((bytes, clock.now().since(Time::ZERO)))
}

/// Received bytes of one connection, and its times of begin and end.
struct Moved {
    bytes: u64,
    first: Time,
    last: Time,
}

fn receive(port: &str, senders: &str, arguments: &[&str]) -> Outcome<(u64, Span)> {
    let (options, len) = shape(arguments)?;
    let senders: usize = senders.parse()?;
    // Before anybody can connect, so that no sender waits for memory to be filled.
    let memories: Vec<Memory> = (0..senders).map(|_| Memory::new(len)).collect();
    let endpoint = Endpoint::bind((Ipv4Addr::UNSPECIFIED, port.parse()?).into(), options)?;
    let incoming = endpoint.listen(senders)?;
    let clock = Clock::start();
    let mut threads = Vec::new();
    for memory in memories {
        let socket = incoming.accept()?;
        threads.push(thread::spawn(move || drain(&socket, memory, clock)));
    }
    let mut all = Moved { bytes: 0, first: Time::FAR_FUTURE, last: Time::ZERO };
    for thread in threads {
        let one = thread.join().map_err(|_| "a thread failed")??;
        all.bytes += one.bytes;
        (all.first, all.last) = (all.first.min(one.first), all.last.max(one.last));
    }
    Ok((all.bytes, all.last.since(all.first)))
}

/// Receives until the sender closes.
fn drain(socket: &Socket, mut memory: Memory, clock: Clock) -> Outcome<Moved> {
    let mut moved = Moved { bytes: 0, first: Time::FAR_FUTURE, last: Time::ZERO };
    loop {
        let count = socket.read(memory.piece())?;
        if count == 0 {
            return Ok(moved);
        }
        moved.last = clock.now();
        moved.first = moved.first.min(moved.last);
        moved.bytes += count as u64;
        memory.advance(count);
    }
}
