//! What every transport protocol must do, and what each claims of itself, in virtual time.
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
