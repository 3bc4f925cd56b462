//! `bench`: measures from memory to memory without disks, like iperf3.
//!
//! It uses `session` and `engine` at both ends, and `serve` to greet clients; `api` and `system`.

mod client;
mod memory;
mod server;
mod staged;

use inhaul_base::{Bitrate, RangeSet};
use inhaul_transport::{Command, FlowId, FlowLimits, FlowStats, JoinFlow, ObjectId, Role};

use self::memory::BenchMemory;
use inhaul_engine::engine::net;
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::{EndpointId, Engine};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::connect::Session;
use inhaul_session::session::frame::{BenchStats, Memory};
use inhaul_session::system::sockets;

pub use client::{BenchUpdate, bench};
pub use server::bench_server;
pub use staged::{StagedFlow, StagedFlowReport, StagedOptions, StagedReport, staged};

/// An object that no bench comes to the end of.
const ENDLESS: u64 = 1 << 50;

/// What a receiver that calls has for its flows.
struct Receiving<'a> {
    net: &'a NetOptions,
    /// Most that all flows together may have (C_r).
    rates: net::Rates,
    /// The endpoint of all flows; made with the first, which says over what network.
    endpoint: &'a mut Option<EndpointId>,
    memory: &'a mut BenchMemory,
}

impl Receiving<'_> {
    /// Fetches `size` bytes of the server's memory over a session, at `rate` at most. The flow's object has its
    /// number.
    fn join(
        &mut self,
        engine: &mut Engine,
        session: Session,
        (size, memory): (u64, Memory),
        rate: Option<Bitrate>,
    ) -> Result<FlowId, MoveError> {
        let socket = sockets::connect(self.net, session.ends())?;
        let endpoint = match *self.endpoint {
            Some(endpoint) => endpoint,
            None => {
                let made = net::add_endpoint(self.net, engine, Role::Receiver, self.rates, &socket)?;
                *self.endpoint.insert(made)
            }
        };
        let port = engine.add_port(Port::new(socket, true))?;
        let flow = engine.new_flow();
        let object = ObjectId(flow.0);
        let join = JoinFlow {
            object,
            limits: FlowLimits { application_rate: rate, link_rate: None },
            ..net::join_toward(self.net, engine, flow, session.datagrams, None)?
        };
        self.memory.insert(flow, memory);
        engine.add_flow(flow, endpoint, port, session.stream)?;
        engine.command(endpoint, Command::Fetch { object, size, held: RangeSet::new() });
        engine.command(endpoint, Command::Join(join));
        Ok(flow)
    }
}

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
