//! The emulator's engine: devices, links in virtual time, and delivery.

mod agenda;
mod assembly;
mod lateness;
mod network;
mod port;
mod run;
mod segment;
#[cfg(test)]
mod tests;

pub use lateness::{LATENESS_MAX, Lateness};
#[cfg(test)]
pub(crate) use port::PortCounts;
pub(crate) use run::{Command, Engine, EngineReport};
