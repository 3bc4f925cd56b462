//! Transfers that one host orders and another carries out: puts and copies, at both ends.
//!
//! It uses `haul`, `paths`, `serve`, `session`, `engine`, `api` and `system`.

mod carrier;
mod copy;
mod delegated;
mod follow;
mod order;
mod places;
mod put;
mod retry;
mod serve;

pub use self::copy::copy;
pub use self::order::{Order, OrderError, OrderRule, Origin, SOURCES_MAX};
pub use self::put::put;
pub use self::serve::serve;
