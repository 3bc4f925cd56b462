//! The engine's flows and their control streams.

use inhaul_base::{Span, Time};
use inhaul_transport::{Command, FlowId};
use inhaul_udp::Interest;

use super::flow::{Flow, Ways};
use super::outside::{Outside, Source, Wire};
use super::{Application, EndCause, Engine};
use crate::engine::ids::{EndpointId, PortId};
use inhaul_session::api::error::MoveError;
use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::{Frame, RefusalCode};

/// Frames that a stream may bring in a row: the others have their turn then.
pub(super) const FRAMES_A_TURN: usize = 64;
/// How long a stream that is being closed may take to send what waits.
const CLOSING: Span = Span::from_secs(5);
/// A peer that reads nothing for so long, though something waits for it, is given up.
const UNREAD_MAX: Span = Span::from_secs(30);

impl<O: Outside> Engine<O> {
    /// Takes over a flow's control stream.
    pub fn add_flow(
        &mut self,
        flow: FlowId,
        endpoint: EndpointId,
        port: PortId,
        stream: ControlStream<O::Wire>,
    ) -> Result<(), MoveError> {
        let failed = MoveError::system("cannot wait for a connection");
        let wire = stream.wire();
        wire.set_polled()
            .and_then(|()| self.outside.add(Source::Wire(wire), u64::from(flow.0), Interest::Read))
            .map_err(failed)?;
        if let Some(port) = self.ports.get_mut(&port)
            && port.is_connected()
        {
            port.flow = Some(flow);
        }
        let read = (self.now(), stream.taken_bytes());
        let of = Flow {
            endpoint,
            port,
            ways: Ways::new(self.now(), self.endpoints[endpoint.0].role),
            stream,
            has_begun: false,
            waits_to_write: false,
            read,
            is_unread: false,
            closing: None,
            warned_of_size: false,
        };
        if of.stream.has_incoming() {
            self.unheard.insert(flow);
        }
        self.flows.insert(flow, of);
        Ok(())
    }

    /// Sends a frame to a flow's peer; one that does not take it has ended.
    pub fn send(&mut self, flow: FlowId, frame: &Frame) {
        let Some(of) = self.flows.get_mut(&flow) else { return };
        self.unsettled.insert(flow);
        if let Err(error) = of.stream.queue(frame).and_then(|()| of.stream.flush()) {
            self.ended.push_back((flow, error.into()));
        }
    }

    /// Bytes that may be sent to a flow's peer before whoever has much to send waits: see [`ControlStream::room`].
    /// When there is room again, the application has a turn.
    pub fn room(&self, flow: FlowId) -> usize {
        self.flows.get(&flow).filter(|of| of.closing.is_none()).map_or(0, |of| of.stream.room())
    }

    /// Gives a flow up: the endpoint forgets it, and its stream is closed once all is sent.
    pub fn close(&mut self, flow: FlowId) {
        let until = self.now() + CLOSING;
        if let Some(of) = self.flows.get_mut(&flow)
            && of.closing.is_none()
        {
            of.closing = Some(until);
            self.unsettled.insert(flow);
            let endpoint = of.endpoint;
            self.command(endpoint, Command::Disconnect { flow });
        }
    }

    /// Gives a flow up, with the reason for its peer.
    pub fn close_with(&mut self, flow: FlowId, close_reason: &Frame) {
        self.send(flow, close_reason);
        self.close(flow);
    }

    /// Forgets a flow that can go no further.
    pub(super) fn end(
        &mut self,
        flow: FlowId,
        cause: &EndCause,
        app: &mut dyn Application<O>,
    ) -> Result<(), MoveError> {
        let Some(of) = self.flows.get(&flow) else { return Ok(()) };
        let (endpoint, closing) = (of.endpoint, of.closing.is_some());
        match cause {
            EndCause::Send(error) => {
                self.send(flow, &Frame::Refused { code: RefusalCode::Unreadable, text: error.to_string() });
            }
            EndCause::Refused(error) => self.send(flow, &Frame::malformed(error)),
            // What is wrong with the connection cannot be said over it; what the peer has done can.
            EndCause::Stream(error @ (StreamError::Frame(_) | StreamError::TooSoon | StreamError::TooMuchOptional)) => {
                self.send(flow, &Frame::malformed(error));
            }
            EndCause::Stream(_) => {}
        }
        self.forget(flow);
        if !closing {
            self.command(endpoint, Command::Disconnect { flow });
            app.on_end(self, flow, cause)?;
        }
        Ok(())
    }

    fn forget(&mut self, flow: FlowId) {
        let Some(of) = self.flows.remove(&flow) else { return };
        self.connections.remove(flow);
        self.seals.remove(flow);
        // Dropping the stream closes it, and with that the poller forgets it.
        if self.ports.get(&of.port).is_some_and(|port| port.flow == Some(flow)) {
            self.ports.remove(&of.port);
        }
        of.ways.tunnel.map(|tunnel| self.ports.remove(&tunnel));
    }

    pub(super) fn serve_stream(
        &mut self,
        app: &mut dyn Application<O>,
        flow: FlowId,
        ready: inhaul_udp::Event,
    ) -> Result<(), MoveError> {
        let Some(of) = self.flows.get_mut(&flow) else { return Ok(()) };
        if ready.writable {
            self.unsettled.insert(flow);
            if let Err(error) = of.stream.flush() {
                self.ended.push_back((flow, error.into()));
                return self.settle(app);
            }
        }
        // What was taken in before is looked at first: more than a turn's worth does not pile up here.
        if !ready.readable || self.unheard.contains(&flow) {
            return Ok(());
        }
        let filled = of.stream.fill();
        // What came before the end still counts, all of it: nothing more comes.
        let frames = if filled.is_ok() { FRAMES_A_TURN } else { usize::MAX };
        self.take_frames(app, flow, frames)?;
        if let Err(error) = filled {
            self.ended.push_back((flow, error.into()));
        }
        self.settle(app)
    }

