//! A shared network as a scenario (docs/scenario.md).

use std::fmt::Write;

use super::kind::{Contestant, Discipline, Place};
use super::network::{Change, Network, PACKET_BITS};

/// The name of the shared link.
pub(super) const BOTTLENECK: &str = "bottleneck";
/// The names of the contestant's flows begin with this; a number follows.
pub(super) const OWN: &str = "own";
/// The queue of links that are no bottleneck holds this much.
const WIDE_QUEUE: &str = "500 ms";

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

/// A link of the graph. The delay is one way.
struct Edge<'a> {
    name: &'a str,
    from: &'a str,
    to: &'a str,
    /// The fields of the link, without its delay.
    link: String,
    delay_ms: f64,
}

impl Network {
    /// The scenario as TOML, with a contestant in its place. All that is not the contestant's comes first and is the
    /// same for each: endpoints are numbered in this order, and their numbers choose their random numbers.
    pub fn scenario(&self, contestant: &Contestant) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "title = \"Shared network {}: {}, {}\"", self.seed, self.kind.name(), self.about());
        let _ = writeln!(text, "seed = {}\nduration = \"{} us\"", self.seed, micros(self.end_s));
        let record_ms = if self.rivals.is_empty() { 5 } else { 20 };
        let [from, to] = self.measure_s.map(micros);
        let _ = writeln!(text, "record = \"{record_ms} ms\"\nmeasure = {{ from = \"{from} us\", to = \"{to} us\" }}\n");
        self.topology(&mut text);
        self.write_rivals(&mut text);
        self.write_own(&mut text, contestant);
        self.write_background(&mut text);
        for turn in &self.course {
            let (at_s, what) = match turn {
                Change::Rate(at_s, bps) => (*at_s, format!("rate = \"{bps} bit/s\"")),
                Change::Up(at_s, up) => (*at_s, format!("up = {up}")),
            };
            let _ = writeln!(text, "\n[[changes]]\nat = \"{} us\"\nlink = \"{BOTTLENECK}\"\n{what}", micros(at_s));
        }
        text
    }

    /// The shared link. Jitter of a packet's time breaks the phases that a simulator's exact times cause.
    fn bottleneck(&self) -> String {
        let (bps, bytes) = (self.rate_bps, self.queue_packets * 1500);
        let packet_ns = (PACKET_BITS * 1e9 / bps as f64) as u64;
        let drops = match self.discipline {
            Discipline::Tail => String::new(),
            // Below a packet's time no queue is short enough (RFC 8289 4.3).
            Discipline::CoDel => format!(", codel = {{ target = \"{} us\" }}", (packet_ns * 3 / 2000).max(5_000)),
            Discipline::Red => {
                let (min, max) = (bytes as f64 / 6.0, bytes as f64 / 2.0);
                format!(", red = {{ min = {min:.1}, max = {max:.1}, probability = \"10 %\" }}")
            }
        };
        format!("rate = \"{bps} bit/s\", queue = \"{bytes} B\", jitter = \"{packet_ns} ns\"{drops}")
    }

    fn topology(&self, text: &mut String) {
        let side = |bps: u64| format!("rate = \"{bps} bit/s\", queue = \"{WIDE_QUEUE}\"");
        let wide = side(self.side_bps);
        let mut hosts: Vec<String> = Vec::new();
        let mut edges = String::new();
        let mut edge = |edge: &Edge<'_>| {
            let delay = format!("delay = \"{} us\"", (edge.delay_ms * 1e3) as u64);
            let link = if edge.link.is_empty() { String::new() } else { format!("{}, ", edge.link) };
            let ends = format!("name = \"{}\", from = \"{}\", to = \"{}\"", edge.name, edge.from, edge.to);
            let back =
                if edge.name == BOTTLENECK { format!(", back = {{ {} }}", side(self.rate_bps)) } else { String::new() };
            let _ = writeln!(edges, "  {{ {ends}, link = {{ {link}{delay} }}{back} }},");
        };
        edge(&Edge { name: BOTTLENECK, from: "left", to: "right", link: self.bottleneck(), delay_ms: 0.0 });
        let inner = self.place == Place::Inner;
        if inner {
            edge(&Edge { name: "access", from: "right", to: "home", link: side(self.access_bps), delay_ms: 0.0 });
        }
        let mut pair = |sender: &str, receiver: &str, into: &str, out: &str, link: String, rtt_ms: f64| {
            hosts.push(sender.to_owned());
            edge(&Edge { name: &format!("{sender}-link"), from: sender, to: into, link, delay_ms: rtt_ms / 2.0 });
            if !hosts.iter().any(|host| host == receiver) {
                hosts.push(receiver.to_owned());
                let name = format!("{receiver}-link");
                edge(&Edge { name: &name, from: out, to: receiver, link: String::new(), delay_ms: 0.0 });
            }
        };
        for (k, rival) in (1..).zip(&self.rivals) {
            pair(&format!("r{k}-sender"), &format!("r{k}-receiver"), "left", "right", wide.clone(), rival.rtt_ms);
        }
        if let Some(web) = &self.web {
            pair("web-sender", "web-receiver", "left", "right", wide.clone(), web.rtt_ms);
        }
        if self.udp.is_some() {
            pair("udp-sender", "udp-receiver", "left", "right", wide.clone(), self.rtt_ms());
        }
        for (k, own) in self.own.iter().enumerate() {
            let is_crossing = k < self.crossing;
            let limited = own.link_bps < self.rate_bps;
            let link = if limited { self.limited(own.link_bps) } else { side(own.link_bps) };
            let (into, out) = (if is_crossing { "left" } else { "right" }, if inner { "home" } else { "right" });
            pair(&format!("{OWN}{}-sender", k + 1), &self.receiver(k), into, out, link, own.rtt_ms);
        }
        let quoted: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        let routers = if inner { "\"left\", \"right\", \"home\"" } else { "\"left\", \"right\"" };
        let _ = writeln!(text, "[topology.graph]\nhosts = [{}]\nrouters = [{routers}]", quoted.join(", "));
        let _ = writeln!(text, "links = [\n{edges}]");
    }

    /// A sender's own link that is a bottleneck itself: a queue of 20 ms.
    fn limited(&self, bps: u64) -> String {
        let packet_ns = (PACKET_BITS * 1e9 / bps as f64) as u64;
        let queue_us = 20_000.max(20 * packet_ns / 1000);
        format!("rate = \"{bps} bit/s\", queue = \"{queue_us} us\", jitter = \"{packet_ns} ns\"")
    }

    fn receiver(&self, own: usize) -> String {
        match self.place {
            Place::Dumbbell => format!("{OWN}{}-receiver", own + 1),
            Place::Receiver | Place::Inner => format!("{OWN}-receiver"),
        }
    }

    fn write_rivals(&self, text: &mut String) {
        for (k, rival) in (1..).zip(&self.rivals) {
            let _ = writeln!(text, "\n[[flows]]\nname = \"r{k}\"\nprotocol = \"{}\"", rival.protocol);
            let _ = writeln!(text, "from = \"r{k}-sender\"\nto = \"r{k}-receiver\"\nbackground = true");
            let _ = writeln!(text, "start = \"{} us\"", micros(rival.start_s));
            if let Some(stop_s) = self.leave_s {
                let _ = writeln!(text, "stop = \"{} us\"", micros(stop_s));
            }
        }
    }

    fn write_own(&self, text: &mut String, contestant: &Contestant) {
        let parameters = if contestant.is_told() {
            Some("control = \"paper\"".to_owned())
        } else {
            // It has no default: such protocols are for paths without other traffic, and are told the rate of these.
            contestant.has("rate").then(|| format!("rate = \"{} bit/s\"", self.rate_bps))
        };
        for (k, own) in self.own.iter().enumerate() {
            let number = k + 1;
            let _ = writeln!(text, "\n[[flows]]\nname = \"{OWN}{number}\"\nprotocol = \"{}\"", contestant.protocol);
            let _ = writeln!(text, "from = \"{OWN}{number}-sender\"\nto = \"{}\"", self.receiver(k));
            let _ = writeln!(text, "start = \"{} us\"", micros(own.start_s));
            if let Some(stop_s) = own.stop_s {
                let _ = writeln!(text, "stop = \"{} us\"", micros(stop_s));
            }
            if let Some(parameters) = &parameters {
                let _ = writeln!(text, "parameters = {{ {parameters} }}");
            }
            if contestant.is_told() {
                let inner = self.place == Place::Inner;
                let path = if k < self.crossing { own.link_bps.min(self.rate_bps) } else { own.link_bps };
                let _ = writeln!(text, "link_rate = \"{path} bit/s\"");
                let receive = if inner { self.access_bps } else { self.rate_bps };
                let _ = writeln!(text, "receive_rate = \"{receive} bit/s\"");
            }
        }
    }

    fn write_background(&self, text: &mut String) {
        if let Some(web) = &self.web {
            let _ = writeln!(text, "\n[[background.web]]\nname = \"web\"");
            let _ = writeln!(text, "protocol = \"{}\"", Contestant::REFERENCE);
            let _ = writeln!(text, "from = \"web-sender\"\nto = \"web-receiver\"\nshape = 1.3");
            let _ = writeln!(text, "arrivals_per_s = {:.3}\nmean_size = \"{} B\"", web.arrivals_per_s, web.mean_bytes);
        }
        if let Some(udp) = &self.udp {
            let _ = writeln!(text, "\n[[background.udp]]\nfrom = \"udp-sender\"\nto = \"udp-receiver\"");
            let _ = writeln!(text, "rate = \"{} bit/s\"", udp.bps);
            if let Some((on_s, off_s, random)) = udp.spells {
                let (on, off) = (micros(on_s), micros(off_s));
                let _ = writeln!(text, "on = \"{on} us\"\noff = \"{off} us\"\nrandom = {random}");
            }
        }
    }
}
