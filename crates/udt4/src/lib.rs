//! UDT 4, the protocol of libudt 4, memory-safe: it speaks with programs that use libudt (shown with 4.11).
//!
//! UDT carries bulk data over UDP on fast, long paths: a stream of bytes, or messages with boundaries. Its specification
//! is draft-gg-udt-03. Where libudt differs from it, this crate does as libudt does.
//!
//! ```no_run
//! use inhaul_udt4::{Endpoint, Options};
//!
//! # fn main() -> Result<(), inhaul_udt4::UdtError> {
//! let endpoint = Endpoint::bind("0.0.0.0:0".parse().unwrap(), Options::default())?;
//! let socket = endpoint.connect("192.0.2.7:9000".parse().unwrap())?;
//! socket.write_all(b"hello")?;
//! socket.close()?; // waits until the other side has everything
//! # Ok(())
//! # }
//! ```
//!
//! - [`wire`]: packets. Parsing takes any bytes and never panics.
//! - [`handshake`]: how connections begin. A listener keeps nothing of clients that have not returned its cookie.
//! - [`connection`]: one end of a connection, without I/O and without a clock. UDT's own rules of sending and
//!   acknowledging are in [`inhaul_protocols::udt::core`].
//! - [`files`]: the file protocol of libudt's example programs.
//! - [`Endpoint`], [`Incoming`], [`Socket`]: all of it over a UDP port, as blocking calls.
//!
//! # Security
//!
//! UDT has no encryption and no authentication. An attacker who sees a connection's packets can forge others: data, or
//! its end. Other attackers must guess a socket id of 31 bits. The memory that a peer can make this end hold is bounded
//! by [`Options::receive_buffer`] for each connection, and by [`Options::connections_max`].
//!
//! # Not implemented
//!
//! The congestion control is UDT's own. There is no equivalent of libudt's `epoll` and `select`: a thread waits for each
//! socket.
#![forbid(unsafe_code)]

pub mod connection;
mod endpoint;
mod error;
pub mod files;
pub mod handshake;
mod options;
pub mod wire;

pub use connection::{End, Statistics};
pub use endpoint::{Endpoint, Incoming, MessageOptions, Socket};
pub use error::UdtError;
pub use handshake::ConnectError;
pub use options::Options;
pub use wire::Kind;

/// For the fuzzers alone: what hostile datagrams reach.
pub mod fuzzing {
    pub use crate::endpoint::Port;
}
