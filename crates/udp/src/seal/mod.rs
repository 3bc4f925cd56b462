//! Sealing: the network can read only a datagram's connection id, and can change nothing. See PROTOCOL.md.
//!
//! A flow with a secured control stream has two secrets, one for each direction, exported by the stream. A [`Sealer`]
//! seals outgoing datagrams: the envelope's packet number is the nonce, the envelope is the associated data, and a tag
//! of [`TAG_LEN`] bytes follows. The number is masked, so only the connection id can be read. An [`Opener`] opens
//! incoming datagrams, each number once. Keys change by packet number alone, so the two sides cannot disagree.
//!
//! A port keeps its flows' keys in [`Seals`]. Protocols know nothing of this.
//!
//! Sealing takes place between the batch and the socket, in the place of the checksum. The TLS connection exports the
//! secrets once (`ControlStream::take_flow_secrets`). Its cipher is the datagrams' too, so nothing more is agreed on.
//! When a flow begins, the engine enters its keys and adds the tag to its `PathSpec` (`Engine::admit`). The rest of a
//! flow that has ended is not sent: its keys are gone.

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
