//! Sends packets through a link as fast as the machine can: to be timed from outside, as a link has no clock.
//!
//!     cargo build --release -p inhaul-link --example speed
//!     time target/release/examples/speed drop-tail 20000000

use std::hint::black_box;
use std::process::ExitCode;

use inhaul_base::{Bitrate, Probability, RandomStream, Span, Time};
use inhaul_link::{CoDelSpec, Discipline, Link, LinkSpec, LossSpec, Mark, QueueLimit};

/// About as large as a packet of the simulator: its head is inside.
#[derive(Clone)]
struct Packet([u64; 12]);

impl Mark for Packet {
    fn mark(&mut self) -> bool {
        black_box(self.0[0]) == u64::MAX
    }
}

/// Nanoseconds between packets of 1,500 bytes: loads of 0.9 and 1.1 on 1 Gbit/s.
const UNDER: u64 = 13_333;
const OVER: u64 = 10_909;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let case = arguments.first().and_then(|name| case(name));
    let packets = arguments.get(1).map_or(Some(20_000_000), |count| count.parse().ok());
    let (Some((spec, gap)), Some(packets)) = (case, packets) else {
        eprintln!("usage: speed drop-tail|overload|codel|loss|jitter [PACKETS]");
        return ExitCode::from(2);
    };
    println!("{packets} packets sent, {} received", carry(spec, gap, packets));
    ExitCode::SUCCESS
}

/// The link of a case, and the nanoseconds between packets.
fn case(name: &str) -> Option<(LinkSpec, u64)> {
    let plain = LinkSpec::drop_tail(Bitrate::from_gbps(1), Span::from_millis(10), QueueLimit::Bytes(1_000_000));
    let mut codel = plain.clone();
    codel.queue.discipline = Discipline::CoDel(CoDelSpec::RFC_8289);
    match name {
        "drop-tail" => Some((plain, UNDER)),
        "overload" => Some((plain, OVER)),
        "codel" => Some((codel, OVER)),
        "loss" => Some((LinkSpec { loss: LossSpec::Random(Probability::ratio(1, 1000)), ..plain }, UNDER)),
        "jitter" => Some((LinkSpec { jitter: Span::from_micros(100), jitter_reorders: true, ..plain }, UNDER)),
        _ => None,
    }
}

/// Sends a packet each `gap` nanoseconds and takes what has arrived; returns how many arrived meanwhile.
fn carry(spec: LinkSpec, gap: u64, packets: u64) -> u64 {
    let mut link = Link::<Packet>::new(spec, RandomStream::new(1, 1));
    let mut received = 0;
    for number in 0..packets {
        let now = Time::from_nanos(number * gap);
        while link.next_arrival().is_some_and(|at| at <= now) {
            received += u64::from(black_box(link.receive(now)).is_some());
        }
        // A drop is part of the work.
        let _ = black_box(link.send(now, 1500, black_box(Packet([number; 12]))));
    }
    received
}
