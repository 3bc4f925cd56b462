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
    /// A retransmission timer of a transfer's control stream.
    Control(u32),
    /// The next packet of a background traffic.
    Traffic(u32),
    /// The next change that was scheduled.
    Changes,
    /// The recorder's next sample.
    Recorder,
}

/// When an entry is due, in the upper half, and its place among those that are due with it: what was scheduled first comes
/// first. One number is compared without a branch that the processor could guess wrong.
type Key = u128;

/// The key of what is not due at all.
const NEVER: Key = Key::MAX;
/// The position of a component that has nothing pending.
const NOWHERE: u32 = u32::MAX;
/// Children of a heap entry: their keys lie in one or two cache lines.
const ARITY: usize = 4;

fn key(at: Time, sequence: u64) -> Key {
    Key::from(at.as_nanos()) << 64 | Key::from(sequence)
}

fn time(key: Key) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

/// The components by when they are due: an indexed 4-ary heap with one entry each.
///
/// A link with a hundred thousand packets on it is one entry, so the heap is as small as the network and stays in cache.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The heap: first the root, then groups of four, the children of each entry in order. Filled up with [`NEVER`] to whole
    /// groups, so that a group is looked at without asking how many there are.
    keys: Vec<Key>,
    /// The component of each key.
    owners: Vec<u32>,
    /// Entries of the heap that are pending.
    len: usize,
    /// Where each component's entry is.
    positions: Vec<u32>,
    components: Vec<Component>,
    sequence: u64,
}

impl Agenda {
    /// Makes a component known; nothing is pending for it yet.
    pub(crate) fn add(&mut self, component: Component) -> ComponentId {
        self.components.push(component);
        self.positions.push(NOWHERE);
        // Room for one more entry, to the end of its group.
        let needed = 1 + self.components.len().next_multiple_of(ARITY);
        self.keys.resize(needed, NEVER);
        self.owners.resize(needed, 0);
        ComponentId(self.components.len() as u32 - 1)
    }

    /// What is due next, and when. It stays pending until it is scheduled anew.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Time, Component)> {
        let first = *self.keys.first()?;
        (first < NEVER).then(|| (time(first), self.components[self.owners[0] as usize]))
    }

    /// Has the component due at `at`, or not at all. A time that does not change keeps its place among equals.
    #[inline]
    pub(crate) fn schedule(&mut self, component: ComponentId, at: Option<Time>) {
        let position = self.positions[component.0 as usize];
        let pending = position != NOWHERE;
        match at.filter(|at| *at < Time::FAR_FUTURE) {
            Some(at) if pending && time(self.keys[position as usize]) == at => {}
            Some(at) => self.set(position, at, component),
            None if pending => self.remove(position as usize),
            None => {}
        }
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<Key>()
            + (self.owners.capacity() + self.positions.capacity()) * size_of::<u32>()
            + self.components.capacity() * size_of::<Component>()
    }

    fn set(&mut self, position: u32, at: Time, component: ComponentId) {
        self.sequence += 1;
        let key = key(at, self.sequence);
        let gap = if position == NOWHERE { self.len } else { position as usize };
        self.len += usize::from(position == NOWHERE);
        self.place(gap, key, component.0);
    }

    fn remove(&mut self, position: usize) {
        self.positions[self.owners[position] as usize] = NOWHERE;
        self.len -= 1;
        let (key, owner) = (self.keys[self.len], self.owners[self.len]);
        self.keys[self.len] = NEVER;
        if position < self.len {
            self.place(position, key, owner);
        }
    }

    /// Puts an entry where a gap is, after moving the gap up or down to where it belongs.
    fn place(&mut self, mut gap: usize, key: Key, owner: u32) {
        while gap > 0 {
            let parent = (gap - 1) / ARITY;
            if self.keys[parent] < key {
                break;
            }
            self.put(gap, self.keys[parent], self.owners[parent]);
            gap = parent;
        }
        loop {
            let first = gap * ARITY + 1;
            let Some(&[a, b, c, d]) = self.keys.get(first..).and_then(|rest| rest.first_chunk()) else { break };
            let (left, left_at) = if b < a { (b, 1) } else { (a, 0) };
            let (right, right_at) = if d < c { (d, 3) } else { (c, 2) };
            let (least, at) = if right < left { (right, right_at) } else { (left, left_at) };
            if key < least {
                break;
            }
            self.put(gap, least, self.owners[first + at]);
            gap = first + at;
        }
        self.put(gap, key, owner);
    }

    #[inline]
    fn put(&mut self, position: usize, key: Key, owner: u32) {
        self.keys[position] = key;
        self.owners[position] = owner;
        self.positions[owner as usize] = position as u32;
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
