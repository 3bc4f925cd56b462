//! What ties a server to the service manager of its host, and to those who watch it.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use crate::api::counters::Counters;

/// How many sessions a server has at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// In all.
    pub all: usize,
    /// From one IPv4 address, or one IPv6 /64; `None`: a quarter of all.
    pub per_address: Option<usize>,
    /// Of one key or token; `None`: no limit of its own.
    pub per_client: Option<usize>,
}

impl SessionLimits {
    /// So many in all, and the usual part of them for each client.
    pub const fn of(all: usize) -> Self {
        Self { all, per_address: None, per_client: None }
    }
}

/// What the surroundings of a server give it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The sockets that a service manager has made; `None`: the server makes its own.
    pub sockets: Option<Arc<Inherited>>,
    /// Where the server counts.
    pub counters: Arc<Counters>,
    /// Where it finds its limits anew when it is asked to reload.
    pub limits: LimitsAnew,
}

/// Sockets that are bound and outlive the process: what comes in while no server runs waits in them.
#[derive(Debug)]
pub struct Inherited {
    /// Listens.
    pub tcp: TcpListener,
    /// Has the same address and port; `None`: the server makes it.
    pub udp: Option<UdpSocket>,
}

/// Reads limits, or says why they cannot be read.
type ReadLimits = dyn Fn() -> Result<SessionLimits, String> + Send + Sync;

/// Where limits are found anew.
#[derive(Clone, Default)]
pub struct LimitsAnew(Option<Arc<ReadLimits>>);

impl LimitsAnew {
    /// By this function, which is called on the data thread and must be quick.
    pub fn by(read: impl Fn() -> Result<SessionLimits, String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// The limits as they are now; `None` if they never change.
    pub fn read(&self) -> Option<Result<SessionLimits, String>> {
        self.0.as_ref().map(|read| read())
    }
}

impl std::fmt::Debug for LimitsAnew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LimitsAnew")
    }
}
