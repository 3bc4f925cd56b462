//! An endpoint's state of each flow and object, by name.

use std::ops::Index;

use crate::{FlowId, ObjectId};

/// A name that is a number. The endpoint's user assigns names, mostly one after the other.
pub trait Name: Copy + Ord {
    /// The number.
    fn number(self) -> u32;
}

impl Name for FlowId {
    fn number(self) -> u32 {
        self.0
    }
}

impl Name for ObjectId {
    fn number(self) -> u32 {
        self.0
    }
}

/// A map in the order of names, with the methods of a tree's map. While names follow each other without gaps one is
/// found at the first guess; in any case in O(log n). Values stay where they are in memory; to add a name before
/// others moves 16 bytes for each.
///
/// Values that are not needed for a while can rest. Iterating over the awake values costs only their number, with any
/// number of resting ones.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    /// Ascending by name.
    entries: Vec<(K, Box<V>)>,
    /// The names that do not rest, ascending.
    awake: Vec<K>,
}

impl<K: Name, V> Table<K, V> {
    /// The empty table.
    pub const fn new() -> Self {
        Self { entries: Vec::new(), awake: Vec::new() }
    }

    /// Where a name stands, or would have to.
    fn find(&self, name: K) -> Result<usize, usize> {
        find(&self.entries, name)
    }

    /// The value of a name.
    pub fn get(&self, name: &K) -> Option<&V> {
        self.find(*name).ok().map(|at| &*self.entries[at].1)
    }

    /// The value of a name, to be changed.
    pub fn get_mut(&mut self, name: &K) -> Option<&mut V> {
        self.find(*name).ok().map(|at| &mut *self.entries[at].1)
    }

    /// Whether the name is known.
    pub fn contains_key(&self, name: &K) -> bool {
        self.find(*name).is_ok()
    }

    /// Enters a value, awake; returns the one that the name had before.
    pub fn insert(&mut self, name: K, value: V) -> Option<V> {
        self.wake(name);
        match self.find(name) {
            Ok(at) => Some(std::mem::replace(&mut *self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (name, Box::new(value)));
                None
            }
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &K) -> Option<V> {
        self.rest(*name);
        self.find(*name).ok().map(|at| *self.entries.remove(at).1)
    }

    /// The value of this name rests from now on.
    pub fn rest(&mut self, name: K) {
        if let Ok(at) = self.awake.binary_search(&name) {
            self.awake.remove(at);
        }
    }

    /// The value of this name, which is known, rests no longer.
    pub fn wake(&mut self, name: K) {
        if let Err(at) = self.awake.binary_search(&name) {
            self.awake.insert(at, name);
        }
    }

    /// What does not rest, in the order of names.
    pub fn awake(&self) -> impl Iterator<Item = (&K, &V)> {
        self.awake.iter().filter_map(|name| Some((name, self.get(name)?)))
    }

    /// What does not rest, to be changed, in the order of names.
    pub fn awake_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let mut entries = &mut self.entries[..];
        self.awake.iter().filter_map(move |name| {
            let at = find(entries, *name).ok()?;
            let (entry, rest) = std::mem::take(&mut entries)[at..].split_first_mut()?;
            entries = rest;
            Some((name, &mut *entry.1))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every name with its value, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter().map(|(name, value)| (name, &**value))
    }

    /// Every name with its value, to be changed, in order.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.entries.iter_mut().map(|(name, value)| (&*name, &mut **value))
    }

    /// Every value, in the order of names.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Every value, to be changed, in the order of names.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }
}

fn find<K: Name, V>(entries: &[(K, Box<V>)], name: K) -> Result<usize, usize> {
    let Some((first, _)) = entries.first() else { return Err(0) };
    // Each name before it takes a number of its own, so it stands no later than this.
    let latest = name.number().wrapping_sub(first.number()) as usize;
    match entries.get(latest) {
        Some((found, _)) if *found == name => Ok(latest),
        Some(_) => entries[..latest].binary_search_by_key(&name, |entry| entry.0),
        None => entries.binary_search_by_key(&name, |entry| entry.0),
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), awake: Vec::new() }
    }
}

impl<K: Name, V> Index<&K> for Table<K, V> {
    type Output = V;

    fn index(&self, name: &K) -> &V {
        self.get(name).expect("the name is known")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn copied((name, step): (&FlowId, &usize)) -> (FlowId, usize) {
        (*name, *step)
    }

    proptest! {
        /// With names in a row, with gaps, and at both ends of the numbers.
        #[test]
        fn it_agrees_with_a_tree(
            base in prop_oneof![Just(0u32), Just(1_000), Just(u32::MAX - 50)],
            steps in prop::collection::vec((0..50u32, 0..6u8), 1..200),
        ) {
            let (mut table, mut model, mut resting) = (Table::new(), BTreeMap::new(), BTreeSet::new());
            for (step, (name, what)) in steps.into_iter().enumerate() {
                let name = FlowId(base + name);
                match what {
                    0 => prop_assert_eq!(table.remove(&name), model.remove(&name)),
                    1 => {
                        table.rest(name);
                        resting.insert(name);
                    }
                    2 if model.contains_key(&name) => {
                        table.wake(name);
                        resting.remove(&name);
                    }
                    _ => {
                        prop_assert_eq!(table.insert(name, step), model.insert(name, step));
                        resting.remove(&name);
                    }
                }
                let awake: Vec<_> = model.iter().filter(|(name, _)| !resting.contains(*name)).map(copied).collect();
                prop_assert_eq!(table.awake().map(copied).collect::<Vec<_>>(), awake.clone());
                prop_assert_eq!(table.awake_mut().map(|(name, value)| (*name, *value)).collect::<Vec<_>>(), awake);
                for name in (0..50).map(|k| FlowId(base + k)).chain([FlowId(0), FlowId(u32::MAX)]) {
                    prop_assert_eq!(table.get(&name), model.get(&name));
                    prop_assert_eq!(table.get_mut(&name), model.get_mut(&name));
                    prop_assert_eq!(table.contains_key(&name), model.contains_key(&name));
                }
                prop_assert!(table.iter().eq(&model) && table.iter_mut().eq(&mut model));
                prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
