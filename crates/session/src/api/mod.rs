//! The public interface: options and requests, updates, reports and errors.
//!
//! Every room uses this one, so this one uses no other. Nothing here touches the network or starts a thread.

pub mod counters;
pub mod error;
pub mod fairness;
pub mod options;
pub mod overload;
pub mod proxy;
pub mod report;
pub mod request;
pub mod secrets;
pub mod service;
pub mod source;
pub mod stream_output;
pub mod tickets;
pub mod trust;
pub mod url;
