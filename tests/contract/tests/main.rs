//! Requirements on every transport protocol, and the claims of each, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod chaos;
mod contract;
mod duplicates;
mod early;
mod gtp;
mod gtp_rates;
mod haul;
mod host;
mod limits;
mod paths;
mod rbudp;
mod tcp;
mod udt;
