//! From a batch of messages to the endpoints that they are for.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use inhaul_transport::kit::Connections;
use inhaul_transport::{ConnectionId, RxMessage};

/// Calls `each` with every flow's part of a message: its datagrams that carry the flow's connection id. Nearly always
/// that is all of the message. Datagrams with an id that no flow has are a stranger's, or were changed on their way.
/// Takes note of the address of this host that each flow's peer sends to.
pub(crate) fn sort<'m>(connections: &mut Connections, message: &RxMessage<'m>, mut each: impl FnMut(RxMessage<'m>)) {
    let mut seen: Option<ConnectionId> = None;
    for k in 0..message.datagrams() {
        let Some(connection) = message.envelope(k).map(|envelope| envelope.connection) else { continue };
        if seen == Some(connection) {
            continue;
        }
        // An id that came before has been dealt with.
        let came_before =
            seen.is_some() && (0..k).any(|j| message.envelope(j).is_some_and(|e| e.connection == connection));
        seen = Some(connection);
        if let Some(flow) = connections.flow(connection).filter(|_| !came_before) {
            if let Some(address) = message.to {
                connections.note_asked(flow, address);
            }
            each(message.of_flow(flow, connection));
        }
    }
}

/// Messages that an endpoint is given in one call.
const TOGETHER: usize = 8;

/// Gathers consecutive messages for the same endpoint, and gives them to it together. It lies on the stack: this is
/// done for every message that comes in.
pub(crate) struct Gathered<'g, 'm> {
    give: &'g mut dyn FnMut(usize, &[RxMessage<'m>]),
    endpoint: usize,
    messages: [RxMessage<'m>; TOGETHER],
    len: usize,
}

impl<'g, 'm> Gathered<'g, 'm> {
    /// Nothing yet. `give` gets the index of an endpoint, and what is for it.
    pub(crate) fn new(give: &'g mut dyn FnMut(usize, &[RxMessage<'m>])) -> Self {
        let nothing = RxMessage::single(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)), &[]);
        Self { give, endpoint: 0, messages: [nothing; TOGETHER], len: 0 }
    }

    /// Adds a message for an endpoint.
    pub(crate) fn add(&mut self, endpoint: usize, message: RxMessage<'m>) {
        if self.len == TOGETHER || endpoint != self.endpoint {
            self.give();
        }
        self.endpoint = endpoint;
        self.messages[self.len] = message;
        self.len += 1;
    }

    /// Gives what was gathered.
    pub(crate) fn give(&mut self) {
        if self.len > 0 {
            (self.give)(self.endpoint, &self.messages[..self.len]);
            self.len = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::{Envelope, FlowId};

    #[test]
    fn messages_are_gathered_by_endpoint_in_order() {
        let mut given = Vec::new();
        let mut give = |endpoint, messages: &[RxMessage<'_>]| {
            given.push((endpoint, messages.iter().map(|message| message.index).collect::<Vec<_>>()));
        };
        let mut gathered = Gathered::new(&mut give);
        let from = SocketAddr::from(([192, 0, 2, 1], 7));
        for (index, endpoint) in [0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0].into_iter().enumerate() {
            gathered.add(endpoint, RxMessage { index: index as u32, ..RxMessage::single(from, &[]) });
        }
        gathered.give();
        gathered.give();
        let expected = [(0, vec![0, 1]), (3, vec![2]), (0, (3..11).collect()), (0, vec![11])];
        assert_eq!(given, expected);
    }

    #[test]
    fn each_flow_of_a_message_is_shown_once_and_strangers_never() {
        let mut connections = Connections::default();
        connections.insert(ConnectionId(1), FlowId(10));
        connections.insert(ConnectionId(2), FlowId(20));
        let ids = [1, 2, 9, 1, 2, 1];
        let datagram = |(number, &id)| Envelope { number, connection: ConnectionId(id) }.emit();
        let bytes: Vec<u8> = (0..).zip(&ids).flat_map(datagram).collect();
        let from = SocketAddr::from(([192, 0, 2, 1], 7));
        let message = RxMessage { head_stride: 8, datagram_len: 8, ..RxMessage::single(from, &bytes) };
        let mut shown = Vec::new();
        sort(&mut connections, &message, |part| {
            let own = (0..part.datagrams()).filter_map(|k| part.number(k)).collect::<Vec<_>>();
            shown.push((part.flow.unwrap().0.0, own));
        });
        assert_eq!(shown, [(10, vec![0, 3, 5]), (20, vec![1, 4])]);
        sort(&mut connections, &RxMessage::single(from, &bytes[..7]), |_| panic!("too short for an envelope"));
        assert_eq!(connections.asked(FlowId(10)), None);
        let asked = "192.0.2.99".parse().unwrap();
        sort(&mut connections, &RxMessage { to: Some(asked), ..RxMessage::single(from, &bytes[..8]) }, |_| {});
        assert_eq!((connections.asked(FlowId(10)), connections.asked(FlowId(20))), (Some(asked), None));
    }
}
