//! How long a packet takes through a link, in nanoseconds of processor time: send, next arrival, receive.
//!
//!     cargo run --release -p inhaul-link --example speed
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock; the link does not")]

use std::hint::black_box;
use std::time::Instant;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{CoDelSpec, Discipline, Link, LinkSpec, LossSpec, QueueLimit};

/// As large as a packet of the simulator: its head is inside.
type Packet = [u64; 12];

const PACKETS: u64 = 2_000_000;
/// The machine is shared: the least of several runs is nearest to what the code takes.
const RUNS: usize = 7;

fn main() {
    let gigabit = LinkSpec::drop_tail(Bitrate::from_gbps(1), Span::from_millis(10), QueueLimit::Bytes(1_000_000));
    let mut codel = gigabit.clone();
    codel.queue.discipline = Discipline::CoDel(CoDelSpec::RFC_8289);
    let mut reordering = gigabit.clone();
    reordering.jitter = Span::from_micros(100);
    reordering.jitter_reorders = true;
    let lossy = LinkSpec { loss: LossSpec::Random(Probability::ratio(1, 1000)), ..gigabit.clone() };
    for (name, spec, gap) in [
        ("drop-tail, load 0.9", gigabit.clone(), 13_333),
        ("drop-tail, load 1.1", gigabit, 10_909),
        ("CoDel, load 1.1", codel, 10_909),
        ("random loss, load 0.9", lossy, 13_333),
        ("reordering jitter, load 0.9", reordering, 13_333),
    ] {
        let nanos = (0..RUNS).map(|_| nanos_per_packet(spec.clone(), gap)).fold(f64::INFINITY, f64::min);
        println!("{name:30} {nanos:6.1} ns a packet");
    }
}

/// Sends a packet of 1,500 bytes each `gap` nanoseconds, and takes what has arrived.
fn nanos_per_packet(spec: LinkSpec, gap: u64) -> f64 {
    let mut link = Link::<Packet>::new(spec, RandomStream::new(1, 1));
    let mut received = 0u64;
    let mut begin = Instant::now();
    for number in 0..PACKETS + PACKETS / 10 {
        if number == PACKETS / 10 {
            begin = Instant::now();
        }
        let now = Time::from_nanos(number * gap);
        while link.next_arrival().is_some_and(|at| at <= now) {
            received += u64::from(black_box(link.receive(now)).is_some());
        }
        let _ = black_box(link.send(now, 1500, black_box([number; 12])));
    }
    let nanos = begin.elapsed().as_nanos() as f64;
    assert!(received > PACKETS / 2, "the link carried {received} packets only");
    nanos / PACKETS as f64
}
