//! The laboratory as its users see it.

mod company;
mod experiments;
mod kernel_laws;
mod runs;
