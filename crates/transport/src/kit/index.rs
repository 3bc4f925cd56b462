//! An index of flows by the connection ids of their datagrams.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::FlowId;

/// A map that remembers its last lookup: datagrams of one flow come one after the other, and should not cost a search
/// among thousands of flows each time.
#[derive(Clone, Debug)]
pub struct Index<K: Copy> {
    flows: BTreeMap<K, FlowId>,
    last: Cell<Option<(K, FlowId)>>,
}

impl<K: Ord + Copy> Index<K> {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Self { flows: BTreeMap::new(), last: Cell::new(None) }
    }

    /// The flow of this name.
    pub fn get(&self, name: &K) -> Option<FlowId> {
        if let Some((last, flow)) = self.last.get()
            && last == *name
        {
            return Some(flow);
        }
        let flow = *self.flows.get(name)?;
        self.last.set(Some((*name, flow)));
        Some(flow)
    }

    /// Whether the name is known.
    pub fn contains(&self, name: &K) -> bool {
        self.flows.contains_key(name)
    }

    /// The flow has this name from now on.
    pub fn insert(&mut self, name: K, flow: FlowId) {
        self.flows.insert(name, flow);
        self.last.set(None);
    }

    /// Forgets a name.
    pub fn remove(&mut self, name: &K) {
        self.flows.remove(name);
        self.last.set(None);
    }
}

impl<K: Ord + Copy> Default for Index<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_forgotten_or_given_anew_is_not_remembered() {
        let mut index = Index::new();
        index.insert(1, FlowId(10));
        index.insert(2, FlowId(20));
        assert_eq!(
            (index.get(&1), index.get(&1), index.get(&2)),
            (Some(FlowId(10)), Some(FlowId(10)), Some(FlowId(20)))
        );
        index.insert(2, FlowId(21));
        assert_eq!(index.get(&2), Some(FlowId(21)));
        index.remove(&2);
        assert_eq!((index.get(&2), index.contains(&1), index.contains(&2)), (None, true, false));
    }
}
