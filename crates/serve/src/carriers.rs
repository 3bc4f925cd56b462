//! The sessions whose datagrams may come by streams, because UDP does not pass.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_transport::FlowId;

/// The sessions whose datagrams streams may carry, by what those show. Those who greet look here, too, before a stream
/// gets a place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carriers(Arc<Mutex<BTreeMap<u128, FlowId>>>);

impl Carriers {
    /// Whether there is such a session.
    pub(crate) fn has(&self, token: u128) -> bool {
        self.lock().contains_key(&token)
    }

    pub(super) fn insert(&self, token: u128, flow: FlowId) {
        self.lock().insert(token, flow);
    }

    pub(super) fn remove(&self, token: u128) {
        self.lock().remove(&token);
    }

    pub(super) fn get(&self, token: u128) -> Option<FlowId> {
        self.lock().get(&token).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u128, FlowId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
