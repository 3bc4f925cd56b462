//! Sealing: what of a datagram the way may read, and what it may change, which is nothing. See PROTOCOL.md.
//!
//! A flow whose control stream is secured has two secrets, one for each direction, which the stream has exported. A
//! [`Sealer`] seals what leaves: the packet number of the envelope is the nonce, the envelope the associated data, and
//! a tag of [`TAG_LEN`] bytes follows. The number is masked, so only the connection id can be read. An [`Opener`] opens
//! what comes, each number once. Keys change by the packet number alone, so the two sides cannot disagree on them.
//!
//! A port keeps the keys of its flows in [`Seals`]. Protocols know nothing of all this.

mod epoch;
mod opener;
mod sealer;
mod seals;
mod secrets;
#[cfg(test)]
mod tests;

pub use inhaul_transport::TAG_LEN;
pub use opener::Opener;
pub(crate) use opener::refuse;
pub use sealer::Sealer;
pub use seals::Seals;
pub use secrets::{FlowSecrets, SECRET_LEN, Secret, Suite};
