//! GTP's control as finite models, whose every state is visited (README.md): gtp-2004 leaves "formal proofs of system
//! convergence properties for our two level flow control schemes" to the future (sections 4.3 and 7).
//!
//! [`rates`] is the two-level control: SingleFlowController, CapacityEstimator and MaxMinScheduler, the code's own types,
//! on rates of whole units. [`transitions`] is the alignment of changes (4.4). [`explore`] visits the states, and finds
//! the sets that a run cannot leave. [`cases`] is the table.

pub mod cases;
pub mod explore;
pub mod rates;
pub mod transitions;
