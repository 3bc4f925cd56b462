//! The rules of the house that a program can check: who may depend on whom, where `unsafe` may stand, how a lint is
//! silenced.
//!
//! Each rule is a function over text or metadata that returns what breaks it, so that each can be shown a bad example;
//! `tests/house.rs` applies them to the workspace itself.
#![forbid(unsafe_code)]

pub mod circles;
pub mod dependencies;
pub mod documents;
pub mod limits;
pub mod modules;
pub mod published;
pub mod rooms;
pub mod rules;
pub mod source;
mod tokens;
pub mod words;
