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

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    /// Breaks ties: what was scheduled first comes first.
    sequence: u64,
    component: u32,
}

impl Entry {
    fn is_before(&self, other: &Self) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

/// The position of a component that has nothing pending.
const NOWHERE: u32 = u32::MAX;
/// Children of a heap entry: four lie in about one cache line and halve the heap's depth.
const ARITY: usize = 4;

/// The components by when they are due: an indexed 4-ary heap with one entry each.
///
/// A link with a hundred thousand packets on it is one entry, so the heap is as small as the network and stays in cache.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: Vec<Entry>,
    /// Where each component's entry is in `heap`.
    positions: Vec<u32>,
    components: Vec<Component>,
    sequence: u64,
}

impl Agenda {
    /// Makes a component known; nothing is pending for it yet.
    pub(crate) fn add(&mut self, component: Component) -> ComponentId {
        self.components.push(component);
        self.positions.push(NOWHERE);
        ComponentId(self.components.len() as u32 - 1)
    }

    /// What is due next, and when. It stays pending until it is scheduled anew.
    pub(crate) fn peek(&self) -> Option<(Time, Component)> {
        self.heap.first().map(|entry| (entry.at, self.components[entry.component as usize]))
    }

    /// Has the component due at `at`, or not at all. A time that does not change keeps its place among equals.
    pub(crate) fn schedule(&mut self, component: ComponentId, at: Option<Time>) {
        let position = self.positions[component.0 as usize];
        match at {
            Some(at) if at < Time::FAR_FUTURE => {
                if position == NOWHERE {
                    self.heap.push(Entry { at, sequence: 0, component: component.0 });
                    self.set(self.heap.len() - 1, at, component);
                } else if self.heap[position as usize].at != at {
                    self.set(position as usize, at, component);
                }
            }
            _ if position != NOWHERE => self.remove(position as usize),
            _ => {}
        }
    }

    /// Has the component due at `at` again though it may be pending for that very time: it comes after its equals.
    pub(crate) fn reschedule(&mut self, component: ComponentId, at: Option<Time>) {
        let position = self.positions[component.0 as usize];
        match at {
            Some(at) if at < Time::FAR_FUTURE && position != NOWHERE => self.set(position as usize, at, component),
            at => self.schedule(component, at),
        }
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Entry>()
            + self.positions.capacity() * size_of::<u32>()
            + self.components.capacity() * size_of::<Component>()
    }

    fn set(&mut self, position: usize, at: Time, component: ComponentId) {
        self.sequence += 1;
        let entry = Entry { at, sequence: self.sequence, component: component.0 };
        self.place(position, entry);
    }

    fn remove(&mut self, position: usize) {
        let gone = self.heap.swap_remove(position);
        self.positions[gone.component as usize] = NOWHERE;
        if let Some(&moved) = self.heap.get(position) {
            self.place(position, moved);
        }
    }

    /// Puts an entry where a gap is, after moving the gap up or down to where it belongs.
    fn place(&mut self, gap: usize, entry: Entry) {
        let up = self.rise(gap, &entry);
        let position = if up == gap { self.sink(gap, &entry) } else { up };
        self.put(position, entry);
    }

    fn rise(&mut self, mut gap: usize, entry: &Entry) -> usize {
        while gap > 0 {
            let parent = (gap - 1) / ARITY;
            let above = self.heap[parent];
            if !entry.is_before(&above) {
                break;
            }
            self.put(gap, above);
            gap = parent;
        }
        gap
    }

    fn sink(&mut self, mut gap: usize, entry: &Entry) -> usize {
        loop {
            let first = gap * ARITY + 1;
            let end = (first + ARITY).min(self.heap.len());
            if first >= end {
                return gap;
            }
            let mut least = first;
            for child in first + 1..end {
                if self.heap[child].is_before(&self.heap[least]) {
                    least = child;
                }
            }
            let below = self.heap[least];
            if !below.is_before(entry) {
                return gap;
            }
            self.put(gap, below);
            gap = least;
        }
    }

    fn put(&mut self, position: usize, entry: Entry) {
        self.positions[entry.component as usize] = position as u32;
        self.heap[position] = entry;
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
        // The same time again changes nothing; asking for a new place does.
        agenda.schedule(ids[9], Some(Time::from_nanos(5)));
        agenda.reschedule(ids[8], Some(Time::from_nanos(5)));
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
