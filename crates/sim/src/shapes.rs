//! The shapes of network that papers measure on.

use inhaul_link::LinkSpec;

use crate::{HostSpec, LinkId, NodeId, Topology};

/// A host of a [`StarSpec`] and its own link.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The host.
    pub host: HostSpec,
    /// From the host to the hub.
    pub to_hub: LinkSpec,
    /// From the hub to the host.
    pub from_hub: LinkSpec,
}

/// The lambda grid of gtp-2004 Figure 3b: senders, each on a link of its own, and a receiver behind one access link,
/// where they meet.
#[derive(Clone, Debug, PartialEq)]
pub struct StarSpec {
    /// The senders.
    pub senders: Vec<Branch>,
    /// The receiver; `from_hub` is the access link.
    pub receiver: Branch,
}

/// The parts of a star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Star {
    /// The senders, named `s0`, `s1`, ...
    pub senders: Vec<NodeId>,
    /// Link from each sender to the hub, named as the sender, and back, `-back`.
    pub paths: Vec<(LinkId, LinkId)>,
    /// The receiver, named `receiver`.
    pub receiver: NodeId,
    /// The router in the middle, named `hub`.
    pub hub: NodeId,
    /// From the hub to the receiver, named `access`, and back, `access-back`.
    pub access: (LinkId, LinkId),
}

/// Builds a star.
pub fn star(spec: &StarSpec) -> (Topology, Star) {
    let mut t = Topology::new();
    let hub = t.router("hub");
    let receiver = t.host("receiver", spec.receiver.host.clone());
    let Branch { from_hub, to_hub, .. } = spec.receiver.clone();
    let access = t.duplex("access", hub, receiver, from_hub, to_hub);
    let (senders, paths) = (0..)
        .zip(&spec.senders)
        .map(|(k, Branch { host, to_hub, from_hub })| {
            let name = format!("s{k}");
            let sender = t.host(&name, host.clone());
            (sender, t.duplex(&name, sender, hub, to_hub.clone(), from_hub.clone()))
        })
        .unzip();
    (t, Star { senders, paths, receiver, hub, access })
}

/// A sender and a receiver of a [`DumbbellSpec`] or [`ParkingLotSpec`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The host that sends.
    pub sender: HostSpec,
    /// The host that receives.
    pub receiver: HostSpec,
    /// The sender's access link, the same in each direction.
    pub sender_link: LinkSpec,
    /// The receiver's access link, the same in each direction.
    pub receiver_link: LinkSpec,
}

/// Pairs of hosts whose paths share one link: fhstcp-2005 Figure 2.
#[derive(Clone, Debug, PartialEq)]
pub struct DumbbellSpec {
    /// The pairs.
    pub pairs: Vec<Pair>,
    /// The shared link, from the senders' side to the receivers'.
    pub bottleneck: LinkSpec,
    /// The same, the other way.
    pub bottleneck_back: LinkSpec,
}

/// The parts of a dumbbell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// The senders, named `s0`, `s1`, ...
    pub senders: Vec<NodeId>,
    /// The receivers, named `d0`, `d1`, ...
    pub receivers: Vec<NodeId>,
    /// The routers, named `R1` and `R2`.
    pub routers: (NodeId, NodeId),
    /// The shared link, named `bottleneck`, and back, `bottleneck-back`.
    pub bottleneck: (LinkId, LinkId),
}

/// Builds a dumbbell.
pub fn dumbbell(spec: &DumbbellSpec) -> (Topology, Dumbbell) {
    let mut t = Topology::new();
    let routers = (t.router("R1"), t.router("R2"));
    let (there, back) = (spec.bottleneck.clone(), spec.bottleneck_back.clone());
    let bottleneck = t.duplex("bottleneck", routers.0, routers.1, there, back);
    let (senders, receivers) = (0..).zip(&spec.pairs).map(|(k, pair)| add_pair(&mut t, k, pair, routers)).unzip();
    (t, Dumbbell { senders, receivers, routers, bottleneck })
}

/// Adds pair number `k`, the sender at the first router and the receiver at the second.
fn add_pair(t: &mut Topology, k: usize, pair: &Pair, (at, far): (NodeId, NodeId)) -> (NodeId, NodeId) {
    let (sender_name, receiver_name) = (format!("s{k}"), format!("d{k}"));
    let sender = t.host(&sender_name, pair.sender.clone());
    let receiver = t.host(&receiver_name, pair.receiver.clone());
    t.duplex(&sender_name, sender, at, pair.sender_link.clone(), pair.sender_link.clone());
    t.duplex(&receiver_name, far, receiver, pair.receiver_link.clone(), pair.receiver_link.clone());
    (sender, receiver)
}

