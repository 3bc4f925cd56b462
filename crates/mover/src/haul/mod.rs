//! A transfer at the receiver: from a request to files that are verified and have their names.
//!
//! It uses `session`, `engine`, `fetch_list`, `api` and `system`, and knows no server and no delegation.

pub(crate) mod destination;
pub(crate) mod digest_plan;
pub(crate) mod get;
mod list;
mod predict;
pub(crate) mod tally;
mod transfer;
mod verify;

pub use self::get::get;
pub(crate) use self::get::{Found, find_all};
pub use self::list::{in_full, list, list_checksums};
pub use self::predict::{Limit, Model, Prediction, predict};
