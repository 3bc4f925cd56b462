//! Whole endpoints: state machines that receive input which no honest peer sends, in any order.

use inhaul_base::RandomStream;
use inhaul_protocols::registry::PROTOCOLS;

use super::{gtp, rates, tcp, udt};
use crate::pair::{CONTROL, Pair};

/// Scripts with random steps, for each protocol.
const RANDOM_SCRIPTS: u64 = 8;

/// Two endpoints of one protocol, and a script for the network between them (`pair.rs`).
pub fn endpoints(data: &[u8]) -> bool {
    let Some((&[protocol, kind], script)) = data.split_first_chunk() else { return false };
    let mut pair = Pair::new(protocol, kind);
    pair.run(script);
    pair.has_placed()
}

/// Steps of a script: see [`Pair::run`].
const DELIVER: [u8; 4] = [0, 15, 0, 0];

fn pass(log: u8) -> [u8; 4] {
    [11, log, 0, 0]
}

/// Steps in which parcels arrive as they were sent.
fn rounds(count: usize, log: u8) -> Vec<u8> {
    [DELIVER, DELIVER, pass(log)].concat().repeat(count)
}

/// Enough rounds for the first data.
fn opening() -> Vec<u8> {
    [rounds(20, 20), rounds(10, 24)].concat()
}

/// For each protocol: transfers of each size, the same with forged messages, and the same with random steps. All of
/// them place data.
pub(super) fn scripts() -> Vec<Vec<u8>> {
    let controls = [
        gtp::controls(),
        gtp::extreme_controls(),
        tcp::controls(),
        udt::controls(),
        rates::rbudp_controls(),
        rates::sabul_controls(),
    ];
    let controls = controls.concat();
    let datagrams = [gtp::datagrams(), tcp::datagrams(), udt::datagrams(), rates::datagrams()].concat();
    let mut scripts = Vec::new();
    for protocol in 0..PROTOCOLS.len() as u8 {
        for kind in 0..8 {
            scripts.push([vec![protocol, kind], rounds(20, 20), rounds(10, 24), rounds(5, 28)].concat());
        }
        for message in &controls {
            let bring = [&[15, message.len() as u8, 0, 0], message.as_slice()].concat();
            scripts.push([vec![protocol, 2], opening(), bring, rounds(10, 20), rounds(5, 28)].concat());
        }
        for datagram in &datagrams {
            let bring = |choice| [&[15, datagram.len() as u8, choice, 0], datagram.as_slice()].concat();
            scripts.push([vec![protocol, 2], opening(), bring(2), bring(3), rounds(10, 24)].concat());
        }
        // The largest length of a request's first range, rate, and burst.
        let greedy = [[9, 17, 8, 3 | CONTROL], [9, 3, 10, 3 | CONTROL], [9, 11, 10, 2 | CONTROL]].concat();
        let greedy = [greedy, DELIVER.to_vec(), pass(20).to_vec()].concat();
        scripts.push([vec![protocol, 3], opening(), greedy.repeat(30), rounds(10, 26)].concat());
        scripts.extend((0..RANDOM_SCRIPTS).map(|seed| random_script(protocol, seed)));
    }
    scripts
}

/// A normal opening, and then steps of all kinds.
fn random_script(protocol: u8, seed: u64) -> Vec<u8> {
    let mut random = RandomStream::new(seed, u64::from(protocol));
    let mut script = [vec![protocol, 2 | (seed as u8 & 4)], opening()].concat();
    for _ in 0..300 {
        let step = match random.below(10) {
            0..=3 => DELIVER,
            4 | 5 => pass(14 + random.below(14) as u8),
            _ => (random.next_u64() as u32).to_be_bytes(),
        };
        script.extend_from_slice(&step);
    }
    script
}
