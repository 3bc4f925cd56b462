//! The receiver: asks senders for ranges, acknowledges the segments that come, and says where their bytes belong.

mod flow;
mod reassembly;

use inhaul_base::{Bitrate, ByteRange, Span, Time};
use inhaul_transport::kit::Object;
use inhaul_transport::kit::division::{Changed, Division, ToldRate};
use inhaul_transport::kit::path::PathRules;
use inhaul_transport::kit::receiver::{Core, FlowCore, Flows, Receiver, Reception, Rules, Run};
use inhaul_transport::{EndpointConfig, FlowId, Place};

use super::options::Options;
use super::wire::{DataHeader, HEADER_LEN, OBJECT_MAX, OwnMessage, VERSION};
use crate::laws::LawName;
use flow::Flow;
use reassembly::Arrival;

/// All flows of a host that fetches.
pub(super) type TcpReceiver = Receiver<Tcp>;

/// The TCP family's part of a receiver.
pub(super) struct Tcp {
    options: Options,
    law: LawName,
    /// What all flows together may take (C_r), and who of it.
    division: Division,
}

impl Tcp {
    /// A receiver that asks its senders to use `law`.
    pub(super) fn new(config: &EndpointConfig, law: LawName, options: Options) -> Self {
        Self { options, law, division: Division::new(config.host_rate) }
    }

    /// Notes whether the flow runs, for its share of C_r.
    fn look_at_share(&mut self, id: FlowId, core: &mut Core<Flow>) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let wanted = core.objects.get(&flow.core.join.object).is_some_and(Object::has_wanted);
        let running = flow.core.path.is_open() && (wanted || flow.outstanding.pending_bytes() > 0);
        if let Some(ToldRate(rate)) = self.division.look_at(flow, running) {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
    }
}

/// Tells senders their rates; flows that may take something now are asked for it.
fn tell(core: &mut Core<Flow>, changed: Changed) {
    for (id, told) in changed {
        if let Some(ToldRate(rate)) = told {
            core.say_own(id, OwnMessage::Rate { rate }.emit());
        }
        core.touch(id);
    }
}

fn acknowledge(now: Time, id: FlowId, core: &mut Core<Flow>) {
    if let Some(ack) = core.flows.get_mut(&id).and_then(|flow| flow.due_ack(now)) {
        core.send(id, &ack.emit());
    }
}

impl Reception for Tcp {
    type Flow = Flow;
    type Head = DataHeader;
    const RULES: Rules = Rules {
        version: VERSION,
        header_len: HEADER_LEN,
        grain: 1,
        object_max: OBJECT_MAX,
        path: PathRules { probe_gap: Span::from_secs(1), raise_probes: 1, steady_responses: false },
        relief_min: Span::from_millis(200),
    };

    fn new_flow(&mut self, now: Time, core: FlowCore) -> Flow {
        Flow::new(now, core, &self.options)
    }

    fn setup(&self, _flow: &Flow) -> Vec<u8> {
        vec![self.law.code()]
    }

    fn on_open(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.open(now);
        }
    }

    fn on_data(
        &mut self,
        now: Time,
        id: FlowId,
        run: &Run<DataHeader>,
        core: &mut Core<Flow>,
        places: &mut Vec<Place>,
    ) {
        let Some(flow) = core.flows.get_mut(&id) else { return };
        let mut rest = run.range();
        match flow.on_data(now, &run.head, run.packets, run.body_bytes) {
            Arrival::Refused => return,
            Arrival::Duplicate => flow.core.duplicate_bytes += rest.len(),
            // Unrequested data takes its place in the stream but not in the object. Segments that came together may
            // answer several requests, and some of them may have come before.
            Arrival::InOrder | Arrival::OutOfOrder => {
                while !rest.is_empty() {
                    let Some(flow) = core.flows.get_mut(&id) else { return };
                    let Some(asked) = flow.outstanding.arrive(rest) else {
                        rest = ByteRange::new(rest.start.saturating_add(run.body_len), rest.end);
                        flow.core.duplicate_bytes += run.body_len;
                        continue;
                    };
                    core.place(id, run, asked, places);
                    rest.start = asked.end;
                }
            }
        }
        core.touch(id);
        if core.flows.get(&id).is_some_and(Flow::has_much_to_report) {
            acknowledge(now, id, core);
        }
    }

    fn on_flow_timer(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            flow.on_timer(now);
        }
    }

    fn attend(&mut self, now: Time, id: FlowId, core: &mut Core<Flow>) {
        acknowledge(now, id, core);
        self.look_at_share(id, core);
    }

    fn ask(&mut self, now: Time, flow: &mut Flow, object: &mut Object) -> Option<(u32, Vec<ByteRange>)> {
        flow.ask(now, object)
    }

    /// Segments are never cut anew: the stream continues behind all sent ones.
    fn on_narrower(&mut self, _now: Time, id: FlowId, core: &mut Core<Flow>) {
        if let Some(flow) = core.flows.get_mut(&id) {
            let from = flow.restart();
            core.say_own(id, OwnMessage::Restart { from }.emit());
        }
    }

    fn on_leave(&mut self, _now: Time, flow: &mut Flow, _flows: &mut Flows<Flow>) {
        self.division.look_at(flow, false);
    }

    fn limit(&mut self, _now: Time, limit: Option<Bitrate>, core: &mut Core<Flow>) {
        self.division.set_capacity(limit, &mut core.flows);
    }

    fn on_timeout(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.on_timer(now, &mut core.flows) {
            tell(core, changed);
        }
    }

    fn due(&self) -> Option<Time> {
        self.division.due()
    }

    fn settle(&mut self, now: Time, core: &mut Core<Flow>) {
        if let Some(changed) = self.division.refresh(now, &mut core.flows) {
            tell(core, changed);
        }
    }
}

#[cfg(test)]
mod tests;
