//! The receiver's host as an input: pauses that it foresees become holds of its senders (rbudp-plus-2006 4, for GTP;
//! PROTOCOL.md 7.6).

use inhaul_base::{Span, Time};
use inhaul_transport::kit::feedback::overflows;
use inhaul_transport::kit::receiver::Core;
use inhaul_transport::{FlowId, Pause};

use super::flow::Flow;

/// A hold is sent this long before it must be: the wake-up may be late.
const SLACK: Span = Span::from_millis(1);
/// A shorter hold is not worth a message.
const HOLD_MIN: Span = Span::from_millis(1);

/// The pause that the host foresees.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    pause: Option<Pause>,
    /// When there is something to do about it.
    due: Option<Time>,
}

impl Outlook {
    /// The host foresees this now, or nothing any more.
    pub(super) fn foresee(&mut self, now: Time, pause: Option<Pause>) {
        self.pause = pause.filter(|pause| pause.end() > now);
        self.due = self.pause.map(|_| now);
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether the answer to a request at `now`, a round trip later, would come in the pause.
    pub(super) fn meets(&self, now: Time, flow: &Flow) -> bool {
        let comes = now + flow.base_rtt();
        self.pause.is_some_and(|pause| pause.start <= comes && comes < pause.end() && !flow.is_held_for(pause))
    }

    /// Tells senders to hold if their data would come in the pause and overfill the socket buffer: a round trip before
    /// the pause begins, so that the last sent data comes right before it. Returns the pause, if any sender was told.
    pub(super) fn tell(&mut self, now: Time, socket_buffer: u64, core: &mut Core<Flow>) -> Option<Pause> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        let pause = self.pause?;
        let mut messages = Vec::new();
        // When it is over, more is asked for again.
        let mut due = pause.end();
        if due <= now {
            self.pause = None;
            let flows: Vec<FlowId> = core.flows.awake().map(|(id, _)| *id).collect();
            core.touch_all(flows);
            return None;
        }
        for (&id, flow) in core.flows.awake_mut().filter(|(_, flow)| flow.is_under_way()) {
            // The requested bytes are about the size of the buffer. The little loss beyond that costs less than a hold
            // which begins too early or ends too late.
            if flow.is_held_for(pause) || flow.found.window_bound {
                continue;
            }
            let rtt = flow.base_rtt();
            let tell = Time::from_nanos(pause.start.as_nanos().saturating_sub((rtt + SLACK).as_nanos()));
            if tell > now {
                due = due.min(tell);
                continue;
            }
            // Data sent before the message arrives cannot be held any more.
            let start = pause.start.max(now + rtt);
            let length = pause.end().since(start);
            let comes = flow.told_rate.bytes_in(length).min(flow.outstanding_max(socket_buffer));
            if length >= HOLD_MIN && overflows(comes, socket_buffer) {
                messages.push((id, flow.hold(now, Pause { start, length })));
            }
        }
        self.due = Some(due);
        let told = !messages.is_empty();
        for (id, message) in messages {
            core.say_own(id, message.emit());
            core.touch(id);
        }
        told.then_some(pause)
    }
}