    /// Takes what streams had taken in before: no poller reports it.
    pub(super) fn serve_unheard(&mut self, app: &mut dyn Application<O>) -> Result<(), MoveError> {
        for flow in std::mem::take(&mut self.unheard) {
            self.take_frames(app, flow, FRAMES_A_TURN)?;
            self.settle(app)?;
        }
        Ok(())
    }

    /// Takes frames that are here, as many as that at most; the rest in the next turn.
    fn take_frames(&mut self, app: &mut dyn Application<O>, flow: FlowId, frames: usize) -> Result<(), MoveError> {
        for _ in 0..frames {
            let Some(of) = self.flows.get_mut(&flow) else { return Ok(()) };
            match of.stream.next_frame() {
                Ok(Some(frame)) => self.take_frame(app, flow, frame)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.ended.push_back((flow, error.into()));
                    return Ok(());
                }
            }
        }
        self.unheard.insert(flow);
        Ok(())
    }

    fn take_frame(&mut self, app: &mut dyn Application<O>, flow: FlowId, frame: Frame) -> Result<(), MoveError> {
        let Some(of) = self.flows.get_mut(&flow).filter(|of| of.closing.is_none()) else { return Ok(()) };
        match frame {
            Frame::Protocol { message } if of.has_begun => {
                let EndpointId(index) = of.endpoint;
                self.hear_control(index, flow, &message, app);
            }
            Frame::Protocol { message } => {
                if let Err(error) = of.stream.keep(message) {
                    self.ended.push_back((flow, error.into()));
                }
            }
            frame => app.on_frame(self, flow, frame)?,
        }
        self.settle(app)
    }

    fn hear_control(&mut self, index: usize, flow: FlowId, message: &[u8], app: &mut dyn Application<O>) {
        let now = self.now();
        self.endpoints[index].endpoint.handle_control(now, flow, message);
        self.drain(index, now, app);
    }

    /// The endpoint knows a flow from now on: it hears what the peer's transport has said before.
    pub(super) fn begin_flow(&mut self, flow: FlowId, app: &mut dyn Application<O>) {
        let Some(of) = self.flows.get_mut(&flow) else { return };
        of.has_begun = true;
        let EndpointId(index) = of.endpoint;
        for message in of.stream.take_kept() {
            self.hear_control(index, flow, &message, app);
        }
    }

    /// Whether all that was sent to a flow's peer is on its way.
    pub fn is_written(&self, flow: FlowId) -> bool {
        self.flows.get(&flow).is_none_or(|of| of.stream.backlog() == 0)
    }

    /// Ends all control streams, with nothing more to say or to hear. A connection that is closed with unread bytes in
    /// it is reset, and what was said last might be lost: they are read.
    pub fn hang_up(&mut self) {
        for of in self.flows.values_mut() {
            // A peer that is gone need not be told.
            let _ = of.stream.wire().end_writing();
            let _ = of.stream.fill();
        }
    }

    /// Sends what waits on the streams, waits for those that take no more, and closes those that are to be closed.
    pub(super) fn write_streams(&mut self) -> Result<(), MoveError> {
        let now = self.now();
        let mut closed = Vec::new();
        for flow in std::mem::take(&mut self.unsettled) {
            let Some(of) = self.flows.get_mut(&flow) else { continue };
            let waits = of.stream.backlog() > 0;
            if waits != of.waits_to_write {
                let interest = if waits { Interest::ReadWrite } else { Interest::Read };
                let changed = self.outside.modify(Source::Wire(of.stream.wire()), u64::from(flow.0), interest);
                if let Err(error) = changed {
                    self.ended.push_back((flow, StreamError::Io(error).into()));
                    continue;
                }
                of.waits_to_write = waits;
                // Its time begins with the first byte that waits.
                of.read.0 = now;
            }
            of.note_reading(now);
            if waits && !of.is_unread {
                of.is_unread = true;
                self.unread.insert((of.read.0 + UNREAD_MAX, flow));
            }
            match of.closing {
                Some(until) if !waits || until <= now => closed.push(flow),
                // Its time may run out without a word from it.
                Some(_) => _ = self.unsettled.insert(flow),
                None => {}
            }
        }
        for flow in closed {
            self.forget(flow);
        }
        self.watch_blocked()
    }

    /// When it is to be looked next whether a peer reads nothing.
    pub(super) fn unread_due(&self) -> Option<Time> {
        self.unread.first().map(|&(due, _)| due)
    }

    /// Gives up the flows whose peers have read nothing for too long.
    pub(super) fn end_unread(&mut self, now: Time) {
        while let Some(&(due, flow)) = self.unread.first()
            && due <= now
        {
            self.unread.pop_first();
            let Some(of) = self.flows.get_mut(&flow) else { continue };
            of.is_unread = of.stream.backlog() > 0;
            if !of.is_unread {
                continue;
            }
            // Most have read some meanwhile: each is looked at once in a while, not whenever it does.
            of.note_reading(now);
            let due = of.read.0 + UNREAD_MAX;
            if due <= now {
                self.ended.push_back((flow, StreamError::Stuck.into()));
            } else {
                self.unread.insert((due, flow));
            }
        }
    }
}
