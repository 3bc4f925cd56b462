//! How fast many GTP flows are simulated: senders with round trips from 1 to 200 ms into one receiver at 10 Gbit/s.
//! Prints the result; measure its time from outside:
//!
//! `cargo build --release -p inhaul-contract-tests --example thousand && time target/release/examples/thousand [FLOWS
//! [SECONDS]]`

use inhaul_base::{Bitrate, Span};
use inhaul_contract_tests::{ENDLESS, Scene, SenderSpec, Spec, jain};

fn main() -> Result<(), std::num::ParseIntError> {
    let mut arguments = std::env::args().skip(1);
    let flows: u32 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let access = Bitrate::from_gbps(10);
    let sender = |k| SenderSpec::new(k, ENDLESS, 1 + u64::from(k) * 200 / u64::from(flows));
    let queue_bytes = access.bytes_in(Span::from_millis(5));
    let mut scene = Scene::new(&Spec { access, queue_bytes, ..Spec::new((0..flows).map(sender).collect()) });
    let rates = scene.goodputs(seconds * 500, seconds * 1000);
    println!(
        "{flows} flows, {seconds} s: {} hops, {:.0} Mbit/s, Jain {:.4}, loss {:.5}, {} bytes of memory a flow",
        scene.sim.hops(),
        rates.iter().sum::<f64>(),
        jain(&rates),
        scene.loss_ratio(),
        scene.sim.memory_bytes() / flows.max(1) as usize,
    );
    Ok(())
}
