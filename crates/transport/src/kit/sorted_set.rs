//! A set that is nearly always small: what is to be looked after, and when.

use std::collections::BTreeSet;

/// Up to so many elements lie in an array.
const FEW_MAX: usize = 64;
/// From so few on they lie in an array again.
const MANY_MIN: usize = FEW_MAX / 4;

/// A set in order. While it is small it is an array whose memory is used again and again; every operation on a large one costs
/// O(log n), as a tree does.
#[derive(Clone, Debug)]
pub struct SortedSet<T> {
    /// Ascending. Empty while there are many.
    few: Vec<T>,
    many: BTreeSet<T>,
}

impl<T: Ord + Copy> SortedSet<T> {
    /// The empty set.
    pub const fn new() -> Self {
        Self { few: Vec::new(), many: BTreeSet::new() }
    }

    /// Adds an element; returns whether it is new.
    pub fn insert(&mut self, element: T) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(element);
        }
        let Err(at) = self.few.binary_search(&element) else { return false };
        self.few.insert(at, element);
        if self.few.len() > FEW_MAX {
            self.many = self.few.drain(..).collect();
        }
        true
    }

    /// Takes an element out; returns whether it was there.
    pub fn remove(&mut self, element: &T) -> bool {
        if self.many.is_empty() {
            let found = self.few.binary_search(element);
            return found.map(|at| self.few.remove(at)).is_ok();
        }
        let found = self.many.remove(element);
        self.shrink();
        found
    }

    /// The first element.
    pub fn first(&self) -> Option<&T> {
        self.few.first().or_else(|| self.many.first())
    }

    /// Takes the first element.
    pub fn pop_first(&mut self) -> Option<T> {
        if self.many.is_empty() {
            return (!self.few.is_empty()).then(|| self.few.remove(0));
        }
        let first = self.many.pop_first();
        self.shrink();
        first
    }

    /// Every element, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.few.iter().chain(&self.many)
    }

    fn shrink(&mut self) {
        if self.many.len() < MANY_MIN {
            self.few.extend(std::mem::take(&mut self.many));
        }
    }
}

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        Self { few: Vec::new(), many: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> Extend<T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| {
            self.insert(element);
        });
    }
}

impl<T: Ord + Copy> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut few: Vec<T> = elements.into_iter().collect();
        if few.len() > FEW_MAX {
            return Self { few: Vec::new(), many: few.into_iter().collect() };
        }
        few.sort_unstable();
        few.dedup();
        Self { few, many: BTreeSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Growing beyond the array and shrinking back, several times over.
        #[test]
        fn it_agrees_with_a_tree(
            rounds in prop::collection::vec((prop::collection::vec(0..400u32, 0..150), prop::collection::vec(0..400u32, 0..150), 0..150usize), 1..6),
        ) {
            let (mut set, mut model) = (SortedSet::new(), BTreeSet::new());
            for (added, removed, popped) in rounds {
                for element in added {
                    prop_assert_eq!(set.insert(element), model.insert(element));
                }
                prop_assert!(set.iter().eq(&model));
                let again: SortedSet<u32> = model.iter().rev().copied().collect();
                prop_assert!(again.iter().eq(&model));
                for element in removed {
                    prop_assert_eq!(set.remove(&element), model.remove(&element));
                }
                for _ in 0..popped {
                    prop_assert_eq!(set.first(), model.first());
                    prop_assert_eq!(set.pop_first(), model.pop_first());
                }
                prop_assert!(set.iter().eq(&model));
            }
        }
    }
}
