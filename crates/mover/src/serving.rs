//! Sessions of those who fetch from here: their flows, their data sets and their digests, over one socket.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use inhaul_base::Bitrate;
use inhaul_store::DataSet;
use inhaul_store::digest_cache::DigestCache;
use inhaul_transport::{Command, Event, FlowId, OfferFlow, Role};
use inhaul_udp::Socket;

use crate::bodies::FileBodies;
use crate::control_stream::ControlStream;
use crate::digest_service::DigestService;
use crate::endpoints::Endpoints;
use crate::engine::{Engine, PortId};
use crate::error::MoveError;
use crate::frame::{Frame, GroupRun, RefusalCode};
use crate::net;
use crate::options::NetOptions;
use crate::port::Port;

/// Most that remembered digests may take on the disk when a server starts: those of some 6 TB.
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// Digests wait while so many bytes of a control stream wait: requests for data must not queue behind them.
const DIGEST_BACKLOG: usize = 64 * 1024;

/// A session that is set up: somebody has come for this.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) stream: ControlStream,
    /// The protocol that is to carry the data, by its name in the registry.
    pub(crate) transport: &'static str,
    pub(crate) data_set: Arc<DataSet>,
}

/// All sessions of those who fetch.
pub(crate) struct Serving {
    endpoints: Endpoints,
    port: PortId,
    net: NetOptions,
    pub(crate) bodies: FileBodies,
    data_sets: BTreeMap<FlowId, Arc<DataSet>>,
    digests: DigestService,
}

impl Serving {
    /// No session yet, over `socket`; digests are remembered in the directory `cache`.
    pub(crate) fn new(
        engine: &mut Engine,
        socket: Socket,
        send_rate: Option<Bitrate>,
        net: &NetOptions,
        cache: Option<&Path>,
    ) -> Result<Self, MoveError> {
        Ok(Self {
            endpoints: Endpoints::new(&socket, send_rate, None),
            port: engine.add_port(Port::new(socket, false))?,
            net: net.clone(),
            bodies: FileBodies::default(),
            data_sets: BTreeMap::new(),
            // What earlier runs have computed is recalled.
            digests: DigestService::new(cache.and_then(open_cache), engine.waker()),
        })
    }

    /// Begins a session.
    pub(crate) fn welcome(&mut self, engine: &mut Engine, fetcher: Fetcher) -> Result<(), MoveError> {
        let Fetcher { stream, transport, data_set } = fetcher;
        let flow = engine.new_flow();
        let mtu = net::mtu_from(&self.net, stream.local().ip());
        let only_from = Some(stream.peer().ip());
        let size = data_set.manifest().size();
        log::debug!("flow {} goes to {}: {size} bytes, MTU {mtu}", flow.0, stream.peer());
        self.bodies.insert(flow, Arc::clone(&data_set));
        self.data_sets.insert(flow, data_set);
        let side = self.endpoints.of(engine, Role::Sender, transport)?;
        engine.add_flow(flow, side, self.port, stream)?;
        // A data set without bytes is nothing for a protocol; its digests go over the control stream all the same.
        if size > 0 {
            let offer = OfferFlow { flow, size, peer: None, only_from, mtu, token: net::random_u64()? };
            engine.command(side, Command::Offer(offer));
        }
        Ok(())
    }

    /// An endpoint has said something.
    pub(crate) fn on_event(&mut self, engine: &mut Engine, event: &Event) {
        if let Event::Failed { flow, error } = event {
            self.part(engine, *flow, &Frame::malformed(error));
        }
    }

    /// A session's frame came in.
    pub(crate) fn on_frame(&mut self, engine: &mut Engine, flow: FlowId, frame: Frame) {
        match frame {
            Frame::DigestsOf { runs } => self.start_digests(engine, flow, runs),
            Frame::Finish => self.part(engine, flow, &Frame::Bye),
            _ => self.part(engine, flow, &Frame::out_of_place()),
        }
    }

    /// Ends a session, with a word to the client.
    fn part(&mut self, engine: &mut Engine, flow: FlowId, farewell: &Frame) {
        engine.dismiss(flow, farewell);
        self.forget(flow);
    }

    /// A session is over.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        log::debug!("flow {} is over", flow.0);
        self.bodies.remove(flow);
        self.data_sets.remove(&flow);
        self.digests.forget(flow);
    }

    fn start_digests(&mut self, engine: &mut Engine, flow: FlowId, runs: Vec<GroupRun>) {
        let Some(data_set) = self.data_sets.get(&flow) else { return };
        if !self.digests.request(flow, data_set, runs) {
            let text = "too many digests were asked for at once".to_owned();
            self.part(engine, flow, &Frame::Refused { code: RefusalCode::Busy, text });
        }
    }

    /// Passes on digests that are ready, as far as the clients take them.
    pub(crate) fn pass_digests(&mut self, engine: &mut Engine) {
        for flow in self.digests.ready() {
            while engine.backlog(flow) < DIGEST_BACKLOG
                && let Some(frame) = self.digests.next_frame(flow)
            {
                engine.send(flow, &frame);
            }
        }
    }
}

/// Opens the cache of digests and makes room in it, on a thread of its own. Without one, everything is hashed.
fn open_cache(directory: &Path) -> Option<DigestCache> {
    let cache = DigestCache::open(directory).ok()?;
    let pruned = cache.clone();
    net::spawn_helper("inhaul-cache", move || pruned.prune(CACHE_BYTES_MAX)).ok()?;
    Some(cache)
}
