//! Records a host: the delays of threads that sleep, send and read as the mover's engine does.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_udp::seal::Seals;
use inhaul_udp::thread::{allowed_cpus, pin_to_cpus, sleep_exactly};
use inhaul_udp::{Clock, Interest, Poller, Receiver, Socket, SocketOptions};

use crate::host_trace::HostTrace;
use crate::kept::Machine;

/// How long the sender sleeps, in turn: what pacing asks for between 10 Mbit/s and 1 Gbit/s.
const SLEEPS: [Span; 5] = [
    Span::from_micros(100),
    Span::from_micros(250),
    Span::from_micros(500),
    Span::from_millis(1),
    Span::from_millis(2),
];
/// How long it works after each, beside sending: with the sleeps above about a fifth of a processor, as an engine
/// needs at 1 Gbit/s.
const WORK: Span = Span::from_micros(200);
/// A time between two looks at the clock that is longer is a stall. Interrupts are shorter.
const STALL: Span = Span::from_micros(50);
/// In the first half the link is nearly idle, one datagram a time; in the second, data comes at this rate.
const RATE: Bitrate = Bitrate::from_mbps(500);
/// UDP payload of a packet of 1500 bytes.
const DATAGRAM_BYTES: usize = 1472;
/// Datagrams that leave as one message at most.
const BURST_MAX: usize = 44;
/// Samples of a kind that are kept at most.
const SAMPLES_MAX: usize = 25_000;
/// How often the reader looks whether all is over.
const LOOK: Span = Span::from_millis(20);

/// Records this host for `seconds`, beside a busy loop on each processor if `busy`.
///
/// # Errors
/// When there are no sockets or threads to be had.
pub fn record_host(seconds: f64, busy: bool) -> io::Result<HostTrace> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bind = || Socket::bind(any, &SocketOptions::default()).map_err(io::Error::other);
    let (outgoing, incoming) = (bind()?, bind()?);
    let socket_bytes = Some(incoming.receive_buffer_bytes() as u64);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let clock = Clock::start();
    let end = clock.now() + Span::from_secs_f64(seconds);
    let over = Arc::new(AtomicBool::new(false));
    let loops = if busy { processors } else { 0 };
    let loops: Vec<_> = (0..loops).map(|_| spawn("busy", busy_loop(Arc::clone(&over)))).collect::<Result<_, _>>()?;
    let to = incoming.local_address();
    let reader = spawn("reader", read(incoming, clock, Arc::clone(&over)))?;
    let sender = spawn("sender", send(outgoing, to, clock, end))?;
    let sent = joined(sender)?;
    over.store(true, Ordering::Relaxed);
    let heard = joined(reader)?;
    for busy in loops {
        busy.join().map_err(|_| io::Error::other("a thread has died"))?;
    }
    let (wake_late, stalls) = sent?;
    let (read_late, aggregates) = heard?;
    let micros = |span: Span| (span.as_nanos() as f64 / 100.0).round() / 10.0;
    let about = if busy { "beside a busy loop on each processor" } else { "without other load" };
    let trace = HostTrace {
        about: about.to_owned(),
        kernel: Machine::here().kernel.unwrap_or_default(),
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        seconds,
        socket_bytes,
        wake_late_us: wake_late.into_iter().map(micros).collect(),
        read_late_us: read_late.into_iter().map(micros).collect(),
        stalls_us: stalls.into_iter().map(|(after, length)| (micros(after).max(1.0), micros(length))).collect(),
        aggregates,
        ..HostTrace::default()
    };
    trace.check().map_err(io::Error::other)?;
    Ok(trace)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(format!("inhaul-{name}")).spawn(work)
}

fn joined<T>(thread: thread::JoinHandle<T>) -> io::Result<T> {
    thread.join().map_err(|_| io::Error::other("a thread has died"))
}

