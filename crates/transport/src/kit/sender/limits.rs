//! Users' limits at the sender: the rate of all flows together (R_send), and the rate of one client's flows.

use std::collections::BTreeMap;

use inhaul_base::{Bitrate, Time};

use crate::kit::RateLimit;
use crate::{ClientRate, OfferFlow};

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct SendLimits {
    host: RateLimit,
    /// Of clients that have flows, and how many they have.
    clients: BTreeMap<u64, (RateLimit, usize)>,
}

impl SendLimits {
    /// Sets the limit of all flows together from now on.
    pub(super) fn set_host(&mut self, now: Time, rate: Option<Bitrate>) {
        self.host.set(now, rate);
    }

    /// A flow is offered. The latest limit of its client applies.
    pub(super) fn enter(&mut self, now: Time, offer: &OfferFlow) {
        if let Some(ClientRate { client, rate }) = offer.client {
            let (limit, flows) = self.clients.entry(client).or_default();
            limit.set(now, Some(rate));
            *flows += 1;
        }
    }

    /// A flow has been taken out.
    pub(super) fn leave(&mut self, offer: &OfferFlow) {
        let Some(ClientRate { client, .. }) = offer.client else { return };
        if let Some((_, flows)) = self.clients.get_mut(&client) {
            *flows -= 1;
            if *flows == 0 {
                self.clients.remove(&client);
            }
        }
    }

    /// What bounds a flow.
    pub(super) fn of(&mut self, offer: &OfferFlow) -> Allowance<'_> {
        let client = offer.client.and_then(|of| self.clients.get_mut(&of.client)).map(|(limit, _)| limit);
        Allowance { host: &mut self.host, client }
    }
}

/// What bounds one flow of a sender, together with others.
#[derive(Debug)]
pub struct Allowance<'l> {
    /// R_send.
    pub host: &'l mut RateLimit,
    /// The limit of the flow's client, if it has one.
    pub client: Option<&'l mut RateLimit>,
}

impl Allowance<'_> {
    /// When a packet of `packet` bytes may leave, if that is not now.
    pub fn delays(&mut self, now: Time, packet: u64) -> Option<Time> {
        let client = self.client.as_mut().and_then(|limit| limit.delays(now, packet));
        self.host.delays(now, packet).max(client)
    }

    /// A packet of `packet` bytes left.
    pub fn spend(&mut self, packet: u64) {
        self.host.spend(packet);
        if let Some(client) = &mut self.client {
            client.spend(packet);
        }
    }

    /// Whether the flow is bounded at all.
    pub fn is_limited(&self) -> bool {
        self.client.is_some() || self.host.rate().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionId, FlowId, PathSpec};
    use inhaul_base::Span;

    fn offer(flow: u32, client: Option<ClientRate>) -> OfferFlow {
        let path = PathSpec::clear(1500, std::net::Ipv4Addr::LOCALHOST.into());
        let (connection, parameters) = (ConnectionId(1), [].into());
        OfferFlow {
            flow: FlowId(flow),
            size: 1,
            peer: None,
            only_from: None,
            path,
            connection,
            token: 1,
            client,
            parameters,
        }
    }

    /// Bytes that these flows send in turn in a second, with a wake-up whenever one may send.
    fn sent(limits: &mut SendLimits, from: Time, flows: &[&OfferFlow]) -> Vec<u64> {
        let (mut now, mut bytes) = (from, vec![0; flows.len()]);
        while now < from + Span::from_secs(1) {
            let mut next = Time::FAR_FUTURE;
            for (offer, bytes) in flows.iter().zip(&mut bytes) {
                let mut of = limits.of(offer);
                match of.delays(now, 1000) {
                    Some(due) => next = next.min(due),
                    None => {
                        of.spend(1000);
                        *bytes += 1000;
                        next = now;
                    }
                }
            }
            now = next;
        }
        bytes
    }

    #[test]
    fn a_client_s_flows_share_its_rate_and_all_flows_the_host_s() {
        let mut limits = SendLimits::default();
        let rate = |client, mbps| Some(ClientRate { client, rate: Bitrate::from_mbps(mbps) });
        let [one, two, other] = [offer(1, rate(7, 8)), offer(2, rate(7, 8)), offer(3, rate(8, 16))];
        for each in [&one, &two, &other] {
            limits.enter(Time::ZERO, each);
        }
        assert!(limits.of(&one).is_limited() && !limits.of(&offer(4, None)).is_limited());
        let near = |bytes: u64, expected: u64| assert!(bytes.abs_diff(expected) <= expected / 50, "{bytes} {expected}");
        let all = sent(&mut limits, Time::ZERO, &[&one, &two, &other]);
        near(all[0] + all[1], 1_000_000);
        near(all[2], 2_000_000);
        let now = Time::ZERO + Span::from_secs(2);
        limits.set_host(now, Some(Bitrate::from_mbps(12)));
        let all = sent(&mut limits, now, &[&one, &two, &other]);
        near(all.iter().sum(), 1_500_000);
        // The latest limit holds for all flows of the client.
        limits.set_host(now, None);
        let now = now + Span::from_secs(2);
        limits.leave(&two);
        limits.enter(now, &offer(5, rate(7, 4)));
        near(sent(&mut limits, now, &[&one])[0], 500_000);
    }

    #[test]
    fn a_client_without_flows_is_forgotten() {
        let mut limits = SendLimits::default();
        let of = |flow| offer(flow, Some(ClientRate { client: u64::from(flow) % 10, rate: Bitrate::from_mbps(1) }));
        (0..100).for_each(|flow| limits.enter(Time::ZERO, &of(flow)));
        assert_eq!(limits.clients.len(), 10);
        (0..100).for_each(|flow| limits.leave(&of(flow)));
        assert!(limits.clients.is_empty());
    }
}
