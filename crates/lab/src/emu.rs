//! From a scenario to the emulator's grid: the same network as in the simulator, for real packets.

use std::collections::BTreeMap;

use inhaul_base::{Probability, Time};
use inhaul_emu::{Change, Grid, GridLink, Host, LinkChange};
use inhaul_sim::{HostSpec, LinkId, NodeId};

use crate::scenario::{Plan, Routes, WhatChanges};

/// The longest packet of a host that no flow says anything about, in bytes.
const MTU_DEFAULT: u16 = 1500;

/// The part of a scenario that can be emulated.
pub struct Emulated {
    /// The network. Its hosts and links stand in the order of the scenario's topology.
    pub grid: Grid,
    /// The scenario's further requirements, in words.
    pub left_out: Vec<String>,
}

/// The network of a plan as a grid, with the links' changes. Routers vanish: a path names the links that lead through
/// them, by the rule that the simulator has too. A host's MTU is the largest of its flows.
pub fn emulated(plan: &Plan, seed: u64) -> Emulated {
    let topology = &plan.topology;
    let hosts: Vec<(NodeId, &str)> = topology.nodes().filter(|(id, _)| topology.host_spec(*id).is_some()).collect();
    let link_numbers: BTreeMap<LinkId, usize> = topology.links().enumerate().map(|(at, (id, ..))| (id, at)).collect();
    let number = |link: &LinkId| link_numbers.get(link).copied();
    let mut routes = Routes::new(topology, hosts.iter().map(|(id, _)| *id));
    let mut paths = BTreeMap::new();
    for (from_number, (from, _)) in hosts.iter().enumerate() {
        for (to_number, (to, _)) in hosts.iter().enumerate().filter(|(_, (to, _))| to != from) {
            if let Some(path) = routes.path(*from, *to) {
                paths.insert((from_number, to_number), path.iter().filter_map(number).collect());
            }
        }
    }
    let links = topology.links().filter_map(|(id, name, ..)| {
        let spec = topology.link_spec(id)?.clone();
        Some(GridLink { name: name.to_owned(), spec })
    });
    let changes = plan.changes.iter().filter_map(|change| {
        let (link, what) = match change.what {
            WhatChanges::LinkRate(link, rate) => (link, LinkChange::Rate(Some(rate))),
            WhatChanges::LinkUp(link, up) => (link, LinkChange::Up(up)),
            WhatChanges::SendRate(..) | WhatChanges::ReceiveRate(..) | WhatChanges::Policy(..) => return None,
        };
        Some(Change { at: change.at.since(Time::ZERO), link: number(&link)?, what })
    });
    let mtus = mtus(plan);
    let host = |(id, name): &(NodeId, &str)| Host {
        name: (*name).to_owned(),
        mtu: mtus.get(id).copied().unwrap_or(MTU_DEFAULT),
    };
    let grid = Grid {
        hosts: hosts.iter().map(host).collect(),
        links: links.collect(),
        paths,
        changes: changes.collect(),
        seed,
    };
    Emulated { grid, left_out: left_out(plan) }
}

/// The largest packet of the flows from and to each host.
fn mtus(plan: &Plan) -> BTreeMap<NodeId, u16> {
    let flows = plan.flows.iter().map(|flow| (flow.sender, flow.receiver, flow.mtu));
    let web = plan.web.iter().map(|web| (web.sender, web.receiver, web.mtu));
    let mut mtus = BTreeMap::new();
    for (sender, receiver, mtu) in flows.chain(web) {
        for end in [sender, receiver] {
            let largest = mtus.entry(plan.endpoints[end].host).or_insert(mtu);
            *largest = mtu.max(*largest);
        }
    }
    mtus
}

/// The parts of a plan that neither the emulator nor a real network supports, in words.
pub(crate) fn left_out(plan: &Plan) -> Vec<String> {
    let mut left_out = Vec::new();
    let limited = |spec: &HostSpec| {
        let rate = spec.packet_rate.is_some() || spec.scheduler.is_some();
        rate || spec.send_buffer.is_some() || !spec.tasks.is_empty() || spec.noise.is_some()
    };
    for (id, name) in plan.topology.nodes() {
        if plan.topology.host_spec(id).is_some_and(limited) {
            left_out.push(format!(
                "host '{name}' has this machine's processors and buffers, not its packet_rate, send_buffer, tasks, noise and \
                 scheduler"
            ));
        }
    }
    if !plan.captures.is_empty() {
        left_out.push("packets are not captured: use tcpdump in a host".to_owned());
    }
    left_out
}

