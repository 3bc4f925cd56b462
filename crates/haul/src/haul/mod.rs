//! A transfer at the receiver: from a request to files that are verified and have their names.
//!
//! It uses `session`, `engine`, `fetch_list`, `api` and `system`, and knows no server and no delegation.

pub mod destination;
pub mod digest_plan;
pub mod get;
mod list;
pub mod tally;
pub mod transfer;
mod verify;

pub use self::get::get;
pub use self::get::{Found, find_all};
pub use self::list::{in_full, list, list_checksums};
