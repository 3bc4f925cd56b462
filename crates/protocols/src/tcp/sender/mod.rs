//! The sender: one stream of segments for each flow, under the congestion control law that the receiver asks for.

mod flow;
mod ns2;
mod pacing;
mod rack;
mod rate;
mod recovery;
mod scoreboard;
mod stream;
mod streams;

use inhaul_base::{Bitrate, Time};
use inhaul_transport::kit::sender::{Allowance, Core, FlowCore, Rules, Sender, Sending, Slot};
use inhaul_transport::kit::wire::Reader;
use inhaul_transport::{EndpointConfig, FlowError, FlowId, TxBatch};

use super::options::Options;
use super::wire::{AckHeader, HEADER_LEN, OwnMessage, VERSION, setup_law};
use crate::laws::MakeLaw;
use flow::SendFlow;

/// All flows of a host that sends.
pub(super) type TcpSender = Sender<Tcp>;

/// The TCP family's part of a sender.
pub(super) struct Tcp {
    options: Options,
    seed: u64,
    /// Further laws, beside those that receivers request.
    laws: Option<MakeLaw>,
}

impl Tcp {
    /// A sender as `config` wants it.
    pub(super) fn new(config: &EndpointConfig, options: Options) -> Self {
        Self { options, seed: config.seed, laws: None }
    }

    /// The same, but flows have the laws that `laws` builds.
    pub(super) fn with_laws(self, laws: MakeLaw) -> Self {
        Self { laws: Some(laws), ..self }
    }
}

impl Sending for Tcp {
    type Flow = SendFlow;
    const RULES: Rules =
        Rules { version: VERSION, header_len: HEADER_LEN, grain: 1, queued_bytes_max: 8 << 30, feedback_max: None };

    fn new_flow(&mut self, _now: Time, core: FlowCore) -> SendFlow {
        SendFlow::new(core)
    }

    fn on_setup(
        &mut self,
        now: Time,
        id: FlowId,
        more: Reader<'_>,
        core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        let law = setup_law(more).map_err(|_| FlowError::Protocol("a Setup could not be understood"))?;
        if let Some(flow) = core.flows.get_mut(&id) {
            let options = self.options.for_flow(&flow.core.offer.parameters);
            let config = options.law_config(self.seed ^ flow.core.offer.token);
            let other = self.laws.as_ref().and_then(|laws| laws(id, &config));
            flow.set_law(now, other.unwrap_or_else(|| law.build(&config)), &options);
        }
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        id: FlowId,
        kind: u8,
        body: Reader<'_>,
        core: &mut Core<SendFlow>,
    ) -> Result<(), FlowError> {
        let message = OwnMessage::parse(kind, body);
        let message = message.map_err(|_| FlowError::Protocol("a control message could not be understood"))?;
        let Some(flow) = core.flows.get_mut(&id) else { return Ok(()) };
        match message {
            OwnMessage::Rate { rate } => flow.on_rate(now, rate),
            OwnMessage::Restart { from } => flow.restart(now, from)?,
        }
        Ok(())
    }

    fn on_datagram(&mut self, now: Time, id: FlowId, bytes: &[u8], core: &mut Core<SendFlow>) {
        if let (Some(ack), Some(flow)) = (AckHeader::parse(bytes), core.flows.get_mut(&id)) {
            flow.on_ack(now, &ack);
        }
    }

    fn transmit(&mut self, now: Time, flow: &mut SendFlow, _slot: Slot, may: &mut Allowance<'_>, out: &mut TxBatch) {
        flow.transmit(now, may, out);
    }

    fn on_flow_timer(&mut self, now: Time, flow: &mut SendFlow) {
        flow.on_timeout(now);
    }

    fn limit(&mut self, _now: Time, _limit: Option<Bitrate>, core: &mut Core<SendFlow>) {
        core.flows.values_mut().for_each(SendFlow::try_again);
        core.reschedule_all();
    }
}

#[cfg(test)]
mod tests;
