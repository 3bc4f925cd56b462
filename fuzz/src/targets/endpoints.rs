//! Whole endpoints: state machines that hear what no honest peer says, in whatever order.

use crate::pair::Pair;

/// Two endpoints of one protocol, and a script of what becomes of what they say: see [`Pair`].
pub fn endpoints(data: &[u8]) -> bool {
    let Some((&[protocol, kind], script)) = data.split_first_chunk() else { return false };
    let mut pair = Pair::new(protocol, kind);
    pair.run(script);
    pair.placed_bytes() > 0
}

/// For each protocol and size transfers that come far enough to place data.
pub(super) fn scripts() -> Vec<Vec<u8>> {
    let deliver = [0, 15, 0, 0];
    let pass = |log: u8| [11, log, 0, 0];
    let rounds = |count: usize, log: u8| [deliver, deliver, pass(log)].concat().repeat(count);
    let protocols = inhaul_protocols::registry::PROTOCOLS.len() as u8;
    (0..protocols)
        .flat_map(|protocol| (0..8).map(move |kind| (protocol, kind)))
        .map(|(protocol, kind)| [vec![protocol, kind], rounds(20, 20), rounds(10, 24), rounds(5, 28)].concat())
        .collect()
}
