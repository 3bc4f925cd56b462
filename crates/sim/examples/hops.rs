//! How fast the simulator is: senders at constant rates, three links each, and receivers that acknowledge every second
//! packet. Prints how many packet hops it was; the simulator has no clock, so time it from outside:
//!
//! `cargo build --release -p inhaul-sim --example hops && time target/release/examples/hops [PAIRS [SECONDS]]`

#[path = "../tests/common.rs"]
mod common;

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
            leaves: false,
            mtu: 1500,
            limits: FlowLimits::default(),
        })?;
    }
    sim.run_until(Time::ZERO + Span::from_secs(seconds))?;
    println!(
        "{pairs} pairs, {seconds} s at 9.5 Gbit/s together: {} hops; memory {} kB beside packets in flight",
        sim.hops(),
        sim.memory_bytes() / 1000,
    );
    Ok(())
}
