//! Parts that protocols share.

mod max_min;
mod object;
mod pacer;
mod rtt;
mod windowed_min;

pub use max_min::max_min;
pub use object::Object;
pub use pacer::Pacer;
pub use rtt::RttEstimator;
pub use windowed_min::WindowedMin;
