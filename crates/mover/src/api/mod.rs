//! The public interface: options and requests, updates, reports and errors.
//!
//! Every room uses this one, so this one uses no other. Nothing here touches the network or starts a thread.

pub(crate) mod counters;
pub(crate) mod error;
pub(crate) mod fairness;
pub(crate) mod options;
pub(crate) mod overload;
pub(crate) mod proxy;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod secrets;
pub(crate) mod service;
pub(crate) mod source;
pub(crate) mod stream_output;
pub(crate) mod tickets;
pub(crate) mod trust;
pub(crate) mod url;
