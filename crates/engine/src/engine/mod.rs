//! The one real-time loop: datagrams, control streams and time, between endpoints and the network.
//!
//! It carries whatever an [`Application`] is for, and knows no transfer, server or delegation: it uses `session`,
//! `api` and `system`.
//!
//! One data thread does sockets, control streams and timers in turn, each for a bounded time. An endpoint sends at most
//! 1 MiB before the rest gets its turn, at any rate that peers ask for. A control stream is looked at after something
//! was written to it. Nothing on this thread waits for a disk, except the write itself. Set-up of a session, directory
//! scans and hashing are threads beside it, which talk through channels and a waker.
//!
//! A server that is told to stop gives its port to a successor. The engine makes a connected socket for each flow
//! (`Engine::branch_off`), and the kernel prefers these to any socket that takes all.

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
