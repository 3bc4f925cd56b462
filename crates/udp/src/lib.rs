//! The socket engine: batches of datagrams between the kernel and a protocol's state machine, over Linux.
//!
//! It knows no protocol. It moves bytes with as few system calls and copies as the kernel allows:
//!
//! - A [`Socket`] is UDP over IPv4, IPv6 or both, with the buffers that the system gives, the don't-fragment bit, and
//!   segmentation and receive offload where there are any.
//! - A [`Transmitter`] sends a `TxBatch`: datagrams of equal length leave as one message, which the kernel segments. A
//!   [`BodySource`] reads their bodies in place, between the heads.
//! - Each datagram is sealed with the keys of its flow ([`seal`]), or carries a [`checksum`] if the flow has none. The
//!   transmitter adds it, and the receiver removes it.
//! - A [`Receiver`] receives a [`Batch`] of messages, for `Endpoint::handle_datagrams`, and then delivers their bodies
//!   to the `Place`s in the endpoint's answer. With a [`Window`], bodies are received directly in place.
//! - A [`Poller`] waits for sockets, wakers and deadlines of a [`Clock`], exact to the nanosecond if needed.
//! - A [`watch`] foresees when a thread will not run, and the rate that its host can take in.
//! - [`listen_tcp`] listens on all addresses of a host, with or without IPv6.
//! - [`thread`] pins and meters the thread; [`Interface`] describes the machine's links.
//!
//! The link emulator's kernel interface is here too: [`create_tun`], [`NetDevice`], [`unshare`], [`reap_child`]. So is
//! [`tcp_counts`], by which the laboratory measures its rival, the kernel's TCP.
//!
//! The mover's loop around them: wait; receive, and show the batch to the endpoint; deliver; drain the endpoint while
//! transmitting; and again.
//!
//! Unsafe code is in the `sys` module only, behind a safe interface.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the engine is where clocks are read and threads wait")]

pub mod checksum;
mod clock;
mod datagrams;
mod listening;
mod machine;
mod poller;
mod receive;
pub mod seal;
mod socket;
mod sys;
pub mod thread;
mod transmit;
pub mod watch;

pub use clock::Clock;
pub use datagrams::{DatagramSocket, Standing};
pub use listening::{lacks_ipv6, listen_tcp};
pub use machine::{Interface, written};
pub use poller::{Event, Interest, Poller, Waker};
pub use receive::{Batch, Delivery, Receiver, Window};
pub use socket::{Offload, Socket, SocketError, SocketOptions};
pub use sys::{Arrival, MESSAGES_MAX, Outgoing};
pub use sys::{DeviceOffloads, EndedChild, Namespaces, NetDevice, TunOffload, create_tun, reap_child, unshare};
pub use sys::{TcpCounts, limit_pacing, limit_packets, limit_unsent, tcp_counts};
pub use sys::{give_back_memory, is_input_closed, is_output_closed, keep_little_memory};
pub use transmit::{BodySource, MESSAGE_BYTES_MAX, SEGMENTS_MAX, SendError, Sent, Transmitter};
