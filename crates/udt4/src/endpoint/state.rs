//! All connections of a port, without I/O and without a clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar};

use inhaul_base::Time;
use inhaul_transport::kit::Challenges;

use super::batch::{Batch, Joined};
use super::shares::Shares;
use crate::connection::Connection;
use crate::error::UdtError;
use crate::handshake::{Answer, ConnectError, Connecting, Listener, Progress};
use crate::options::Options;
use crate::wire::{Control, ControlBody, Handshake, Packet, Sequence, SocketId, Stamp};

/// Answers to strangers that wait to be sent. More requests than that get no answer: clients repeat them.
const REPLIES_MAX: usize = 64;

/// Datagrams that one connection sends at a time while others are due too: about one message to the kernel.
const TURN: usize = 64;

/// All that the sockets of a port have in common.
#[derive(Debug)]
pub(super) struct State {
    options: Options,
    /// Makes unguessable numbers: a keyed hash of a counter.
    secrets: Challenges,
    made: u64,
    entries: BTreeMap<SocketId, Entry>,
    /// When each entry wants its turn.
    agenda: BTreeSet<(Time, SocketId)>,
    /// Entries to which something has come since they were looked at.
    touched: Vec<SocketId>,
    /// Whom to notify when the state is not locked any more.
    ready: Vec<Arc<Condvar>>,
    listening: Option<Listening>,
    /// Which entry meets whom.
    rendezvous: BTreeMap<SocketAddr, SocketId>,
    /// Connections that a listener made, by the client's address, socket and sequence number.
    clients: BTreeMap<Client, SocketId>,
    /// How many of them each host has.
    shares: Shares,
    /// Bytes that the buffers of all connections take.
    memory: usize,
    /// Each with the address of this host that it answers for.
    replies: VecDeque<(SocketAddr, Option<IpAddr>, Control<'static>)>,
    /// The destination address of the present datagrams, if the port has several addresses.
    asked: Option<IpAddr>,
    /// No handle of the endpoint or of a socket is left.
    abandoned: bool,
    /// Why the driver has ended, if it failed.
    failure: Option<String>,
}

/// A client of a listener: its address, socket and sequence number.
type Client = (SocketAddr, SocketId, Sequence);

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) phase: Phase,
    pub(super) want: Want,
    /// Notified when the awaited state is reached.
    pub(super) ready: Arc<Condvar>,
    due: Time,
    /// The address of this host that the peer sends to.
    asked: Option<IpAddr>,
    /// A socket of the application has it, or will.
    held: bool,
    /// The client that a listener made it for.
    client: Option<Client>,
    /// The client has not asked for anything yet.
    asking: bool,
    /// Bytes that its buffers took when they were looked at last.
    memory: usize,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Phase {
    Connecting(Connecting),
    Failed(ConnectError),
    Open(Box<Connection>),
}

/// The state that the application waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Want {
    /// Something to read.
    pub(super) data: bool,
    /// Room for this many packets.
    pub(super) room: Option<usize>,
    /// That all has arrived.
    pub(super) drained: bool,
}

#[derive(Debug)]
struct Listening {
    listener: Listener,
    backlog: usize,
    /// Connected, and not accepted yet.
    queue: VecDeque<SocketId>,
    /// Connected, and not asked for anything yet, with the time when that is given up; and some that have.
    asking: VecDeque<(Time, SocketId)>,
    ready: Arc<Condvar>,
}

impl State {
    /// No connections yet; `secret` must be unguessable.
    pub(super) fn new(options: Options, secret: u64) -> Self {
        Self {
            options,
            secrets: Challenges::new(secret),
            made: 0,
            entries: BTreeMap::new(),
            agenda: BTreeSet::new(),
            touched: Vec::new(),
            ready: Vec::new(),
            listening: None,
            rendezvous: BTreeMap::new(),
            clients: BTreeMap::new(),
            shares: Shares::default(),
            memory: 0,
            replies: VecDeque::new(),
            asked: None,
            abandoned: false,
            failure: None,
        }
    }

