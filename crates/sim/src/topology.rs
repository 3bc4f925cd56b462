//! The topology: hosts, routers and the links between them.

use inhaul_link::LinkSpec;

use crate::host::HostSpec;
use crate::ids::{LinkId, NodeId};

/// The kind of a node.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Owns endpoints; forwards nothing.
    Host(HostSpec),
    /// Forwards; owns nothing.
    Router,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) name: String,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) spec: LinkSpec,
}

/// A network as plain data: any graph of hosts, routers and directed links.
///
/// Packets take the path with the fewest links, computed once; between paths of equal length, at each node the link
/// that was added first. Only routers forward.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
}

impl Topology {
    /// A network with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host: a place for endpoints. Its name is for people; it must be unique.
    pub fn host(&mut self, name: impl Into<String>, spec: HostSpec) -> NodeId {
        self.node(name.into(), Kind::Host(spec))
    }

    /// Adds a router: it forwards every packet at once; packets wait only at its links.
    pub fn router(&mut self, name: impl Into<String>) -> NodeId {
        self.node(name.into(), Kind::Router)
    }

    fn node(&mut self, name: String, kind: Kind) -> NodeId {
        self.nodes.push(Node { name, kind });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Adds a link in one direction. Its name is for people; it must be unique.
    pub fn link(&mut self, name: impl Into<String>, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        self.wires.push(Wire { name: name.into(), from, to, spec });
        LinkId(self.wires.len() as u32 - 1)
    }

    /// Adds a link in each direction: `name` from `a` to `b`, and `name-back` from `b` to `a`.
    pub fn duplex(&mut self, name: &str, a: NodeId, b: NodeId, there: LinkSpec, back: LinkSpec) -> (LinkId, LinkId) {
        (self.link(name, a, b, there), self.link(format!("{name}-back"), b, a, back))
    }

    /// The node of that name.
    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(|at| NodeId(at as u32))
    }

    /// The link of that name.
    pub fn find_link(&self, name: &str) -> Option<LinkId> {
        self.wires.iter().position(|wire| wire.name == name).map(|at| LinkId(at as u32))
    }

    /// Every node, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes.iter().enumerate().map(|(at, node)| (NodeId(at as u32), node.name.as_str()))
    }

    /// A host's specification; `None`: the node is a router, or there is none.
    pub fn host_spec(&self, node: NodeId) -> Option<&HostSpec> {
        match &self.nodes.get(node.0 as usize)?.kind {
            Kind::Host(spec) => Some(spec),
            Kind::Router => None,
        }
    }

    /// Every link with its ends, in the order in which they were added.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &str, NodeId, NodeId)> {
        self.wires.iter().enumerate().map(|(at, wire)| (LinkId(at as u32), wire.name.as_str(), wire.from, wire.to))
    }

    /// A link's specification.
    pub fn link_spec(&self, link: LinkId) -> Option<&LinkSpec> {
        self.wires.get(link.0 as usize).map(|wire| &wire.spec)
    }
}
