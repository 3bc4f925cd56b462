//! Headings of the options that several commands have.

pub(crate) const RATES: &str = "Rate options";
pub(crate) const TRANSPORT: &str = "Transport options";
pub(crate) const FILES: &str = "File options";
pub(crate) const OUTPUT: &str = "Output options";
pub(crate) const SERVER: &str = "Server options";