    /// Connections that are open, being set up, or not released yet.
    pub(super) fn connections(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the buffers of all connections take.
    #[cfg(test)]
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, peer: SocketAddr, rendezvous: bool, now: Time) -> Result<SocketId, UdtError> {
        self.check()?;
        if rendezvous && self.rendezvous.contains_key(&peer) {
            return Err(UdtError::Meeting);
        }
        if self.entries.len() >= self.options.connections_max {
            return Err(UdtError::TooMany(self.options.connections_max));
        }
        let id = self.new_id(peer);
        // A multiple of 16, so that both ends see packet pairs at the same numbers with any first number.
        let initial = Sequence::truncate(self.secret(peer) & !0xf);
        let timeout = if rendezvous { self.options.rendezvous_timeout } else { self.options.connect_timeout };
        let connecting = Connecting::new(self.options.terms(), id, initial, peer, rendezvous, (now, timeout));
        if rendezvous {
            self.rendezvous.insert(peer, id);
        }
        self.insert(id, Phase::Connecting(connecting), None, false);
        self.reschedule(id, now);
        Ok(id)
    }

    /// Begins to listen.
    pub(super) fn listen(&mut self, backlog: usize) -> Result<(), UdtError> {
        self.check()?;
        if self.listening.is_some() {
            return Err(UdtError::Listening);
        }
        let secret = self.secrets.of_period(SocketAddr::from(([0; 4], 0)), u64::MAX);
        let listener = Listener::new(self.options.terms(), secret);
        self.listening = Some(Listening {
            listener,
            backlog,
            queue: VecDeque::new(),
            asking: VecDeque::new(),
            ready: Arc::default(),
        });
        Ok(())
    }

    /// Ends it. Connections that were not accepted end too.
    pub(super) fn stop_listening(&mut self, now: Time) {
        let Some(Listening { queue, asking, .. }) = self.listening.take() else { return };
        queue.into_iter().for_each(|id| self.release(id, now));
        for (_, id) in asking {
            if self.entries.get(&id).is_some_and(|entry| entry.asking) {
                self.release(id, now);
            }
        }
    }

    /// The next connection that was made. `Err`: whom to wait for.
    pub(super) fn accept(&mut self) -> Result<SocketId, Option<Arc<Condvar>>> {
        let listening = self.listening.as_mut().ok_or(None)?;
        listening.queue.pop_front().ok_or(Some(listening.ready.clone()))
    }

