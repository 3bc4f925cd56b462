//! `bench`: memory to memory, nothing touching disk, in the manner of iperf3.

mod client;
mod memory;
mod server;
mod staged;

use inhaul_transport::FlowStats;

use crate::frame::BenchStats;

pub use client::{BenchUpdate, bench};
pub use server::bench_server;
pub use staged::{StagedFlow, StagedFlowReport, StagedOptions, StagedReport, staged};

/// What a flow's endpoint at the receiver knows, as it travels.
fn bench_stats(stats: &FlowStats, cpu: inhaul_base::Span) -> BenchStats {
    BenchStats {
        placed_bytes: stats.placed_bytes,
        received_packets: stats.received_packets,
        lost_packets: stats.lost_packets,
        retransmitted_bytes: stats.retransmitted_bytes,
        rtt: stats.rtt,
        cpu,
    }
}
