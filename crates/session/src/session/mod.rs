//! A session between a client and a server: one TCP connection that carries frames, from a server's name to the point
//! where data can flow.
//!
//! It knows what peers say to each other, and not what follows from it: it uses `api` and `system`, and neither the
//! engine nor a transfer, a server or a delegation.
//!
//! A greeting and the request leave together. A sender's endpoint accepts a flow as soon as it is offered, so its
//! Accept is in the flight that describes the data set. Messages of the server's transport that come before that wait
//! in the control stream for the flow. A client ends with Finish and does not wait for an answer.

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