    pub(super) fn entry(&mut self, id: SocketId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    /// The connection of a socket, if it is open.
    pub(super) fn open(&mut self, id: SocketId) -> Result<&mut Connection, UdtError> {
        self.check()?;
        let free = self.free();
        match self.entries.get_mut(&id).map(|entry| &mut entry.phase) {
            Some(Phase::Open(connection)) => {
                connection.set_free(free);
                Ok(connection)
            }
            Some(Phase::Failed(error)) => Err((*error).into()),
            _ => Err(crate::connection::End::Closed.into()),
        }
    }

    /// An error if the driver has failed.
    pub(super) fn check(&self) -> Result<(), UdtError> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(UdtError::Failed(failure.clone())))
    }

    /// The application no longer needs the socket: it ends on its own.
    pub(super) fn release(&mut self, id: SocketId, now: Time) {
        let linger = self.options.linger;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.held = false;
        match &mut entry.phase {
            Phase::Open(connection) if !connection.is_over() => {
                connection.close(now, linger);
                self.reschedule(id, now);
            }
            _ => self.remove(id),
        }
    }

    /// No handle is left.
    pub(super) fn abandon(&mut self, now: Time) {
        self.abandoned = true;
        self.stop_listening(now);
    }

    /// Whether the driver may end.
    pub(super) fn is_finished(&self) -> bool {
        self.abandoned && self.entries.is_empty() && self.replies.is_empty()
    }

    /// The driver has ended.
    pub(super) fn fail(&mut self, why: String) {
        self.failure = Some(why);
        for entry in self.entries.values() {
            entry.ready.notify_all();
        }
        if let Some(listening) = &self.listening {
            listening.ready.notify_all();
        }
    }

    /// Sets the destination address of the next datagrams.
    pub(super) fn come_to(&mut self, asked: Option<IpAddr>) {
        self.asked = asked;
    }

    /// A datagram has come at `at`.
    pub(super) fn handle(&mut self, from: SocketAddr, bytes: &[u8], at: Time) {
        self.handle_message(from, bytes, bytes.len(), at);
        self.settle(at);
    }

    /// Datagrams have come at `at`, joined: each has `segment` bytes, the last one maybe less. [`settle`](Self::settle)
    /// when there are no more.
    pub(super) fn handle_message(&mut self, from: SocketAddr, bytes: &[u8], segment: usize, at: Time) {
        let free = self.free();
        let mut packets = bytes.chunks(segment.max(1)).filter_map(|bytes| Packet::parse(bytes).ok()).peekable();
        while let Some(packet) = packets.next() {
            let destination = packet.stamp().destination;
            match destination.and_then(|id| Some((id, self.entries.get_mut(&id)?))) {
                Some((id, Entry { phase: Phase::Open(connection), .. })) if connection.peer() == from => {
                    let others = std::iter::from_fn(|| packets.next_if(|next| next.stamp().destination == destination));
                    connection.set_free(free);
                    connection.handle_together(std::iter::once(packet).chain(others), at);
                    self.touch(id);
                }
                _ => self.handle_other(from, &packet, at),
            }
        }
    }

    /// A packet that is not of an open connection, or does not say so.
    fn handle_other(&mut self, from: SocketAddr, packet: &Packet<'_>, at: Time) {
        let id = match packet.stamp().destination {
            Some(id) => id,
            None => {
                // The port is meant. Strangers may only ask for connections.
                let Packet::Control(Control { body: ControlBody::Handshake(request), .. }) = packet else { return };
                match self.rendezvous.get(&from) {
                    Some(id) => *id,
                    None => return self.handle_request(request, from, at),
                }
            }
        };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match &mut entry.phase {
            Phase::Connecting(connecting) if connecting.peer() == from => match connecting.handle(packet, at) {
                Progress::Waiting => {}
                Progress::Failed(error) => entry.fail(error),
                Progress::Connected(agreement) => {
                    let mut connection = Connection::new(agreement, &self.options, at);
                    if agreement.rendezvous {
                        // The packet that proved it may be more than a handshake; and the other side may not know yet.
                        connection.repeat_handshake();
                        connection.handle(packet, at);
                    }
                    entry.phase = Phase::Open(Box::new(connection));
                    entry.ready.notify_all();
                }
            },
            Phase::Open(connection) if connection.peer() == from => connection.handle(packet, at),
            _ => return,
        }
        self.touch(id);
    }

    fn touch(&mut self, id: SocketId) {
        if let Some(asked) = self.asked
            && let Some(entry) = self.entries.get_mut(&id)
        {
            entry.asked = Some(asked);
        }
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }

    /// Looks at the entries to which something has come.
    pub(super) fn settle(&mut self, now: Time) {
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            self.ready.extend(entry.satisfied());
            if entry.has_asked()
                && let Some(listening) = &mut self.listening
            {
                (entry.asking, entry.held) = (false, true);
                listening.queue.push_back(id);
                self.ready.push(listening.ready.clone());
            }
            if entry.is_over() && !entry.held {
                self.remove(id);
            } else {
                self.reschedule(id, now);
            }
        }
        self.touched = touched;
    }

    /// Bytes that buffers may take beyond their present ones.
    fn free(&self) -> usize {
        self.options.memory_max.saturating_sub(self.memory)
    }

    /// Ends connections whose clients ask for nothing.
    fn end_silent(&mut self, now: Time) {
        while let Some(listening) = &mut self.listening
            && let Some(&(until, id)) = listening.asking.front()
            && until <= now
        {
            listening.asking.pop_front();
            if self.entries.get(&id).is_some_and(|entry| entry.asking)
                && let Some(Entry { phase: Phase::Open(connection), .. }) = self.entries.get_mut(&id)
            {
                connection.close(now, inhaul_base::Span::ZERO);
                self.reschedule(id, now);
            }
        }
    }

    /// Whom to notify, once the state is not locked any more.
    pub(super) fn take_ready(&mut self) -> Vec<Arc<Condvar>> {
        std::mem::take(&mut self.ready)
    }

    /// Somebody without a connection asks for one.
    fn handle_request(&mut self, request: &Handshake, from: SocketAddr, at: Time) {
        let Some(listening) = &self.listening else { return };
        match listening.listener.handle(request, from, at) {
            Answer::Ignore => {}
            Answer::Reply(handshake) => self.reply(from, request.socket, handshake),
            Answer::Connect => {
                let client = (from, request.socket, request.initial_sequence);
                if let Some(id) = self.clients.get(&client) {
                    // The answer was lost.
                    if let Some(Entry { phase: Phase::Open(connection), .. }) = self.entries.get_mut(id) {
                        connection.repeat_handshake();
                        let id = *id;
                        self.reschedule(id, at);
                    }
                    return;
                }
                let full = listening.queue.len() >= listening.backlog
                    || self.shares.of(from.ip()) >= self.options.connections_per_host;
                if full || self.entries.len() >= self.options.connections_max {
                    return self.reply(from, request.socket, Listener::reject(request));
                }
                self.accept_client(request, from, at);
            }
        }
    }

    fn accept_client(&mut self, request: &Handshake, from: SocketAddr, at: Time) {
        let id = self.new_id(from);
        let Some(listening) = &mut self.listening else { return };
        let agreement = listening.listener.agree(request, from, id);
        let asks = self.options.request_timeout;
        match asks {
            Some(patience) => listening.asking.push_back((at + patience, id)),
            None => {
                listening.queue.push_back(id);
                listening.ready.notify_one();
            }
        }
        let mut connection = Connection::new(agreement, &self.options, at);
        connection.repeat_handshake();
        let client = (from, request.socket, request.initial_sequence);
        self.clients.insert(client, id);
        self.shares.add(from.ip());
        self.insert(id, Phase::Open(Box::new(connection)), Some(client), asks.is_some());
        self.touch(id);
        self.reschedule(id, at);
    }

    fn reply(&mut self, to: SocketAddr, socket: SocketId, handshake: Handshake) {
        if self.replies.len() < REPLIES_MAX {
            let stamp = Stamp { timestamp: 0, destination: Some(socket) };
            self.replies.push_back((to, self.asked, Control { stamp, body: ControlBody::Handshake(handshake) }));
        }
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Time {
        if !self.replies.is_empty() {
            return Time::ZERO;
        }
        let asking = self.listening.as_ref().and_then(|listening| listening.asking.front());
        let due = self.agenda.first().map_or(Time::FAR_FUTURE, |(due, _)| *due);
        asking.map_or(due, |(until, _)| due.min(*until))
    }

    /// Fills `batch` with datagrams to send now.
    pub(super) fn poll_transmit(&mut self, now: Time, batch: &mut Batch) {
        self.end_silent(now);
        while !batch.is_full()
            && let Some((to, asked, control)) = self.replies.pop_front()
        {
            batch.leave_from(asked);
            batch.push(to, |out| Packet::Control(control).emit(out));
        }
        while let Some(&(due, id)) = self.agenda.first()
            && due <= now
            && !batch.is_full()
        {
            self.agenda.remove(&(due, id));
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            batch.leave_from(entry.asked);
            entry.transmit(now, batch);
            self.ready.extend(entry.satisfied());
            if entry.is_over() && !entry.held {
                self.remove(id);
            } else {
                self.reschedule(id, now);
            }
        }
    }

    /// Puts an entry's next turn on the agenda, no earlier than `now`.
    pub(super) fn reschedule(&mut self, id: SocketId, now: Time) {
        let free = self.free();
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.memory -= entry.memory;
        entry.memory = entry.buffers();
        self.memory += entry.memory;
        if let Phase::Open(connection) = &mut entry.phase {
            connection.set_free(free);
        }
        self.agenda.remove(&(entry.due, id));
        entry.due = entry.deadline().max(now);
        if entry.due < Time::FAR_FUTURE {
            self.agenda.insert((entry.due, id));
        }
    }

    fn insert(&mut self, id: SocketId, phase: Phase, client: Option<Client>, asking: bool) {
        let (want, ready, due, held) = (Want::default(), Arc::default(), Time::FAR_FUTURE, !asking);
        self.entries.insert(id, Entry { phase, want, ready, due, asked: None, held, client, asking, memory: 0 });
    }

    fn remove(&mut self, id: SocketId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.agenda.remove(&(entry.due, id));
            self.memory -= entry.memory;
            if let Some(client) = entry.client {
                self.clients.remove(&client);
                self.shares.remove(client.0.ip());
            }
        }
        self.rendezvous.retain(|_, meeting| *meeting != id);
    }

    fn secret(&mut self, peer: SocketAddr) -> u64 {
        self.made += 1;
        self.secrets.of_period(peer, self.made)
    }

    fn new_id(&mut self, peer: SocketAddr) -> SocketId {
        loop {
            let number = (self.secret(peer) >> 33) as u32;
            if let Some(id) = SocketId::new(number).filter(|id| !self.entries.contains_key(id)) {
                return id;
            }
        }
    }
}

