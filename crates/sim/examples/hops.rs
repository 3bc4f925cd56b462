//! How fast the simulator is: a sender at a constant rate, three links, and a receiver that acknowledges every second
//! packet. Prints packet hops per second of one core.
//!
//! `cargo run --release -p inhaul-sim --example hops [PAIRS [SECONDS]]`
#![allow(clippy::disallowed_methods, reason = "a benchmark needs the clock")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{Collector, ConstantSender};
use inhaul_base::{Bitrate, Span, Time};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_sim::{DumbbellSpec, HostSpec, Pair, Simulation, Transfer, dumbbell};
use inhaul_transport::{FlowLimits, ObjectId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pairs: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let rate = Bitrate::from_gbps(10);
    let link = |delay| LinkSpec::drop_tail(rate, Span::from_millis(delay), QueueLimit::Bytes(1 << 20));
    let pair = Pair {
        sender: HostSpec::default(),
        receiver: HostSpec::default(),
        sender_link: link(5),
        receiver_link: link(5),
    };
    let spec = DumbbellSpec { pairs: vec![pair; pairs as usize], bottleneck: link(10), bottleneck_back: link(10) };
    let (topology, parts) = dumbbell(&spec);
    let mut sim = Simulation::new(topology, 1)?;
    for (k, (from, to)) in parts.senders.iter().zip(&parts.receivers).enumerate() {
        let each = Bitrate::from_bps(rate.bps() * 95 / 100 / pairs);
        let sender = sim.endpoint(*from, Box::new(ConstantSender::new(each)))?;
        let receiver = sim.endpoint(*to, Box::new(Collector::default()))?;
        sim.transfer(Transfer {
            name: format!("flow {k}"),
            sender,
            receiver,
            object: ObjectId(0),
            size: 1 << 50,
            start: Time::ZERO,
            stop: None,
            mtu: 1500,
            limits: FlowLimits::default(),
        })?;
    }
    let began = Instant::now();
    sim.run_until(Time::ZERO + Span::from_secs(seconds))?;
    let took = began.elapsed().as_secs_f64();
    let hops = sim.hops() as f64;
    println!(
        "{pairs} pairs, {seconds} s at 9.5 Gbit/s: {hops} hops in {took:.3} s: {:.2} million hops a second, {:.1} ns a hop; \
         {:.1} times real time; memory {} kB",
        hops / took / 1e6,
        took * 1e9 / hops,
        seconds as f64 / took,
        sim.memory_bytes() / 1000,
    );
    Ok(())
}
