//! Setting up a connection, without I/O and without a clock: packets and times in, packets and an [`Agreement`] out.
//!
//! ```text
//! client                       listener            one side                      other side
//!   Request, cookie 0 ----------->                   Rendezvous ------------------->
//!   <----------- Request, cookie C                   <------------------- Agreement
//!   Agreement, cookie C ---------->                  Agreement -------------------->
//!   <-- Agreement, socket, sequence                  <---------------- Confirmation
//! ```
//!
//! Each side repeats its last handshake every 250 ms until the next one comes. A listener keeps nothing of a client
//! that has not shown its cookie ([`Listener`]).

mod agreement;
mod connecting;
mod listener;
#[cfg(test)]
mod tests;

pub use agreement::{Agreement, ConnectError, MSS_MIN, Terms, WINDOW_MAX};
pub use connecting::{Connecting, Progress};
pub use listener::{Answer, Listener};
