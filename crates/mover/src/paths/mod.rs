//! How flows' data comes, over UDP or over TLS streams: what every receiver does about paths, whatever it receives for.
//!
//! [`fallback`] decides, [`way`] has what is known of a flow's ways, and [`Paths`] does what was decided.

mod changing;
mod fallback;
mod way;

pub(crate) use changing::{PathNews, Paths};
pub(crate) use way::Way;
