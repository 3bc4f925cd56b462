//! Capacities that nobody has told, and what others' traffic leaves of them (PROTOCOL.md 7): an addition to the paper,
//! which takes them as known.
//!
//! The law is told what each flow had and saw in an interval ([`Sample`], [`Interval`](crate::gtp::monitor::Interval)),
//! and says what it has [`Found`]: estimates above all. It sends nothing and writes into no flow; what it wants of a
//! flow's monitor it leaves as [orders](found::Orders).
//!
//! [`Capacities`] is the law of all flows together. Intervals are looked at by `judgement` (what an interval says of a
//! flow), `ambient` and `probe` (loss and delay that the rate is not to blame for), and `company` (whether others fill
//! a queue). What follows stands in `bound` (what a capacity is known to be), `compete`, `rivalry` and `shadow`
//! (sharing with TCP as one of it would), `host_tcp` (the receiver's own TCP), `fixed` and `strain` (a rate that is
//! held), and `train` (the first burst).

mod ambient;
mod bound;
mod capacities;
mod company;
mod compete;
mod fixed;
mod found;
mod host_tcp;
mod judgement;
mod member;
mod policy;
mod probe;
mod rivalry;
mod shadow;
mod strain;
#[cfg(test)]
mod tests;
mod train;

pub use bound::{Bound, MARGIN};
pub(super) use capacities::{Capacities, INTERVAL_MIN, Times};
pub(super) use compete::is_news;
pub(super) use fixed::judge as judge_fixed;
pub(super) use found::{BINDS, Found, Sample};
pub(super) use member::{Group, Member};
pub(super) use policy::Policy;
pub(super) use probe::PROBE;
pub(super) use train::Burst;
