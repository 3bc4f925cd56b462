//! Measured capacities, and our share of them beside others' traffic (PROTOCOL.md 7): an addition to the paper, which
//! takes capacities as known.
//!
//! The law's input are each flow's rates and measurements of an interval ([`Sample`],
//! [`Interval`](crate::gtp::monitor::Interval)). Its output is [`Found`]: above all, estimates. It sends nothing and
//! changes no flow; it leaves [orders](found::Orders) for a flow's monitor.
//!
//! [`Capacities`] is the law of all flows together. Intervals are evaluated by `judgement` (of one flow), `ambient` and
//! `probe` (loss and delay that our rate does not cause), and `cross_traffic` (whether others fill a queue). The consequences
//! are in `bound` (knowledge of a capacity), `compete`, `rivalry` and `shadow` (sharing with TCP as one TCP flow),
//! `host_tcp` (the receiver's own TCP), `fixed` and `strain` (a rate that is held), and `train` (the first burst).

mod ambient;
mod bound;
mod capacities;
mod compete;
mod cross_traffic;
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