impl Entry {
    fn fail(&mut self, error: ConnectError) {
        self.phase = Phase::Failed(error);
        self.ready.notify_all();
    }

    fn deadline(&self) -> Time {
        match &self.phase {
            Phase::Connecting(connecting) => connecting.deadline(),
            Phase::Failed(_) => Time::FAR_FUTURE,
            Phase::Open(connection) => connection.deadline(),
        }
    }

    fn is_over(&self) -> bool {
        match &self.phase {
            Phase::Connecting(_) => false,
            Phase::Failed(_) => true,
            Phase::Open(connection) => connection.is_over(),
        }
    }

    fn transmit(&mut self, now: Time, batch: &mut Batch) {
        match &mut self.phase {
            Phase::Connecting(connecting) => {
                if let Progress::Failed(error) = connecting.poll(now) {
                    self.fail(error);
                } else if let Some(control) = connecting.poll_transmit(now) {
                    batch.push(connecting.peer(), |out| Packet::Control(control).emit(out));
                }
            }
            Phase::Failed(_) => {}
            Phase::Open(connection) => {
                let peer = connection.peer();
                let mut data = false;
                for _ in 0..TURN {
                    if batch.is_full() {
                        break;
                    }
                    let pushed = batch.try_push(peer, |out| {
                        let more =
                            if data { connection.poll_data(now, out) } else { connection.poll_transmit(now, out) };
                        more.then(|| if connection.leaves_alone() { Joined::No } else { Joined::Yes })
                    });
                    if !pushed {
                        break;
                    }
                    data = connection.sent_data();
                }
            }
        }
    }

    /// Bytes that its buffers take.
    fn buffers(&self) -> usize {
        match &self.phase {
            Phase::Open(connection) => connection.memory(),
            Phase::Connecting(_) | Phase::Failed(_) => 0,
        }
    }

    /// Whether its client has asked for something just now, and shown that it hears.
    fn has_asked(&self) -> bool {
        let Phase::Open(connection) = &self.phase else { return false };
        self.asking && connection.end().is_none() && connection.is_readable() && connection.has_answered()
    }

    /// The waiter to notify, if its awaited state is reached.
    fn satisfied(&mut self) -> Option<Arc<Condvar>> {
        let Phase::Open(connection) = &self.phase else { return None };
        let ended = connection.end().is_some();
        let data = self.want.data && (ended || connection.is_readable());
        let has_room = |room| connection.room() >= room || connection.is_drained() && connection.room() > 0;
        let room = self.want.room.is_some_and(|room| ended || has_room(room) || connection.has_complaint());
        let drained = self.want.drained && (ended || connection.is_drained());
        (data || room || drained).then(|| {
            // An unsatisfied waiter registers again.
            self.want = Want::default();
            self.ready.clone()
        })
    }
}
