//! Datagrams that leave together.

use std::net::SocketAddr;

use inhaul_udp::MESSAGES_MAX;

/// Up to 64 datagrams, one behind the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Batch {
    memory: Vec<u8>,
    /// To whom, and where it ends.
    datagrams: Vec<(SocketAddr, usize)>,
    /// So many have left.
    sent: usize,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.datagrams.len() >= MESSAGES_MAX
    }

    /// Whether all have left.
    pub(super) fn is_empty(&self) -> bool {
        self.sent >= self.datagrams.len()
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.datagrams.clear();
        self.sent = 0;
    }

    /// Adds the datagram that `write` appends.
    pub(super) fn push(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        self.try_push(to, |out| {
            write(out);
            true
        });
    }

    /// Adds the datagram that `write` appends, if it says that there is one.
    pub(super) fn try_push(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = self.memory.len();
        let there_is = write(&mut self.memory);
        if there_is {
            self.datagrams.push((to, self.memory.len()));
        } else {
            self.memory.truncate(start);
        }
        there_is
    }

    /// Those that have not left.
    pub(super) fn rest(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let start =
            |at: usize| at.checked_sub(1).and_then(|before| self.datagrams.get(before)).map_or(0, |(_, end)| *end);
        let rest = self.datagrams.iter().enumerate().skip(self.sent);
        rest.map(move |(at, (to, end))| (*to, self.memory.get(start(at)..*end).unwrap_or_default()))
    }

    /// The first `count` of the rest have left, or never will.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
    }
}
