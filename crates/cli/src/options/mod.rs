//! Options that several commands share. This module uses no command.

mod address;
mod fetch;
mod headings;
mod network;
mod patterns;
mod retry;
mod security;
mod values;
mod wait;

pub(crate) use address::{Advertised, advertised, destination, is_remote, path, server, source};
pub(crate) use fetch::{ExistingArg, Fetch, Selection};
pub(crate) use headings::{FILES, OUTPUT, RATES, SERVER};
pub(crate) use network::{
    Carrier, Transport, Wire, check_policy, check_repeated, contradict, net_options, policy_of_server,
};
pub(crate) use patterns::Patterns;
pub(crate) use retry::Retry;
pub(crate) use security::{ProxyChoice, Security};
pub(crate) use values::{Checksum, addresses_of, any_address, key_and_value, listen_address, parameter, seconds};
pub(crate) use wait::WaitArg;
