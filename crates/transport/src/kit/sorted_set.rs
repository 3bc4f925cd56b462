//! A sorted set for schedules, whose front is read all the time.

use std::collections::BTreeSet;

/// Maximum number of elements in the array at the front.
const FEW_MAX: usize = 64;

/// A set in order. Its least elements lie in an array whose memory is reused, the others in a tree. Operations at the
/// front cost the same with any number of elements behind it: thousands of flows that are due in a minute slow nothing
/// down.
#[derive(Clone, Debug)]
pub struct SortedSet<T> {
    /// Descending, so that the front is where an array changes without moving the rest; and all of them less than those
    /// in `many`. Empty only if that is, too.
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
        if !self.many.is_empty() && self.few.first().is_some_and(|last| *last < element) {
            return self.many.insert(element);
        }
        let Err(at) = self.find(&element) else { return false };
        self.few.insert(at, element);
        if self.few.len() > FEW_MAX {
            self.many.extend(self.few.drain(..FEW_MAX / 2));
        }
        true
    }

    /// Takes an element out; returns whether it was there.
    pub fn remove(&mut self, element: &T) -> bool {
        match self.find(element) {
            Ok(at) => {
                self.few.remove(at);
                self.refill();
                true
            }
            Err(_) => self.many.remove(element),
        }
    }

    /// The first element.
    pub fn first(&self) -> Option<&T> {
        self.few.last()
    }

    /// Takes the first element.
    pub fn pop_first(&mut self) -> Option<T> {
        let first = self.few.pop();
        self.refill();
        first
    }

    /// Every element, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.few.iter().rev().chain(&self.many)
    }

    /// Where an element is in `few`, or would have to be: the front is looked at first.
    fn find(&self, element: &T) -> Result<usize, usize> {
        match self.few.last() {
            Some(first) if first == element => Ok(self.few.len() - 1),
            Some(first) if first > element => Err(self.few.len()),
            _ => self.few.binary_search_by(|other| element.cmp(other)),
        }
    }

    fn refill(&mut self) {
        if self.few.is_empty() && !self.many.is_empty() {
            let Self { few, many } = self;
            few.extend(std::iter::from_fn(|| many.pop_first()).take(FEW_MAX / 2));
            few.reverse();
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
        few.sort_unstable();
        few.dedup();
        let front = if few.len() > FEW_MAX { FEW_MAX / 2 } else { few.len() };
        let many = few.drain(front..).collect();
        few.reverse();
        Self { few, many }
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
