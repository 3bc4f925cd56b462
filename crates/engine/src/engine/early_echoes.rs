//! The echoes of probes that reach a server's port before they have a flow: see WIRE.md 4.2. The client's end is
//! `session::early_path`.

use std::collections::VecDeque;
use std::net::IpAddr;

use inhaul_transport::RxMessage;
use inhaul_transport::kit::{self, Challenges};

use inhaul_session::system::sockets::Answer;

/// Echoes that a connection is good for: more than a client has sizes to probe.
const ECHOES_A_CLIENT: u32 = 8;
/// Clients that may have connected a moment ago and not probed yet.
const CLIENTS_MAX: usize = 256;

/// What a server's port keeps to answer early probes. Strangers get no answer: only addresses from which a client has
/// just connected do, and few.
#[derive(Debug)]
pub struct EarlyEchoes {
    challenges: Challenges,
    /// Who has connected lately, and how many echoes are left.
    clients: VecDeque<(IpAddr, u32)>,
}

impl EarlyEchoes {
    /// Echoes with challenges as those of endpoints that have this seed.
    pub fn new(challenge_seed: u64) -> Self {
        Self { challenges: Challenges::new(challenge_seed), clients: VecDeque::new() }
    }

    /// A client has connected.
    pub fn expect(&mut self, client: IpAddr) {
        if self.clients.len() == CLIENTS_MAX {
            self.clients.pop_front();
        }
        self.clients.push_back((client.to_canonical(), ECHOES_A_CLIENT));
    }

    /// Whether anybody may be answered.
    pub(crate) fn is_open(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Appends the echoes of a message's datagrams to `echoes`.
    pub(crate) fn answer(&mut self, message: &RxMessage<'_>, echoes: &mut Vec<Answer>) {
        for k in 0..message.datagrams() {
            let datagram = message.head(k);
            if kit::is_for_port(datagram)
                && datagram.len() == message.len_of(k)
                && let Some(bytes) = kit::echo_early(&self.challenges, message.from, datagram)
                && self.take_from(message.from.ip().to_canonical())
            {
                echoes.push(Answer { to: message.from, asked: message.to, bytes });
            }
        }
    }

    /// Takes one of the address's echoes. Who came last is likely to be first to probe.
    fn take_from(&mut self, address: IpAddr) -> bool {
        let Some(index) = self.clients.iter().rposition(|(client, _)| *client == address) else { return false };
        self.clients[index].1 -= 1;
        if self.clients[index].1 == 0 {
            self.clients.remove(index);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_transport::{ConnectionId, PathSpec};
    use std::net::SocketAddr;

    #[test]
    fn only_those_who_have_connected_are_answered_and_not_for_ever() {
        let mut desk = EarlyEchoes::new(7);
        let from = |last: u8| SocketAddr::from(([192, 0, 2, last], 9));
        let path = PathSpec::clear(1500, from(1).ip());
        let probes = kit::early_probes(path, true, ConnectionId(77));
        let answered = |desk: &mut EarlyEchoes, from| {
            let mut echoes = Vec::new();
            probes.iter().for_each(|probe| desk.answer(&RxMessage::single(from, probe), &mut echoes));
            assert!(echoes.iter().zip(&probes).all(|(echo, probe)| echo.to == from && echo.bytes.len() == probe.len()));
            echoes.len()
        };
        assert!(!desk.is_open());
        assert_eq!(answered(&mut desk, from(1)), 0);
        desk.expect("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!((answered(&mut desk, from(2)), answered(&mut desk, from(1))), (0, 3));
        let all: usize = (0..9).map(|_| answered(&mut desk, from(1))).sum();
        assert_eq!(all, ECHOES_A_CLIENT as usize - 3);
        assert!(!desk.is_open(), "it has had its share");
        desk.expect(from(1).ip());
        let (asked, mut echoes) = (Some("192.0.2.99".parse().unwrap()), Vec::new());
        desk.answer(&RxMessage { to: asked, ..RxMessage::single(from(1), &probes[0]) }, &mut echoes);
        assert_eq!(echoes[0].asked, asked, "it leaves from the address that was asked");
        (0..2 * CLIENTS_MAX).for_each(|_| desk.expect(from(3).ip()));
        assert_eq!(desk.clients.len(), CLIENTS_MAX);
    }
}
