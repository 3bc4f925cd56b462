//! From a batch of messages to the endpoints that they are for.

use inhaul_transport::kit::Connections;
use inhaul_transport::{ConnectionId, RxMessage};

/// Calls `each` with every flow's part of a message: its datagrams that carry the flow's connection id. Nearly always that is all
/// of the message. Datagrams with an id that no flow has are a stranger's, or were changed on their way.
pub(crate) fn sort<'m>(connections: &Connections, message: &RxMessage<'m>, mut each: impl FnMut(RxMessage<'m>)) {
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
            each(message.of_flow(flow, connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::{Envelope, FlowId};

    #[test]
    fn each_flow_of_a_message_is_shown_once_and_strangers_never() {
        let mut connections = Connections::default();
        connections.insert(ConnectionId(1), FlowId(10));
        connections.insert(ConnectionId(2), FlowId(20));
        let ids = [1, 2, 9, 1, 2, 1];
        let datagram = |(number, &id)| Envelope { number, connection: ConnectionId(id) }.emit();
        let bytes: Vec<u8> = (0..).zip(&ids).flat_map(datagram).collect();
        let from = std::net::SocketAddr::from(([192, 0, 2, 1], 7));
        let message = RxMessage { head_stride: 8, datagram_len: 8, ..RxMessage::single(from, &bytes) };
        let mut shown = Vec::new();
        sort(&connections, &message, |part| {
            let own = (0..part.datagrams()).filter_map(|k| part.number(k)).collect::<Vec<_>>();
            shown.push((part.flow.unwrap().0.0, own));
        });
        assert_eq!(shown, [(10, vec![0, 3, 5]), (20, vec![1, 4])]);
        sort(&connections, &RxMessage::single(from, &bytes[..7]), |_| panic!("too short for an envelope"));
    }
}