fn busy_loop(over: Arc<AtomicBool>) -> impl FnOnce() {
    move || {
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// Gives the sender the first processor and the reader the others, so that they disturb each other no more than two
/// hosts do.
fn keep_apart(sends: bool) {
    let Ok(all) = allowed_cpus() else { return };
    if let [first, others @ ..] = &all[..]
        && !others.is_empty()
    {
        // If it is refused, the trace has a little more noise.
        let _ = if sends { pin_to_cpus(&[*first]) } else { pin_to_cpus(others) };
    }
}

/// Lateness of wake-ups, and stalls: time since the one before and length.
type Sent = (Vec<Span>, Vec<(Span, Span)>);

/// Sleeps, sends and works in turn.
fn send(socket: Socket, to: SocketAddr, clock: Clock, end: Time) -> impl FnOnce() -> io::Result<Sent> {
    move || {
        // Without it wake-ups are coarser, as they are for an engine then.
        let _ = sleep_exactly();
        keep_apart(true);
        let mut poller = Poller::new()?;
        let mut events = Vec::new();
        let (mut late, mut stalls) = (Vec::new(), Vec::new());
        let burst = vec![0; BURST_MAX * DATAGRAM_BYTES];
        let half = clock.now() + end.since(clock.now()) / 2;
        let mut sent_at = clock.now();
        let mut stalled_until = sent_at;
        for sleep in SLEEPS.into_iter().cycle() {
            let deadline = clock.now() + sleep;
            if deadline >= end {
                break;
            }
            poller.sleep_until(clock, deadline, &mut events)?;
            let woken = clock.now();
            if late.len() < SAMPLES_MAX {
                late.push(woken.since(deadline));
            }
            let earned = RATE.bytes_in(woken.since(sent_at)) as usize / DATAGRAM_BYTES;
            let datagrams = if woken < half { 1 } else { earned.clamp(1, BURST_MAX) };
            sent_at = woken;
            let bytes = &burst[..datagrams * DATAGRAM_BYTES];
            // Packets that the network does not take are not missed.
            let segment = socket.segments() && datagrams > 1;
            if segment || datagrams == 1 {
                let _ = socket.send([socket.outgoing(to, bytes, segment.then_some(DATAGRAM_BYTES as u16))]);
            } else {
                let _ = socket.send(bytes.chunks(DATAGRAM_BYTES).map(|one| socket.outgoing(to, one, None)));
            }
            let begun = clock.now();
            let mut seen = begun;
            while seen.since(begun) < WORK {
                let now = clock.now();
                if now.since(seen) >= STALL && stalls.len() < SAMPLES_MAX {
                    stalls.push((seen.since(stalled_until), now.since(seen)));
                    stalled_until = now;
                }
                seen = now;
            }
        }
        Ok((late, stalls))
    }
}

/// Lateness of readings that the reader slept for, and datagrams of each message.
type Arrivals = (Vec<Span>, Vec<u16>);

/// Reads datagrams as soon as it is woken.
fn read(socket: Socket, clock: Clock, over: Arc<AtomicBool>) -> impl FnOnce() -> io::Result<Arrivals> {
    move || {
        let _ = sleep_exactly();
        keep_apart(false);
        let mut poller = Poller::new()?;
        poller.add(&socket, 0, Interest::Read)?;
        let mut receiver = Receiver::new(&socket, DATAGRAM_BYTES);
        let mut events = Vec::new();
        let (mut late, mut aggregates) = (Vec::new(), Vec::new());
        while !over.load(Ordering::Relaxed) {
            poller.sleep_until(clock, clock.now() + LOOK, &mut events)?;
            if events.is_empty() {
                continue;
            }
            let batch = receiver.receive(&socket, &mut Seals::default())?;
            // The first is the datagram that woke the thread; later ones were read with it.
            if let Some(first) = batch.messages().first()
                && late.len() < SAMPLES_MAX
            {
                late.push(first.waited);
            }
            let sizes = batch.messages().iter().map(|message| message.datagrams().min(usize::from(u16::MAX)) as u16);
            let room = SAMPLES_MAX - aggregates.len();
            aggregates.extend(sizes.take(room));
        }
        Ok((late, aggregates))
    }
}

impl HostTrace {
    /// Writes it as text that can be read and compared.
    ///
    /// # Errors
    /// When `out` takes it no more.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut text = Vec::new();
        let head = [
            ("host_trace", serde_json::to_string(&self.host_trace)),
            ("about", serde_json::to_string(&self.about)),
            ("kernel", serde_json::to_string(&self.kernel)),
            ("processors", serde_json::to_string(&self.processors)),
            ("seconds", serde_json::to_string(&self.seconds)),
        ];
        writeln!(text, "{{")?;
        let socket = self.socket_bytes.map(|bytes| ("socket_bytes", Ok(bytes.to_string())));
        for (name, value) in head.into_iter().chain(socket) {
            writeln!(text, "  \"{name}\": {},", value.map_err(io::Error::other)?)?;
        }
        let micros = |list: &[f64]| list.iter().map(f64::to_string).collect::<Vec<_>>();
        let pair = |(after, length): &(f64, f64)| format!("[{after},{length}]");
        let lists = [
            ("wake_late_us", micros(&self.wake_late_us), ","),
            ("read_late_us", micros(&self.read_late_us), ","),
            ("stalls_us", self.stalls_us.iter().map(pair).collect(), ","),
            ("aggregates", self.aggregates.iter().map(u16::to_string).collect(), ""),
        ];
        for (name, values, comma) in lists {
            let lines: Vec<String> = values.chunks(25).map(|line| line.join(",")).collect();
            writeln!(text, "  \"{name}\": [\n{}\n  ]{comma}", lines.join(",\n"))?;
        }
        writeln!(text, "}}")?;
        out.write_all(&text)
    }

    /// Its content, in a few lines.
    pub fn summary(&self) -> String {
        let quantiles = |list: &[f64]| {
            let mut sorted = list.to_vec();
            sorted.sort_by(f64::total_cmp);
            let at = |part: f64| sorted.get((sorted.len() as f64 * part) as usize).copied().unwrap_or_default();
            let most = sorted.last().copied().unwrap_or_default();
            let of = |part, name: &str| format!("{name} {:.0} us", at(part));
            format!(
                "{} samples, {}, {}, {}, most {most:.0} us",
                sorted.len(),
                of(0.5, "median"),
                of(0.99, "99 %"),
                of(0.999, "99.9 %")
            )
        };
        let stalls: Vec<f64> = self.stalls_us.iter().map(|(_, length)| *length).collect();
        let sizes: Vec<f64> = self.aggregates.iter().copied().map(f64::from).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
        format!(
            "wake-ups late: {}\nreadings late: {}\nstalls: {}\ndatagrams in a message: {mean:.1} on average",
            quantiles(&self.wake_late_us),
            quantiles(&self.read_late_us),
            quantiles(&stalls),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_host_makes_a_trace_that_can_be_read_again() {
        let trace = record_host(0.3, false).unwrap();
        assert!(trace.wake_late_us.len() > 20 && trace.read_late_us.len() > 20, "{}", trace.summary());
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        assert_eq!(HostTrace::parse(std::str::from_utf8(&text).unwrap()), Ok(trace));
    }
}
