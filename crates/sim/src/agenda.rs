//! When what is due: the event queue, keyed (time, sequence).

use inhaul_base::Time;

/// Something that has at most one pending event: a link, an endpoint's deadline, a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComponentId(u32);

/// What a component is, and which one of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    /// The next packet arrives at a link's far end.
    Link(u32),
    /// An endpoint's deadline.
    Endpoint(u32),
    /// A host's processor has done a batch, or a competing task begins or ends.
    Host(u32),
    /// The thread of a host with noise runs.
    Thread(u32),
    /// A retransmission timer of a transfer's control stream.
    Control(u32),
    /// The next packet of a background traffic.
    Traffic(u32),
    /// The next change that was scheduled.
    Changes,
    /// The recorder's next sample.
    Recorder,
}

/// When a component is due, its place among those that are due with it (what was scheduled first comes first), and which one
/// it is: 64, 40 and 24 bits of one number, so that comparing two takes no branch that the processor could guess wrong.
type Key = u128;

const OWNER_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;
/// The key of what is not due at all.
const NEVER: Key = Key::MAX;

fn time(key: Key) -> Time {
    Time::from_nanos((key >> (OWNER_BITS + SEQUENCE_BITS)) as u64)
}

fn owner(key: Key) -> usize {
    (key & ((1 << OWNER_BITS) - 1)) as usize
}

/// The components by when they are due: a tournament among them, with one key each.
///
/// A link with a hundred thousand packets on it is one player, so the tree is as small as the network and stays in cache. A
/// tournament has more levels than a heap, but which way a key goes is known, and no level waits for a guess.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The winner of the pair below each node, from node 1 at the top; then, from `leaves` on, each component's key.
    tree: Vec<Key>,
    leaves: usize,
    components: Vec<Component>,
    sequence: u64,
}

impl Agenda {
    /// Makes a component known; nothing is pending for it yet.
    pub(crate) fn add(&mut self, component: Component) -> ComponentId {
        self.components.push(component);
        if self.components.len() > self.leaves {
            self.grow();
        }
        ComponentId(self.components.len() as u32 - 1)
    }

    fn grow(&mut self) {
        let leaves = self.components.len().next_power_of_two().max(2);
        let mut tree = vec![NEVER; 2 * leaves];
        tree[leaves..leaves + self.leaves].copy_from_slice(&self.tree[self.leaves..]);
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
        (self.tree, self.leaves) = (tree, leaves);
    }

    /// What is due next, and when. It stays pending until it is scheduled anew.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Time, Component)> {
        let first = *self.tree.get(1)?;
        (first < NEVER).then(|| (time(first), self.components[owner(first)]))
    }

    /// Has the component due at `at`, or not at all. A time that does not change keeps its place among equals.
    #[inline]
    pub(crate) fn schedule(&mut self, component: ComponentId, at: Option<Time>) {
        let leaf = self.leaves + component.0 as usize;
        match at.filter(|at| *at < Time::FAR_FUTURE) {
            Some(at) if time(self.tree[leaf]) == at => {}
            Some(at) => {
                self.sequence = (self.sequence + 1) & ((1 << SEQUENCE_BITS) - 1);
                let order = Key::from(self.sequence) << OWNER_BITS | Key::from(component.0);
                self.set(leaf, Key::from(at.as_nanos()) << (OWNER_BITS + SEQUENCE_BITS) | order);
            }
            None => self.set(leaf, NEVER),
        }
    }

    fn set(&mut self, mut node: usize, key: Key) {
        self.tree[node] = key;
        while node > 1 {
            let winner = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            // Who did not win before and does not now changes nothing further up.
            if self.tree[node] == winner {
                break;
            }
            self.tree[node] = winner;
        }
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tree.capacity() * size_of::<Key>() + self.components.capacity() * size_of::<Component>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn peek_equal_times_come_in_the_order_of_scheduling() {
        let mut agenda = Agenda::default();
        let ids: Vec<_> = (0..10).map(|k| agenda.add(Component::Link(k))).collect();
        for id in ids.iter().rev() {
            agenda.schedule(*id, Some(Time::from_nanos(5)));
        }
        // The same time again changes nothing; to be taken off and put back does.
        agenda.schedule(ids[9], Some(Time::from_nanos(5)));
        agenda.schedule(ids[8], None);
        agenda.schedule(ids[8], Some(Time::from_nanos(5)));
        let mut order = Vec::new();
        while let Some((_, Component::Link(k))) = agenda.peek() {
            order.push(k);
            agenda.schedule(ids[k as usize], None);
        }
        assert_eq!(order, [9, 7, 6, 5, 4, 3, 2, 1, 0, 8]);
    }

    proptest! {
        #[test]
        fn schedule_agrees_with_a_sorted_list(steps in prop::collection::vec((0..12u32, prop::option::of(0..20u64)), 1..200)) {
            let mut agenda = Agenda::default();
            let ids: Vec<_> = (0..12).map(|k| agenda.add(Component::Link(k))).collect();
            let mut model: Vec<Option<(u64, usize)>> = vec![None; 12];
            for (order, (k, at)) in steps.into_iter().enumerate() {
                agenda.schedule(ids[k as usize], at.map(Time::from_nanos));
                let kept = model[k as usize].filter(|(was, _)| Some(*was) == at);
                model[k as usize] = kept.or(at.map(|at| (at, order)));
                let first = (0..12).filter_map(|k| model[k].map(|key| (key, k))).min();
                let expected = first.map(|((at, _), k)| (Time::from_nanos(at), Component::Link(k as u32)));
                prop_assert_eq!(agenda.peek(), expected);
            }
        }
    }
}
