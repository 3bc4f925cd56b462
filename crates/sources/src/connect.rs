//! A source becomes a flow of an endpoint.

use std::sync::Arc;

use inhaul_base::Bitrate;
use inhaul_transport::{FlowId, FlowLimits, JoinFlow, JoinSource, ObjectId};

use super::lanes::Lanes;
use super::ranges::RangeSource;
use inhaul_engine::engine::net;
use inhaul_engine::engine::{EndpointId, Engine, PortId};
use inhaul_engine::paths::Paths;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::NetOptions;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::Session;
use inhaul_session::session::early_path::EarlyFlow;

/// A flow whose data can be begun.
#[derive(Debug)]
pub struct Connected {
    pub flow: FlowId,
    pub server: Server,
    /// What begins its data: for [`Paths::begin`].
    pub join: JoinFlow,
    /// Its datagrams are in the clear.
    pub plaintext: bool,
}

/// Gives a session, whose datagrams come over `port`, to the engine as a flow that fetches `object` at `rate` at most.
/// `probed`: what is known of the early probes over its socket.
///
/// # Errors
/// When the system has no randomness, or no more sockets can be watched.
pub fn connect(
    engine: &mut Engine,
    paths: &mut Paths,
    options: &NetOptions,
    (endpoint, port): (EndpointId, PortId),
    (session, probed): (Session, Option<EarlyFlow>),
    (object, rate): (ObjectId, Option<Bitrate>),
) -> Result<Connected, MoveError> {
    let flow = engine.new_flow();
    let limits = FlowLimits { application_rate: rate, link_rate: None };
    let join = JoinFlow { object, limits, ..net::join_toward(options, engine, flow, session.datagrams, probed)? };
    let plaintext = session.stream.is_plaintext();
    let way = paths.way_of(engine.now(), options, &session);
    paths.add(flow, way);
    engine.add_flow(flow, endpoint, port, session.stream)?;
    Ok(Connected { flow, server: session.server, join, plaintext })
}

/// Has `endpoint` fetch `object` from a source of ranges, as `flow`, at `rate` at most.
///
/// # Errors
/// When the system has no more threads.
pub fn add_ranges(
    engine: &mut Engine,
    endpoint: EndpointId,
    flow: FlowId,
    source: Arc<dyn RangeSource>,
    (object, rate): (ObjectId, Option<Bitrate>),
) -> Result<(), MoveError> {
    let limits = FlowLimits { application_rate: rate, link_rate: None };
    let join = JoinSource { flow, object, lanes: source.lanes(), rtt: source.rtt(), limits };
    let lanes = Lanes::start(flow, source, engine.deliveries())?;
    engine.add_source(endpoint, join, Box::new(lanes));
    Ok(())
}
