//! The only first-party unsafe code: thin wrappers of system calls that no safe crate offers.
//!
//! Every function that leaves this module is safe to call with any arguments.
#![allow(unsafe_code, reason = "system calls with raw memory; see the module's documentation")]

mod address;
mod device;
mod heap;
mod interfaces;
mod message;
mod namespace;
mod netlink;
mod option;
mod slice;
mod standard;
mod switches;
mod tcp;
mod usage;

pub use device::{DeviceOffloads, NetDevice, TunOffload, create_tun};
pub use heap::{give_back_memory, keep_little_memory};
pub(crate) use interfaces::interface_addresses;
pub(crate) use message::receive;
pub(crate) use message::send;
pub use message::{Arrival, MESSAGES_MAX, Outgoing};
pub use namespace::{EndedChild, Namespaces, reap_child, unshare};
pub(crate) use option::{option, set_option};
pub(crate) use slice::{set_idle, set_slice};
pub use standard::{is_input_closed, is_output_closed};
pub(crate) use switches::{Switch, SwitchRing};
pub use tcp::{TcpCounts, limit_pacing, limit_packets, limit_unsent, tcp_counts};
pub(crate) use usage::voluntary_switches;
