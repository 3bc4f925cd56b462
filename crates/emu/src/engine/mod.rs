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
pub(crate) use run::{Command, Engine, EngineReport};
