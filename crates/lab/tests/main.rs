//! The laboratory as its users see it.

mod experiments;
mod kernel_laws;
mod runs;