/// A row of shared links: one pair crosses all of them, and one pair crosses each.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkingLotSpec {
    /// The pair that crosses every shared link.
    pub through: Pair,
    /// The shared links, the same in each direction, and the pair that crosses only that one.
    pub hops: Vec<(LinkSpec, Pair)>,
}

/// The parts of a parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkingLot {
    /// Sender and receiver of the pair that crosses every shared link, named `s0` and `d0`.
    pub through: (NodeId, NodeId),
    /// Sender and receiver of each pair that crosses one, named `s1` and `d1`, `s2` and `d2`, ...
    pub cross: Vec<(NodeId, NodeId)>,
    /// The routers, named `R1`, `R2`, ...: one more than shared links.
    pub routers: Vec<NodeId>,
    /// The shared links, named `hop1`, `hop2`, ..., and back.
    pub hops: Vec<(LinkId, LinkId)>,
}

/// Builds a parking lot.
pub fn parking_lot(spec: &ParkingLotSpec) -> (Topology, ParkingLot) {
    let mut t = Topology::new();
    let routers: Vec<_> = (0..=spec.hops.len()).map(|k| t.router(format!("R{}", k + 1))).collect();
    let mut lot = ParkingLot { through: (routers[0], routers[0]), cross: Vec::new(), routers, hops: Vec::new() };
    lot.through = add_pair(&mut t, 0, &spec.through, (lot.routers[0], lot.routers[spec.hops.len()]));
    for (k, (shared, pair)) in spec.hops.iter().enumerate() {
        let ends = (lot.routers[k], lot.routers[k + 1]);
        lot.hops.push(t.duplex(&format!("hop{}", k + 1), ends.0, ends.1, shared.clone(), shared.clone()));
        lot.cross.push(add_pair(&mut t, k + 1, pair, ends));
    }
    (t, lot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Routes;

    fn pair() -> Pair {
        Pair {
            sender: HostSpec::default(),
            receiver: HostSpec::default(),
            sender_link: LinkSpec::ideal(),
            receiver_link: LinkSpec::ideal(),
        }
    }

    /// Names of the links from one host to another.
    fn path(t: &Topology, from: NodeId, to: NodeId) -> Vec<&str> {
        let routes = Routes::new(t);
        let links: Vec<_> = t.links().collect();
        let mut at = from;
        let mut names = Vec::new();
        while at != to {
            let (_, name, _, next) = links[routes.next(at, to).unwrap().0 as usize];
            names.push(name);
            at = next;
        }
        names
    }

    #[test]
    fn star_senders_meet_at_the_access_link() {
        let branch = Branch { host: HostSpec::default(), to_hub: LinkSpec::ideal(), from_hub: LinkSpec::ideal() };
        let (t, parts) = star(&StarSpec { senders: vec![branch.clone(); 3], receiver: branch });
        assert_eq!(path(&t, parts.senders[2], parts.receiver), ["s2", "access"]);
        assert_eq!(path(&t, parts.receiver, parts.senders[0]), ["access-back", "s0-back"]);
        assert_eq!((t.find_link("access"), t.find_node("s1")), (Some(parts.access.0), Some(parts.senders[1])));
    }

    #[test]
    fn dumbbell_pairs_share_the_bottleneck() {
        let spec =
            DumbbellSpec { pairs: vec![pair(); 2], bottleneck: LinkSpec::ideal(), bottleneck_back: LinkSpec::ideal() };
        let (t, parts) = dumbbell(&spec);
        assert_eq!(path(&t, parts.senders[1], parts.receivers[1]), ["s1", "bottleneck", "d1"]);
        assert_eq!(path(&t, parts.receivers[1], parts.senders[1]), ["d1-back", "bottleneck-back", "s1-back"]);
    }

    #[test]
    fn parking_lot_one_pair_crosses_all_and_the_others_one_link() {
        let spec = ParkingLotSpec { through: pair(), hops: vec![(LinkSpec::ideal(), pair()); 3] };
        let (t, parts) = parking_lot(&spec);
        assert_eq!(path(&t, parts.through.0, parts.through.1), ["s0", "hop1", "hop2", "hop3", "d0"]);
        let (sender, receiver) = parts.cross[1];
        assert_eq!(path(&t, sender, receiver), ["s2", "hop2", "d2"]);
    }
}
