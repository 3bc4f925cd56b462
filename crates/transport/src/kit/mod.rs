//! Parts that protocols share.
//!
//! `receiver::Receiver` and `sender::Sender` are endpoints for any protocol. They keep objects and flows, open paths,
//! check addresses, answer probes, gather datagrams into runs, take requests, relieve slow mirrors, and run an agenda
//! by time. A protocol adds its data header, its state of a flow, and the methods of `Reception` and `Sending`: the
//! ranges to request, the meaning of data, the datagrams to send and their times. WIRE.md specifies the common
//! messages, and each PROTOCOL.md the rest.
//!
//! A datagram costs no walk over all flows. A resting flow is an entry in an ordered set and a probe every 15 seconds,
//! and GTP's central control does not look at it. Beside 10,000 resting flows, simulated, a busy flow's packet costs 17
//! to 19 % more than alone: their probes, and cache misses (`cargo run --release -p inhaul-interop-tests --bin speed --
//! --only idle`).

mod challenge;
mod connections;
pub mod division;
mod early_probes;
pub mod feedback;
mod index;
mod loss_list;
mod max_min;
mod meter;
mod mtu_check;
mod numbers;
mod object;
mod outstanding;
mod pacer;
pub mod path;
mod rate_limit;
pub mod receiver;
mod rtt;
pub mod sender;
mod sorted_set;
mod table;
mod windowed_min;
pub mod wire;

pub use challenge::Challenges;
pub use connections::Connections;
pub use early_probes::{early_probes, echo_early, is_for_port};
pub use index::Index;
pub use loss_list::{LossList, compress, decompress};
pub use max_min::max_min;
pub use meter::Meter;
pub use mtu_check::{MtuCheck, MtuStep, mtu_candidates};
pub use numbers::{Numbers, whole_number};
pub use object::Object;
pub use outstanding::Outstanding;
pub use pacer::Pacer;
pub use rate_limit::{RateLimit, RatePacer};
pub use rtt::RttEstimator;
pub use sorted_set::SortedSet;
pub use table::{Name, Table};
pub use windowed_min::WindowedMin;
