//! Remote data as if it were local: a client that reads and fetches from `inhaul` servers, and a server to embed.
//!
//! ```
//! use inhaul::{Client, Server};
//!
//! # fn main() -> Result<(), inhaul::Error> {
//! # let dir = std::env::temp_dir().join(format!("inhaul-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # std::fs::write(dir.join("hello"), b"hello, far away").unwrap();
//! let server = Server::builder().offer(&dir).public().listen(([127, 0, 0, 1], 0)).start()?;
//!
//! let client = Client::builder().build()?;
//! let data_set = client.open(&server.address_of("hello"))?;
//! assert_eq!(data_set.read("", 7..15)?, b"far away");
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Client`] has one data thread, and its receiver shares one path fairly among all its reads.
//! - A [`DataSet`] is open: its description is here, and its sessions with all mirrors stay. So a read takes one round
//!   trip. [`DataSet::read_ranges`] sends many ranges in one request, and takes no more than their bytes, rounded to
//!   chunks of 1 KiB, and what proves them.
//! - Every byte is proven before it is handed out: against the server's hashes, or against hashes that the user knows
//!   ([`Client::open_pinned`]); then no server can make a wrong byte pass.
//! - A [`Handle`] is a future, of no particular runtime; or it is joined. It tells how far it is, and ends at once when
//!   it is cancelled or dropped.
//!
//! Nothing is printed, no limit of the process is raised, and no signal is caught. Messages go to the `log` crate.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

mod client;
mod data_set;
mod server;
mod transfer;

pub use client::{Client, ClientBuilder, Fallback};
pub use data_set::{DataSet, File, Item, ItemKind};
pub use inhaul_base::Bitrate;
/// The BLAKE3 hash of a file.
pub use inhaul_mover::Hash;
pub use inhaul_mover::{
    Buffers, ErrorKind, Existing, Handle, Listed, ListedKind, MoveError as Error, Policy, PolicyDial, Progress,
    ReadDestination as Destination, ReadProgress, Report, SetStats as Stats, Stop, Timestamp,
};
pub use server::{Server, ServerBuilder};
pub use transfer::{GetBuilder, PutBuilder, Transfer};
