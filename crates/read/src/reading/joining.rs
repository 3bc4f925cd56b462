//! Data sets that are opened, and mirrors that join them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use inhaul_base::ByteRange;
use inhaul_engine::engine::port::Port;
use inhaul_engine::engine::{EndpointId, Engine, net};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::Session;
use inhaul_session::session::groups::Groups;
use inhaul_sources::opener::{MirrorId, Reached};
use inhaul_sources::{Connected, RangeSource, Roster, add_ranges, connect};
use inhaul_transport::{Command, FlowId, ObjectId, Role};

use super::{AHEAD_BYTES, Mirror, Reading, Set};
use crate::order::{Opening, SetId, SetStats};
use crate::roots::Roots;
use crate::votes::{Proving, Votes};

impl Reading {
    pub(super) fn open(&mut self, engine: &mut Engine, opening: Opening) -> Result<(), MoveError> {
        let Opening { found, opener, names, roots, reply } = opening;
        self.next_set += 1;
        let id = SetId(self.next_set);
        let mut roster = Roster::new(Some(opener));
        roster.wake(engine.waker());
        for server in &found.late {
            let mirror = MirrorId { request: 0, server: server.clone() };
            roster.expect(engine.now(), mirror, found.unheard.contains(server));
        }
        let groups = Groups::new(Arc::clone(&found.manifest));
        let entries = found.manifest.entries();
        let roots = roots.into_iter().map(|(file, hash)| (file, Roots::new(entries[file].size, *hash.as_bytes())));
        let set = Set {
            source: found.request.source(),
            holes: found.manifest.holes(),
            groups,
            identity: found.identity,
            roster,
            mirrors: Vec::new(),
            provers: Vec::new(),
            alone: None,
            waiting: VecDeque::new(),
            ahead: VecDeque::new(),
            blocked: Vec::new(),
            has_begun: false,
            opened: engine.now(),
            unheard: found.unheard.into_iter().collect(),
            votes: Votes::default(),
            roots: roots.collect(),
            names,
            failed: BTreeMap::new(),
            stats: SetStats::default(),
        };
        self.sets.insert(id, set);
        let sessions = found.sessions.into_iter().map(|session| Reached::Session(Box::new(session)));
        let ranges = found.ranges.into_iter().map(|(server, source)| Reached::Ranges(server, source));
        match sessions.chain(ranges).try_for_each(|reached| self.join(engine, id, reached, 0)) {
            Ok(()) => drop(reply.send(Ok(id))),
            Err(error) => {
                self.close(engine, id);
                drop(reply.send(Err(error)));
            }
        }
        Ok(())
    }

    /// A mirror of a data set is there.
    pub(super) fn join(
        &mut self,
        engine: &mut Engine,
        id: SetId,
        reached: Reached,
        falls: u32,
    ) -> Result<(), MoveError> {
        match reached {
            Reached::Session(session) => self.join_session(engine, id, *session, falls),
            Reached::Ranges(server, source) => self.join_ranges(engine, id, (server, source), falls),
        }
    }

    fn join_session(
        &mut self,
        engine: &mut Engine,
        id: SetId,
        mut session: Session,
        falls: u32,
    ) -> Result<(), MoveError> {
        let (net, rates) = (&self.settings.net, self.settings.rates);
        let (socket, probed) = session.take_socket(net)?;
        let endpoint = match self.endpoint {
            Some(endpoint) => endpoint,
            None => net::add_endpoint(net, engine, Role::Receiver, rates, &socket)?,
        };
        self.begin_set(engine, id, endpoint);
        let port = engine.add_port(Port::new(socket, true))?;
        let fetches = (ObjectId(id.0), rates.flow);
        let joined =
            connect(engine, &mut self.paths, &self.settings.net, (endpoint, port), (session, probed), fetches)?;
        let Connected { flow, server, join, .. } = joined;
        if self.add_mirror(id, flow, (server, falls), true) {
            self.paths.begin(engine, endpoint, join);
        }
        Ok(())
    }

    fn join_ranges(
        &mut self,
        engine: &mut Engine,
        id: SetId,
        (server, source): (Server, Arc<dyn RangeSource>),
        falls: u32,
    ) -> Result<(), MoveError> {
        let (net, rates) = (&self.settings.net, self.settings.rates);
        let endpoint = match self.endpoint {
            Some(endpoint) => endpoint,
            None => net::add_endpoint_with(net, engine, Role::Receiver, rates, AHEAD_BYTES)?,
        };
        self.begin_set(engine, id, endpoint);
        let flow = engine.new_flow();
        if self.add_mirror(id, flow, (server, falls), false) {
            add_ranges(engine, endpoint, flow, source, (ObjectId(id.0), rates.flow))?;
        }
        Ok(())
    }

    /// The endpoint hears of a data set with its first mirror. Nothing is wanted before somebody reads.
    fn begin_set(&mut self, engine: &mut Engine, id: SetId, endpoint: EndpointId) {
        self.endpoint = Some(endpoint);
        let Some(set) = self.sets.get_mut(&id).filter(|set| !set.has_begun) else { return };
        set.has_begun = true;
        let size = set.groups.manifest().size();
        if size > 0 {
            let held = [ByteRange::new(0, size)].into_iter().collect();
            engine.command(endpoint, Command::Fetch { object: ObjectId(id.0), size, held });
        }
    }

    /// Takes note of a mirror. Whether its data set has any data.
    pub(super) fn add_mirror(&mut self, id: SetId, flow: FlowId, (server, falls): (Server, u32), proves: bool) -> bool {
        let Some(set) = self.sets.get_mut(&id) else { return false };
        set.mirrors.push(flow);
        set.provers.extend(proves.then_some(flow));
        if !set.is_alone() {
            set.alone = None;
        }
        self.parts.by_flow.insert(flow, id);
        let has_data = set.groups.manifest().size() > 0;
        set.unheard.remove(&server);
        let (proving, differing) = (Proving::default(), BTreeSet::new());
        let mirror = Mirror { set: id, server, opened: None, has_data, falls, proving, differing };
        self.mirrors.insert(flow, mirror);
        self.ask_newcomer(id);
        self.stirred.insert(id);
        has_data
    }
}
