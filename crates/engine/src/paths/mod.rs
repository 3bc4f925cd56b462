//! How flows' data comes, over UDP or over TLS streams: what every receiver does about paths, whatever it receives for.
//!
//! `fallback` decides, `way` has what is known of a flow's ways, `callers` what peers bring that have dialled this host, and `Paths` does what was decided.

mod callers;
mod changing;
mod fallback;
mod way;

pub use callers::{Callers, Hall, NotAwaited};
pub use changing::{PathNews, Paths};
