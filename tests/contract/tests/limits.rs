//! Users' limits must hold: R_send at the sender, also of single clients, C_r at the receiver, R_app for a flow,
//! headers included, for one flow and for three, also after changes during a transfer. Every registered protocol is
//! tried; each test prints its measurements.

use std::ops::Range;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_contract_tests::{ENDLESS, GIVEN_RATE};
use inhaul_link::{LinkSpec, QueueLimit};
use inhaul_protocols::registry::PROTOCOLS;
use inhaul_sim::{Branch, EndpointId, HostSpec, LinkId, NodeId, Simulation, Star, StarSpec, Topology, Transfer, star};
use inhaul_transport::{ClientRate, Command, EndpointConfig, FlowLimits, ObjectId, Protocol, Role};

/// Rate of every link on the path of data, several times any limit.
const LINK: Bitrate = Bitrate::from_mbps(100);
/// The limits, one after the other. The first is known from the beginning.
const LIMITS: [Bitrate; 3] = [Bitrate::from_mbps(20), Bitrate::from_mbps(10), Bitrate::from_mbps(30)];
/// Tenths of a second for which each is in force. BBR stops for 200 ms every 10 s.
const PERIOD: usize = 60;
/// Tenths of a second until a change shows everywhere: a message to the sender, and data in flight.
const UNTIL_LOWER: usize = 2;
/// Tenths of a second until a limit must have been reached: from nothing, or from a third of it.
const UNTIL_REACHED: usize = 15;

/// Three objects for one receiver, over paths of 20, 30 and 40 ms, from three senders or from one. Control streams are
/// apart.
struct Scene {
    sim: Simulation,
    star: Star,
    receiver: EndpointId,
    senders: Vec<EndpointId>,
}

#[derive(Clone, Copy, Default)]
struct Spec {
    /// Hosts that send ...
    senders: u64,
    /// ... and flows from each.
    flows: usize,
    send: Option<Bitrate>,
    /// The limit of each sender's clients, and the number of clients that its flows belong to, in turn.
    clients: Option<(Bitrate, u32)>,
    receive: Option<Bitrate>,
    application: Option<Bitrate>,
    /// Rate of the first sender's own link, if it is narrow.
    narrow: Option<Bitrate>,
}

impl Scene {
    fn new(protocol: &Protocol, spec: Spec) -> Self {
        let queued = |rate, delay| LinkSpec::drop_tail(rate, delay, QueueLimit::Bytes(500_000));
        let branch = |k| {
            let from_hub = LinkSpec { delay: delay(k), ..LinkSpec::ideal() };
            Branch {
                host: HostSpec::default(),
                to_hub: queued(spec.narrow.filter(|_| k == 0).unwrap_or(LINK), delay(k)),
                from_hub,
            }
        };
        let access = queued(LINK, Span::ZERO);
        let receiver = Branch { host: HostSpec::default(), to_hub: LinkSpec::ideal(), from_hub: access };
        let (mut topology, star) = star(&StarSpec { senders: (0..spec.senders).map(branch).collect(), receiver });
        let control = control_network(&mut topology, spec.senders);
        let mut sim = Simulation::new(topology, 1).unwrap();
        let build = |role, host_rate| {
            let flow_rate = Some(GIVEN_RATE);
            (protocol.build)(&EndpointConfig { host_rate, flow_rate, ..EndpointConfig::new(role, 1) }).expect("legal")
        };
        let receiver = sim.endpoint(star.receiver, build(Role::Receiver, spec.receive)).unwrap();
        let mut senders = Vec::new();
        let mut names = 0..;
        for (&host, &control_host) in star.senders.iter().zip(&control.0) {
            let sender = sim.endpoint(host, build(Role::Sender, spec.send)).unwrap();
            senders.push(sender);
            for name in names.by_ref().take(spec.flows) {
                let transfer = sim.transfer(Transfer {
                    name: format!("flow {name}"),
                    sender,
                    receiver,
                    object: ObjectId(name),
                    size: ENDLESS,
                    start: Time::ZERO,
                    stop: None,
                    leaves: false,
                    mtu: 1500,
                    limits: FlowLimits { application_rate: spec.application, link_rate: None },
                });
                let transfer = transfer.unwrap();
                sim.control_between(transfer, control_host, control.1).unwrap();
                if let Some((rate, clients)) = spec.clients {
                    sim.limit_client(transfer, ClientRate { client: u64::from(name % clients), rate }).unwrap();
                }
            }
        }
        Self { sim, star, receiver, senders }
    }

