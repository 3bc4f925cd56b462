//! The one real-time loop: datagrams, control streams and time, between endpoints and the network.
//!
//! It carries whatever an [`Application`] is for, and knows no transfer, server or delegation: it uses `session`,
//! `api` and `system`.

pub(crate) mod channel;
mod demux;
pub mod early_echoes;
pub mod endpoints;
mod event_loop;
mod ids;
pub mod listener;
pub mod net;
pub mod port;
pub mod probe;
pub mod seldom;
mod source_queue;
pub mod tunnel;
mod waiting;

pub use inhaul_udp::BodySource;

pub use self::event_loop::{Application, EndCause, Engine, PollResult};
pub use self::ids::{EndpointId, PortId};
pub use self::port::{Backlog, Sink};
pub use self::source_queue::{Deliveries, PIECE_BYTES_MAX, SourceLink};
