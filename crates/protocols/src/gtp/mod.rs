//! GTP
pub mod controller;
pub mod estimator;
pub mod wire;