/// Why the emulator refuses links that mark packets: it can only drop them.
pub(crate) fn marks_refused(plan: &Plan) -> Option<String> {
    let topology = &plan.topology;
    let marks = |id| topology.link_spec(id).is_some_and(|spec| spec.queue.marks || spec.marking > Probability::ZERO);
    let (_, name, ..) = topology.links().find(|(id, ..)| marks(*id))?;
    Some(format!("link '{name}' has `ecn` or `marking`, which the emulator lacks: run the scenario in the simulator"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;
    use inhaul_base::{Bitrate, Span};

    fn emulated_of(text: &str) -> Emulated {
        let scenario = Scenario::parse_network("s.toml", text, &[]).unwrap();
        emulated(&scenario.cells[0].plan, 7)
    }

    const STAR: &str = r#"
        title = "star"
        duration = "9 s"
        [topology.star]
        access = { rate = "1 Gbit/s", delay = "1 ms" }
        senders = [{ name = "near", rtt = "20 ms" }, { name = "far", rtt = "80 ms" }]
    "#;

    #[test]
    fn emulated_needs_no_flows_and_has_the_paths_of_the_simulator() {
        let Emulated { grid, left_out } = emulated_of(STAR);
        assert_eq!((grid.check(), grid.seed, left_out), (Ok(()), 7, vec![]));
        let names: Vec<&str> = grid.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["receiver", "near", "far"], "and no router");
        let path = |from: &str, to: &str| -> Vec<&str> {
            let ends = (grid.find_host(from).unwrap(), grid.find_host(to).unwrap());
            grid.paths[&ends].iter().map(|link| grid.links[*link].name.as_str()).collect()
        };
        assert_eq!(path("near", "receiver"), ["near-link", "access"]);
        assert_eq!(path("far", "receiver"), ["far-link", "access"], "they share the access link");
        assert_eq!(path("receiver", "far"), ["access-back", "far-link-back"]);
        let delay: Span = grid.paths[&(2, 0)].iter().fold(Span::ZERO, |sum, link| sum + grid.links[*link].spec.delay);
        assert_eq!(delay, Span::from_millis(40));
        assert!(grid.hosts.iter().all(|host| host.mtu == MTU_DEFAULT));
    }

    #[test]
    fn marks_refused_names_the_link() {
        let refused = |fields: &str| {
            let text = STAR.replace("delay = \"1 ms\"", &format!("delay = \"1 ms\"{fields}"));
            marks_refused(&Scenario::parse_network("s.toml", &text, &[]).unwrap().cells[0].plan)
        };
        assert_eq!(refused(""), None);
        assert_eq!(refused(", codel = {}, ecn = false"), None);
        for fields in [", codel = {}, ecn = true", ", marking = \"1 %\""] {
            assert!(refused(fields).is_some_and(|why| why.contains("link 'access' has `ecn`")), "{fields}");
        }
    }

    #[test]
    fn emulated_takes_changes_of_links_and_the_mtu_of_flows_and_says_what_it_leaves_out() {
        let more = r#"
            [[hosts]]
            name = "receiver"
            packet_rate = 1000.0
            [[flows]]
            name = "f"
            protocol = "gtp"
            from = "near"
            to = "receiver"
            mtu = 9000
            [[changes]]
            at = "2 s"
            link = "access"
            rate = "10 Mbit/s"
            [[changes]]
            at = "3 s"
            flow = "f"
            receive_rate = "1 Mbit/s"
        "#;
        let Emulated { grid, left_out } = emulated_of(&format!("{STAR}{more}"));
        let mtus: Vec<u16> = grid.hosts.iter().map(|host| host.mtu).collect();
        assert_eq!(mtus, [9000, 9000, 1500]);
        let what = LinkChange::Rate(Some(Bitrate::from_mbps(10)));
        assert_eq!(grid.changes, [Change { at: Span::from_secs(2), link: 0, what }]);
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].contains("'receiver'"), "{left_out:?}");
    }
}
