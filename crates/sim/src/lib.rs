//! A network in virtual time: links, routers and hosts that carry the same [`Endpoint`](inhaul_transport::Endpoint)s
//! that move real data, at the speed of the processor and deterministic to the last bit.
//!
//! A [`Topology`] describes the network; a [`Simulation`] runs it with a seed. Endpoints are put on hosts, a
//! [`Transfer`] joins two of them, and [`Simulation::run_until`] lets time pass. No protocol is known here: an endpoint
//! is driven by [`inhaul_transport::drain`] only, as the socket engine drives it.
//!
//! **Time.** Things happen in the order of (time, sequence), with time in whole nanoseconds; every component has a
//! random stream of its own. The same topology, calls and seed give the same [`Simulation::trace`] on any machine. A
//! simulation runs on one thread and may be moved between threads.
//!
//! **Packets** carry the head that the protocol wrote and the range of the object that follows it, not the bytes of
//! the range. Every [`Place`](inhaul_transport::Place) is checked against the sent range; an endpoint that places a
//! byte wrongly or twice ends the run with a [`SimError`].
//!
//! **Not modelled:** the cost of sending at a host (only its first link bounds it, and loses packets that its queue
//! does not hold unless the host has a `send_buffer`); the operating system's own share of a host, except for
//! interrupts on a host with a scheduler (control streams wait for the processor like everything else); IPv6; MTUs,
//! links take packets of any size; selective acknowledgement in control streams, and their set-up: they stand when a
//! transfer starts.
//!
//! **Speed.** The cost of a simulation is mostly waiting for memory, because thousands of flows and datagrams do not
//! stay in a cache. A packet takes some hundred bytes at any length. The fields that an arrival reads are one cache
//! line, and several are prefetched. Each component (link, host, stream) has one entry in the event queue, which is a
//! tournament of four keys a line. Flows are in tables that find a name at the first guess (`transport::kit::Table`).
//! Range sets hold their last range in themselves.
//!
//! **Referee.** A false `Complete`, or an endpoint that does not let time pass, also ends the run with an error.
#![forbid(unsafe_code)]

mod addresses;
mod agenda;
mod capture;
mod changes;
mod control;
mod error;
mod faults;
mod host;
mod host_tcp;
mod ids;
mod interface;
mod interrupts;
mod ledger;
mod network;
mod noise;
mod packet;
mod process;
mod recorder;
mod routes;
mod run;
mod scheduler;
mod shapes;
mod simulation;
mod spell;
mod streams;
mod threads;
mod topology;
mod traffic;
mod transfer;

pub use changes::Change;
pub use error::{SimError, TopologyError};
pub use host::{CompetingTask, HostSpec, HostStats};
pub use ids::{EndpointId, LinkId, NodeId, TrafficId, TransferId};
pub use interrupts::InterruptSpec;
pub use noise::{HostNoise, Stall};
pub use recorder::{LinkSample, RecorderSpec, Sample, write_csv, write_json};
pub use scheduler::{EevdfSpec, Monitor, O1Spec, Quota, SchedulerKind, SchedulerSpec, TASKS_MAX, Task};
pub use shapes::{
    Branch, Dumbbell, DumbbellSpec, Pair, ParkingLot, ParkingLotSpec, Star, StarSpec, dumbbell, parking_lot, star,
};
pub use simulation::Simulation;
pub use spell::Spell;
pub use topology::Topology;
pub use traffic::{Pattern, TrafficStats, UdpTraffic};
pub use transfer::{Failure, Transfer};
