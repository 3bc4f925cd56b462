//! The one real-time loop: datagrams, control streams and time, between endpoints and the network.
//!
//! It carries whatever an [`Application`] is for, and knows no transfer, server or delegation: it uses `session`,
//! `api` and `system`.

pub(crate) mod channel;
mod demux;
pub(crate) mod early_echoes;
pub(crate) mod endpoints;
mod event_loop;
mod ids;
pub(crate) mod listener;
pub(crate) mod net;
pub(crate) mod port;
pub(crate) mod probe;
pub(crate) mod seldom;
pub(crate) mod tunnel;
mod waiting;

pub(crate) use inhaul_udp::BodySource;

pub(crate) use self::event_loop::{Application, Deliveries, EndCause, Engine, PIECE_BYTES_MAX, PollResult, SourceLink};
pub(crate) use self::ids::{EndpointId, PortId};
pub(crate) use self::port::{Backlog, Sink};
