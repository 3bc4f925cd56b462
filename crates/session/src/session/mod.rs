//! A session between a client and a server: one TCP connection that carries frames, from a server's name to the point
//! where data can flow.
//!
//! It knows what peers say to each other, and not what follows from it: it uses `api` and `system`, and neither the
//! engine nor a transfer, a server or a delegation.

pub mod agreement;
mod allowance;
pub mod backoff;
pub mod connect;
pub mod control_stream;
mod dial;
pub mod early;
pub mod early_path;
pub mod frame;
pub mod groups;
pub mod handshake;
pub mod patience;
pub mod peer_json;
pub mod proxy;
pub mod refusal;
pub mod secured;
pub mod slots;
pub mod tls;
pub mod tunnel_stream;
