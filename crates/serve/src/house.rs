//! A server, to those who greet its clients: what it offers, who may have it, and how many.

use std::sync::Arc;

use crate::budget::Budget;
use crate::carriers::Carriers;
use crate::catalogue::Catalogue;
use crate::gate::Gate;
use crate::orders::Orders;
use crate::passes::Passes;
use inhaul_engine::engine::probe::ProbeDesk;
use inhaul_session::api::counters::Counters;
use inhaul_session::api::options::NetOptions;
use inhaul_session::session::slots::Slots;

/// What a server has for its clients.
#[derive(Clone, Debug)]
pub enum Service {
    /// Data sets, and what it fetches for them if it does.
    Files(Arc<Catalogue>, Option<Arc<dyn Orders>>),
    /// Benches.
    Bench,
}

/// A server, to those who greet its clients.
#[derive(Clone, Debug)]
pub(crate) struct House {
    pub(crate) service: Service,
    /// Who may have what.
    pub(crate) gate: Arc<Gate>,
    /// Parameters of transports that this host's user has set.
    pub(crate) net: Arc<NetOptions>,
    pub(crate) udp_port: u16,
    /// Where clients are admitted that only try the path.
    pub(crate) desk: Arc<ProbeDesk>,
    /// The places for those who are let in.
    pub(crate) slots: Arc<Slots>,
    /// The rights of those who are.
    pub(crate) passes: Arc<Passes>,
    pub(crate) counters: Arc<Counters>,
    /// The sessions that streams may belong to.
    pub(crate) tunnels: Carriers,
    /// Memory for orders that are being read.
    pub(crate) orders_being_read: Arc<Budget>,
}
