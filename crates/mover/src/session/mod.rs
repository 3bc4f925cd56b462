//! A session between a client and a server: one TCP connection that carries frames, from a server's name to the point
//! where data can flow.
//!
//! It knows what peers say to each other, and not what follows from it: it uses `api` and `system`, and neither the
//! engine nor a transfer, a server or a delegation.

pub(crate) mod agreement;
mod allowance;
pub(crate) mod backoff;
pub(crate) mod connect;
pub mod control_stream;
mod dial;
pub(crate) mod early;
pub(crate) mod early_path;
pub mod frame;
pub(crate) mod groups;
pub(crate) mod handshake;
pub(crate) mod patience;
pub(crate) mod peer_json;
pub(crate) mod proxy;
pub(crate) mod refusal;
pub(crate) mod secured;
pub(crate) mod slots;
pub(crate) mod tls;
pub(crate) mod tunnel_stream;
