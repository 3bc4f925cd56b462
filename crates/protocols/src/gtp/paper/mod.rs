//! The rate control of gtp-2004, exactly as published: one flow's controller (4.1), its estimator (4.2), and the time
//! at which it takes over targets (4.4).

mod controller;
mod estimator;
mod transition;

pub use controller::SingleFlowController;
pub use estimator::CapacityEstimator;
pub use transition::Plans;
