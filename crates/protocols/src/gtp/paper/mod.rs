//! What gtp-2004 says of rates, to the letter: one flow's controller (4.1), its estimator (4.2), and what happens to
//! the rate of a flow that ends (4.4).

mod controller;
mod estimator;

pub use controller::SingleFlowController;
pub use estimator::CapacityEstimator;
