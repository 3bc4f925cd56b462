//! The laboratory as its users see it.

mod company;
mod experiments;
mod host_tcp;
mod kernel_laws;
mod runs;
