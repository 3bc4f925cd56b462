//! The event queue, keyed (time, sequence).

use inhaul_base::Time;

/// Something that has at most one pending event: a link, an endpoint's deadline, a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ComponentId(u32);

/// A component's kind, and its number within the kind.
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
    /// The next measurement of the hosts' own TCP.
    TcpWatch,
}

/// A component's due time, its order among components due at that time (the first scheduled comes first), and its
/// index: 64, 40 and 24 bits of one number, so that a comparison takes no branch that the processor could mispredict.
type Key = u128;

const OWNER_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;
/// The key of a component that is not due.
const NEVER: Key = Key::MAX;

fn time(key: Key) -> Time {
    Time::from_nanos((key >> (OWNER_BITS + SEQUENCE_BITS)) as u64)
}

fn owner(key: Key) -> usize {
    (key & ((1 << OWNER_BITS) - 1)) as usize
}

/// Four keys that meet in a tournament: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([Key; 4]);

impl Group {
    const EMPTY: Self = Self([NEVER; 4]);

    #[inline]
    fn first(&self) -> Key {
        let [a, b, c, d] = self.0;
        a.min(b).min(c.min(d))
    }
}

/// The components by when they are due: a tournament among them, with one key each.
///
/// A link with a hundred thousand packets on it is one player, so the tree is as small as the network and stays in
/// cache. A tournament has more levels than a heap, but which way a key goes is known, and no level waits for a guess.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The components' keys by four; the first of each group by four; and so on to a single group.
    groups: Vec<Group>,
    /// Where each of these levels begins.
    levels: Vec<usize>,
    /// The first of all keys.
    first: Key,
    components: Vec<Component>,
    sequence: u64,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { groups: vec![Group::EMPTY], levels: vec![0], first: NEVER, components: Vec::new(), sequence: 0 }
    }
}

impl Agenda {
    /// Makes a component known; nothing is pending for it yet.
    pub(crate) fn add(&mut self, component: Component) -> ComponentId {
        self.components.push(component);
        if self.components.len() > 4 * self.bottom() {
            self.grow();
        }
        ComponentId(self.components.len() as u32 - 1)
    }

    /// How many groups the components are in.
    fn bottom(&self) -> usize {
        self.levels.get(1).copied().unwrap_or(self.groups.len())
    }

    fn grow(&mut self) {
        let mut level = self.groups[..self.bottom()].to_vec();
        level.resize(2 * level.len(), Group::EMPTY);
        (self.groups, self.levels) = (Vec::new(), Vec::new());
        loop {
            self.levels.push(self.groups.len());
            self.groups.extend(&level);
            if level.len() == 1 {
                break;
            }
            let above = |groups: &[Group]| {
                let mut firsts = [NEVER; 4];
                firsts.iter_mut().zip(groups).for_each(|(first, group)| *first = group.first());
                Group(firsts)
            };
            level = level.chunks(4).map(above).collect();
        }
    }

    /// The next due component, and its time. It stays pending until it is scheduled anew.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Time, Component)> {
        (self.first < NEVER).then(|| (time(self.first), self.components[owner(self.first)]))
    }

    /// Has the component due at `at`, or not at all. A time that does not change keeps its place among equals.
    #[inline]
    pub(crate) fn schedule(&mut self, component: ComponentId, at: Option<Time>) {
        let key = self.groups[component.0 as usize / 4].0[component.0 as usize % 4];
        if at.is_none_or(|at| time(key) != at) {
            self.schedule_anew(component, at);
        }
    }

    /// The same; but among equals it comes last, also if the time does not change.
    #[inline]
    pub(crate) fn schedule_anew(&mut self, component: ComponentId, at: Option<Time>) {
        match at.filter(|at| *at < Time::FAR_FUTURE) {
            Some(at) => {
                self.sequence = (self.sequence + 1) & ((1 << SEQUENCE_BITS) - 1);
                let order = Key::from(self.sequence) << OWNER_BITS | Key::from(component.0);
                self.set(component, Key::from(at.as_nanos()) << (OWNER_BITS + SEQUENCE_BITS) | order);
            }
            None => self.set(component, NEVER),
        }
    }

    fn set(&mut self, component: ComponentId, mut key: Key) {
        let mut place = component.0 as usize;
        for level in &self.levels {
            let group = &mut self.groups[level + place / 4];
            // An entry that did not win before and does not now changes nothing further up.
            if group.0[place % 4] == key {
                return;
            }
            group.0[place % 4] = key;
            key = group.first();
            place /= 4;
        }
        self.first = key;
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>() + self.components.capacity() * size_of::<Component>()
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

        agenda.schedule(ids[3], Some(Time::from_nanos(5)));
        agenda.schedule(ids[4], Some(Time::from_nanos(5)));
        agenda.schedule_anew(ids[3], Some(Time::from_nanos(5)));
        assert_eq!(agenda.peek(), Some((Time::from_nanos(5), Component::Link(4))));
    }

    proptest! {
        #[test]
        fn schedule_agrees_with_a_sorted_list(
            count in 1..80u32, steps in prop::collection::vec((0..80u32, prop::option::of(0..20u64)), 1..300),
        ) {
            let mut agenda = Agenda::default();
            let mut ids = Vec::new();
            let mut model: Vec<Option<(u64, usize)>> = Vec::new();
            for (order, (k, at)) in steps.into_iter().enumerate() {
                // More come to be known while others are due.
                if ids.len() < count as usize {
                    ids.push(agenda.add(Component::Link(ids.len() as u32)));
                    model.push(None);
                }
                let k = k % ids.len() as u32;
                agenda.schedule(ids[k as usize], at.map(Time::from_nanos));
                let kept = model[k as usize].filter(|(was, _)| Some(*was) == at);
                model[k as usize] = kept.or(at.map(|at| (at, order)));
                let first = (0..model.len()).filter_map(|k| model[k].map(|key| (key, k))).min();
                let expected = first.map(|((at, _), k)| (Time::from_nanos(at), Component::Link(k as u32)));
                prop_assert_eq!(agenda.peek(), expected);
            }
        }
    }
}
