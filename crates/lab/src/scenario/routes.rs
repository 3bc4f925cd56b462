//! A flow's route: the simulator's rule, for the ideal rates of comparisons.

use std::collections::{BTreeMap, VecDeque};

use inhaul_base::Span;
use inhaul_sim::{LinkId, NodeId, Topology};

/// Paths with the fewest links; between equals, at each node the link that was added first. Hosts do not forward.
pub(crate) struct Routes<'a> {
    topology: &'a Topology,
    is_host: Vec<bool>,
    links: Vec<(LinkId, usize, usize)>,
    into: Vec<Vec<usize>>,
    out: Vec<Vec<usize>>,
    index: BTreeMap<NodeId, usize>,
    /// Links from each node, by destination: computed when first asked for.
    distances: BTreeMap<NodeId, Vec<u32>>,
}

impl<'a> Routes<'a> {
    pub(crate) fn new(topology: &'a Topology, hosts: impl Iterator<Item = NodeId>) -> Self {
        let index: BTreeMap<NodeId, usize> = topology.nodes().enumerate().map(|(at, (id, _))| (id, at)).collect();
        let at = |id: NodeId| index.get(&id).copied().unwrap_or_default();
        let links: Vec<_> = topology.links().map(|(id, _, from, to)| (id, at(from), at(to))).collect();
        let (mut into, mut out) = (vec![Vec::new(); index.len()], vec![Vec::new(); index.len()]);
        for (number, (_, from, to)) in links.iter().enumerate() {
            out[*from].push(number);
            into[*to].push(number);
        }
        let mut is_host = vec![false; index.len()];
        for host in hosts {
            is_host[at(host)] = true;
        }
        Self { topology, is_host, links, into, out, index, distances: BTreeMap::new() }
    }

    /// The links from one host to another, in order; `None` if there is no way.
    pub(crate) fn path(&mut self, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
        let (mut at, end) = (*self.index.get(&from)?, *self.index.get(&to)?);
        if !self.distances.contains_key(&to) {
            let distances = self.distances_to(end);
            self.distances.insert(to, distances);
        }
        let distances = self.distances.get(&to)?;
        let mut path = Vec::new();
        while at != end {
            let here = distances[at];
            let link = self.out[at].iter().find(|link| {
                let far = distances[self.links[**link].2];
                here != u32::MAX && far != u32::MAX && far + 1 == here
            })?;
            path.push(self.links[*link].0);
            at = self.links[*link].2;
        }
        Some(path)
    }

    /// Propagation delay of a path.
    pub(crate) fn delay(&self, path: &[LinkId]) -> Span {
        path.iter().filter_map(|link| self.topology.link_spec(*link)).fold(Span::ZERO, |sum, spec| sum + spec.delay)
    }

    fn distances_to(&self, end: usize) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.index.len()];
        distances[end] = 0;
        let mut queue = VecDeque::from([end]);
        while let Some(at) = queue.pop_front() {
            if at != end && self.is_host[at] {
                continue;
            }
            for &link in &self.into[at] {
                let from = self.links[link].1;
                if distances[from] == u32::MAX {
                    distances[from] = distances[at] + 1;
                    queue.push_back(from);
                }
            }
        }
        distances
    }
}
