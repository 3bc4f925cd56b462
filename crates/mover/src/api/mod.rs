//! What a caller says and hears: options and requests, updates, reports and errors.
//!
//! Every room speaks of these, so this one uses none of them. Nothing here touches the network or starts a thread.

pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod source;
pub(crate) mod stream_output;