    /// Bytes that each of `links` carries in each tenth of a second of the next [`PERIOD`].
    fn carried(&mut self, links: &[LinkId]) -> Vec<Vec<u64>> {
        let mut carried = vec![Vec::new(); links.len()];
        let mut before: Vec<u64> = links.iter().map(|link| self.sim.link_stats(*link).carried.bytes).collect();
        for _ in 0..PERIOD {
            self.sim.run_until(self.sim.now() + Span::from_millis(100)).unwrap();
            for (k, link) in links.iter().enumerate() {
                let now = self.sim.link_stats(*link).carried.bytes;
                carried[k].push(now - std::mem::replace(&mut before[k], now));
            }
        }
        carried
    }

    /// Runs through [`LIMITS`]; `change` makes the command that brings the next into force. Judges what `link`
    /// carries.
    fn judge(&mut self, case: &str, link: LinkId, who: &[EndpointId], change: fn(Option<Bitrate>) -> Command) {
        for (k, limit) in LIMITS.into_iter().enumerate() {
            if k > 0 {
                who.iter().for_each(|endpoint| self.sim.command(*endpoint, change(Some(limit))).unwrap());
            }
            let carried = self.carried(&[link]);
            hold(&format!("{case}, limit {limit}"), limit, &carried[0], if k == 0 { 0 } else { UNTIL_LOWER }..PERIOD);
        }
        who.iter().for_each(|endpoint| self.sim.command(*endpoint, change(None)).unwrap());
        let free = rate(&self.carried(&[link])[0][UNTIL_REACHED..]);
        println!("{case}, limit lifted: {free:.2} Mbit/s");
        assert!(free > 2.0 * LIMITS[2].as_f64() / 1e6, "{case}: a limit that was lifted still holds: {free} Mbit/s");
        assert!(self.sim.failures().is_empty(), "{case}: {:?}", self.sim.failures());
    }
}

/// A network for control streams, with only the delays of the data's network.
fn control_network(topology: &mut Topology, senders: u64) -> (Vec<NodeId>, NodeId) {
    let receiver = topology.host("control of the receiver", HostSpec::default());
    let branch = |k| {
        let host = topology.host(format!("control of s{k}"), HostSpec::default());
        let link = LinkSpec { delay: delay(k), ..LinkSpec::ideal() };
        topology.duplex(&format!("control {k}"), host, receiver, link.clone(), link);
        host
    };
    ((0..senders).map(branch).collect(), receiver)
}

/// One way from sender `k` to the receiver.
fn delay(k: u64) -> Span {
    Span::from_millis(10 + 5 * k)
}

/// Mbit/s of these bytes in each tenth of a second.
fn rate(tenths: &[u64]) -> f64 {
    tenths.iter().sum::<u64>() as f64 * 80.0 / 1e6 / tenths.len() as f64
}

/// Within `judged`, no second has more than 2 % above the limit, and from [`UNTIL_REACHED`] on 90 % of it are reached.
fn hold(case: &str, limit: Bitrate, tenths: &[u64], judged: Range<usize>) {
    let limit = limit.as_f64() / 1e6;
    let most = tenths[judged].windows(10).map(rate).fold(0.0, f64::max);
    let reached = rate(&tenths[UNTIL_REACHED..]);
    println!("{case}: at most {most:.2} in a second, {reached:.2} Mbit/s once reached");
    assert!(most <= 1.02 * limit, "{case}: {most} Mbit/s in a second");
    assert!(reached >= 0.9 * limit, "{case}: {reached} Mbit/s");
}

