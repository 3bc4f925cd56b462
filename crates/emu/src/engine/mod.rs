//! The emulator at work.

mod agenda;
mod assembly;
mod lateness;
mod network;
mod port;
mod run;
#[cfg(test)]
mod tests;

pub use lateness::Lateness;
#[cfg(test)]
pub(crate) use port::PortCounts;
pub(crate) use run::{Command, Engine, EngineReport};
