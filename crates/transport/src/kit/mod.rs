//! Parts that protocols share.

mod asked;
mod challenge;
mod connections;
pub mod division;
mod early_probes;
mod index;
mod loss_list;
mod max_min;
mod mtu_check;
mod object;
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

pub use asked::Asked;
pub use challenge::Challenges;
pub use connections::Connections;
pub use early_probes::{early_probes, echo_early, is_for_port};
pub use index::Index;
pub use loss_list::{LossList, compress, decompress};
pub use max_min::max_min;
pub use mtu_check::{MtuCheck, MtuStep, mtu_candidates};
pub use object::Object;
pub use pacer::Pacer;
pub use rate_limit::{RateLimit, RatePacer};
pub use rtt::RttEstimator;
pub use sorted_set::SortedSet;
pub use table::{Name, Table};
pub use windowed_min::WindowedMin;
