//! Routes: static shortest paths.

use std::collections::VecDeque;

use crate::ids::{LinkId, NodeId};
use crate::topology::{Kind, Topology};

/// No link leads there.
const NO_LINK: u32 = u32::MAX;

/// A node's routing entry.
#[derive(Clone, Debug)]
enum NextHop {
    /// One link leads out of it, if any: everything takes that.
    Only(Option<LinkId>),
    /// The link by destination.
    Table(Vec<u32>),
}

/// For each node and destination, the link to take: the first link of a path with the fewest links; of several such
/// links, the first added one. Only hosts are destinations, and only routers forward.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    nodes: Vec<NextHop>,
    /// Node and far end of every link.
    ends: Vec<(NodeId, NodeId)>,
}

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let count = topology.nodes.len();
        let ends: Vec<_> = topology.wires.iter().map(|wire| (wire.from, wire.to)).collect();
        let mut out = vec![Vec::new(); count];
        let mut into = vec![Vec::new(); count];
        for (link, (from, to)) in ends.iter().enumerate() {
            out[from.0 as usize].push(link as u32);
            into[to.0 as usize].push(link as u32);
        }
        let mut nodes: Vec<_> = out
            .iter()
            .map(|out| match out[..] {
                [] => NextHop::Only(None),
                [only] => NextHop::Only(Some(LinkId(only))),
                _ => NextHop::Table(vec![NO_LINK; count]),
            })
            .collect();
        for (destination, node) in topology.nodes.iter().enumerate() {
            if matches!(node.kind, Kind::Host(_)) {
                let distances = distances(topology, &into, destination);
                for (at, next) in nodes.iter_mut().enumerate() {
                    if let NextHop::Table(table) = next {
                        table[destination] = nearest(&out[at], &ends, &distances, distances[at]);
                    }
                }
            }
        }
        Self { nodes, ends }
    }

    /// The link to take at `at` towards the host `to`.
    pub(crate) fn next(&self, at: NodeId, to: NodeId) -> Option<LinkId> {
        match &self.nodes[at.0 as usize] {
            NextHop::Only(link) => *link,
            NextHop::Table(table) => Some(LinkId(table[to.0 as usize])).filter(|link| link.0 != NO_LINK),
        }
    }

    /// Whether packets from `from` come to `to`.
    pub(crate) fn reaches(&self, topology: &Topology, from: NodeId, to: NodeId) -> bool {
        let mut at = from;
        for _ in 0..self.nodes.len() {
            let Some(link) = self.next(at, to) else { return false };
            at = self.ends[link.0 as usize].1;
            if at == to {
                return true;
            }
            if matches!(topology.nodes[at.0 as usize].kind, Kind::Host(_)) {
                return false;
            }
        }
        false
    }

    /// Bytes of memory that the tables take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = |next: &NextHop| match next {
            NextHop::Only(_) => 0,
            NextHop::Table(table) => table.capacity() * size_of::<u32>(),
        };
        self.nodes.capacity() * size_of::<NextHop>() + self.nodes.iter().map(table).sum::<usize>()
    }
}

/// Links from each node to `destination`; `u32::MAX` where there is no way.
fn distances(topology: &Topology, into: &[Vec<u32>], destination: usize) -> Vec<u32> {
    let mut distances = vec![u32::MAX; topology.nodes.len()];
    let mut queue = VecDeque::from([destination]);
    distances[destination] = 0;
    while let Some(at) = queue.pop_front() {
        if at != destination && matches!(topology.nodes[at].kind, Kind::Host(_)) {
            continue;
        }
        for &link in &into[at] {
            let from = topology.wires[link as usize].from.0 as usize;
            if distances[from] == u32::MAX {
                distances[from] = distances[at] + 1;
                queue.push_back(from);
            }
        }
    }
    distances
}

/// The first link of `out` that leads one step nearer.
fn nearest(out: &[u32], ends: &[(NodeId, NodeId)], distances: &[u32], distance: u32) -> u32 {
    let nearer = |link: &&u32| {
        let far = distances[ends[**link as usize].1.0 as usize];
        distance != u32::MAX && far != u32::MAX && far + 1 == distance
    };
    out.iter().find(nearer).copied().unwrap_or(NO_LINK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostSpec;
    use inhaul_link::LinkSpec;

    /// The nodes that a packet from `from` to `to` comes through.
    fn path(topology: &Topology, from: NodeId, to: NodeId) -> Vec<u32> {
        let routes = Routes::new(topology);
        let mut at = from;
        let mut path = vec![at.0];
        while at != to
            && let Some(link) = routes.next(at, to)
        {
            at = routes.ends[link.0 as usize].1;
            path.push(at.0);
        }
        assert_eq!(routes.reaches(topology, from, to), at == to);
        path
    }

    #[test]
    fn next_takes_the_fewest_links_and_of_equals_the_first() {
        let mut t = Topology::new();
        let (a, b) = (t.host("a", HostSpec::default()), t.host("b", HostSpec::default()));
        let [r1, r2, r3] = ["r1", "r2", "r3"].map(|name| t.router(name));
        for (name, x, y) in
            [("1", a, r3), ("2", r3, r1), ("3", a, r2), ("4", a, r1), ("5", r1, b), ("6", r2, b), ("7", r3, r2)]
        {
            t.duplex(name, x, y, LinkSpec::ideal(), LinkSpec::ideal());
        }
        // Over r2 and over r1 it is two links; the one to r2 was added first.
        assert_eq!(path(&t, a, b), [0, 3, 1]);
        // On the way back, the link from r1 comes first.
        assert_eq!(path(&t, b, a), [1, 2, 0]);
    }

    #[test]
    fn next_hosts_do_not_forward() {
        let mut t = Topology::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| t.host(name, HostSpec::default()));
        t.duplex("ab", a, b, LinkSpec::ideal(), LinkSpec::ideal());
        t.duplex("bc", b, c, LinkSpec::ideal(), LinkSpec::ideal());
        let routes = Routes::new(&t);
        assert!(routes.reaches(&t, a, b) && routes.reaches(&t, b, c));
        assert!(!routes.reaches(&t, a, c));
    }
}
