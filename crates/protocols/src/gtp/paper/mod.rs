//! What gtp-2004 says of rates, to the letter: one flow's controller (4.1), its estimator (4.2), and when it takes
//! over targets (4.4).

mod controller;
mod estimator;
mod transition;

pub use controller::SingleFlowController;
pub use estimator::CapacityEstimator;
pub use transition::Plans;