#[test]
fn what_a_sender_may_send_is_kept() {
    for protocol in PROTOCOLS {
        for flows in [1, 3] {
            let spec = Spec { senders: 1, flows, send: Some(LIMITS[0]), ..Spec::default() };
            let mut scene = Scene::new(protocol, spec);
            let (link, senders) = (scene.star.paths[0].0, scene.senders.clone());
            let case = format!("{}, R_send, {flows} flows", protocol.name);
            scene.judge(&case, link, &senders, Command::LimitSend);
        }
    }
}

#[test]
fn what_a_client_may_be_sent_is_kept_by_its_flows_together() {
    for protocol in PROTOCOLS {
        // Three flows of one client, of three, of one beside another client's flow, and of three that share R_send.
        for (clients, send, together) in [(1, None, 10), (3, None, 30), (2, None, 20), (3, Some(20), 20)] {
            let (rate, send) = (Bitrate::from_mbps(10), send.map(Bitrate::from_mbps));
            let spec = Spec { senders: 1, flows: 3, clients: Some((rate, clients)), send, ..Spec::default() };
            let mut scene = Scene::new(protocol, spec);
            let carried = scene.carried(&[scene.star.paths[0].0]);
            let case = format!("{}, three flows of {clients} clients", protocol.name);
            hold(&case, Bitrate::from_mbps(together), &carried[0], 0..PERIOD);
            assert!(scene.sim.failures().is_empty(), "{case}: {:?}", scene.sim.failures());
        }
    }
}

#[test]
fn what_a_receiver_may_take_is_kept() {
    for protocol in PROTOCOLS {
        for senders in [1, 3] {
            let spec = Spec { senders, flows: 1, receive: Some(LIMITS[0]), ..Spec::default() };
            let mut scene = Scene::new(protocol, spec);
            let (link, receiver) = (scene.star.access.0, scene.receiver);
            let case = format!("{}, C_r, {senders} flows", protocol.name);
            scene.judge(&case, link, &[receiver], Command::LimitReceive);
        }
    }
}

#[test]
fn what_an_application_wants_is_kept_by_each_flow() {
    for protocol in PROTOCOLS {
        for senders in [1, 3] {
            let spec = Spec { senders, flows: 1, application: Some(LIMITS[0]), ..Spec::default() };
            let mut scene = Scene::new(protocol, spec);
            let links: Vec<_> = scene.star.paths.iter().map(|path| path.0).collect();
            for (k, carried) in scene.carried(&links).iter().enumerate() {
                hold(&format!("{}, R_app, flow {k} of {senders}", protocol.name), LIMITS[0], carried, 0..PERIOD);
            }
        }
    }
}

#[test]
fn what_a_narrow_path_leaves_of_it_goes_to_the_others() {
    for protocol in PROTOCOLS {
        let narrow = Bitrate::from_mbps(3);
        let receive = Some(LIMITS[0]);
        let spec = Spec { senders: 3, flows: 1, receive, narrow: Some(narrow), ..Spec::default() };
        let mut scene = Scene::new(protocol, spec);
        let links: Vec<_> = scene.star.paths.iter().map(|path| path.0).chain([scene.star.access.0]).collect();
        let carried = scene.carried(&links);
        hold(&format!("{}, C_r, one path of {narrow}", protocol.name), LIMITS[0], &carried[3], 0..PERIOD);
        let shares: Vec<_> = carried[..3].iter().map(|tenths| rate(&tenths[UNTIL_REACHED..])).collect();
        println!("{}: {shares:.2?} Mbit/s", protocol.name);
        assert!(shares[0] > 0.8 * 3.0 && (shares[1] / shares[2] - 1.0).abs() < 0.1, "{}: {shares:?}", protocol.name);
    }
}
