//! Rates of a host's TCP flows, as reported to its other endpoints. On a real host, the kernel reports its sockets.

use inhaul_base::{Bitrate, Span};
use inhaul_transport::{HostSample, TcpFlows};

use crate::SimError;
use crate::agenda::Component;
use crate::ids::{EndpointId, NodeId, TransferId};
use crate::recorder::TcpWatch;
use crate::simulation::Simulation;
use crate::transfer::Phase;

impl Simulation {
    /// Watches the hosts' own TCP from now on. `tcp` are the endpoints that stand for the kernel's TCP: the bytes that
    /// their transfers bring to a host are reported, at this interval, to the other endpoints of the host.
    ///
    /// # Errors
    /// When an endpoint is not known, or the interval is zero.
    pub fn watch_tcp(&mut self, tcp: Vec<EndpointId>, every: Span) -> Result<(), SimError> {
        if every == Span::ZERO {
            return Err(SimError::BadValue { what: "the interval of looks at TCP", expected: "longer than nothing" });
        }
        if tcp.iter().any(|id| id.0 as usize >= self.seats.len()) {
            return Err(SimError::Unknown("an endpoint"));
        }
        let component = self.network.agenda.add(Component::TcpWatch);
        self.network.agenda.schedule(component, Some(self.now + every));
        self.tcp_watch = Some(TcpWatch { component, every, tcp, seen: Vec::new(), looked: self.now });
        Ok(())
    }

    pub(crate) fn on_tcp_watch(&mut self) {
        let Some(mut watch) = self.tcp_watch.take() else { return };
        let passed = self.now.since(std::mem::replace(&mut watch.looked, self.now));
        watch.seen.resize(self.transfers.len(), 0);
        let mut rates: Vec<(NodeId, Vec<Bitrate>)> = Vec::new();
        for index in 0..self.transfers.len() {
            let receiver = self.transfers[index].transfer.receiver;
            if !watch.tcp.contains(&receiver) {
                continue;
            }
            let node = self.addresses[receiver.0 as usize].0;
            let at = rates.iter().position(|(known, _)| *known == node).unwrap_or_else(|| {
                rates.push((node, Vec::new()));
                rates.len() - 1
            });
            if self.transfers[index].phase == Phase::Running {
                let bytes = self.stats(TransferId(index as u32)).wire_bytes;
                let came = bytes.saturating_sub(std::mem::replace(&mut watch.seen[index], bytes));
                rates[at].1.push(Bitrate::of(came, passed));
            }
        }
        for (node, rates) in rates {
            let sample = HostSample { tcp: Some(TcpFlows::of(rates)), ..HostSample::default() };
            for id in self.hosts[node.0 as usize].endpoints.clone() {
                if !watch.tcp.contains(&id) {
                    self.seats[id.0 as usize].endpoint.handle_host(self.now, sample);
                    self.pump(id);
                }
            }
        }
        self.network.agenda.schedule(watch.component, Some(self.now + watch.every));
        self.tcp_watch = Some(watch);
    }
}
