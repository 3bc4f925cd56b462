//! Whose turn it is, where sessions share threads and memory: clients in turn, and the sessions of a client among
//! themselves. So who opens many sessions has no more than who opens one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_transport::FlowId;

/// A client, as [`super::client_rates::ClientRates::client`] numbers it.
pub(crate) type Client = u64;

/// The sessions that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The clients that have such sessions, in the order of their turns.
    clients: VecDeque<Client>,
    sessions: BTreeMap<Client, VecDeque<FlowId>>,
    /// Threads that work for a client.
    at_work: BTreeMap<Client, usize>,
}

impl Turns {
    /// A session waits for its turn.
    pub(super) fn push(&mut self, client: Client, flow: FlowId) {
        let sessions = self.sessions.entry(client).or_default();
        if sessions.is_empty() {
            self.clients.push_back(client);
        }
        sessions.push_back(flow);
    }

    /// The session whose turn it is, for a thread that works for it until [`Turns::done`]; no more than `threads_max`
    /// work for one client.
    pub(super) fn pop(&mut self, threads_max: usize) -> Option<(Client, FlowId)> {
        let is_free = |client: &Client| self.at_work.get(client).is_none_or(|count| *count < threads_max);
        let at = self.clients.iter().position(is_free)?;
        let client = self.clients.remove(at)?;
        let sessions = self.sessions.get_mut(&client)?;
        let flow = sessions.pop_front()?;
        if sessions.is_empty() {
            self.sessions.remove(&client);
        } else {
            self.clients.push_back(client);
        }
        *self.at_work.entry(client).or_default() += 1;
        Some((client, flow))
    }

    /// A thread has ended its work for a client.
    pub(super) fn done(&mut self, client: Client) {
        if let Some(count) = self.at_work.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.at_work.remove(&client);
            }
        }
    }

    /// A session is over.
    pub(super) fn forget(&mut self, client: Client, flow: FlowId) {
        let Some(sessions) = self.sessions.get_mut(&client) else { return };
        sessions.retain(|other| *other != flow);
        if sessions.is_empty() {
            self.sessions.remove(&client);
            self.clients.retain(|other| *other != client);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

/// Memory of which a client may take a part.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    taken: Mutex<BTreeMap<Client, u64>>,
}

/// Memory that is taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: Arc<Rooms>,
    client: Client,
    bytes: u64,
}

impl Rooms {
    /// Takes memory; `None` if there is not so much left of `all_max`, or of the `part_max` of one client.
    pub(super) fn take(self: &Arc<Self>, client: Client, bytes: u64, part_max: u64, all_max: u64) -> Option<Room> {
        let mut taken = self.lock();
        let all = taken.values().fold(0, |all: u64, one| all.saturating_add(*one));
        let own = taken.get(&client).copied().unwrap_or(0);
        if own.saturating_add(bytes) > part_max || all.saturating_add(bytes) > all_max {
            return None;
        }
        taken.insert(client, own + bytes);
        Some(Room { of: Arc::clone(self), client, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Client, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        if let Some(own) = taken.get_mut(&self.client) {
            *own -= self.bytes;
            if *own == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_many_sessions_has_as_many_turns_as_one_with_one() {
        let mut turns = Turns::default();
        (0..20).for_each(|flow| turns.push(1, FlowId(flow)));
        turns.push(2, FlowId(100));
        let mut next = || {
            let (client, FlowId(flow)) = turns.pop(1)?;
            turns.done(client);
            turns.push(client, FlowId(flow));
            Some(flow)
        };
        let found: Vec<_> = (0..8).map_while(|_| next()).collect();
        assert_eq!(found, [0, 100, 1, 100, 2, 100, 3, 100]);
    }

    #[test]
    fn a_client_has_not_all_threads_and_what_is_over_has_no_turn() {
        let mut turns = Turns::default();
        for (client, flow) in [(1, 1), (1, 2), (1, 3), (2, 4)] {
            turns.push(client, FlowId(flow));
        }
        assert_eq!(turns.pop(1), Some((1, FlowId(1))));
        assert_eq!(turns.pop(1), Some((2, FlowId(4))));
        assert_eq!(turns.pop(1), None, "both have a thread");
        turns.forget(1, FlowId(2));
        turns.done(1);
        assert_eq!(turns.pop(1), Some((1, FlowId(3))));
        turns.push(2, FlowId(5));
        turns.forget(2, FlowId(5));
        turns.done(2);
        assert!(turns.is_empty() && turns.pop(9).is_none());
    }

    #[test]
    fn memory_is_bounded_for_one_and_for_all_and_given_back() {
        let rooms: Arc<Rooms> = Arc::default();
        let take = |client, bytes| rooms.take(client, bytes, 60, 100);
        let first = take(1, 50).unwrap();
        assert!(take(1, 11).is_none() && take(1, u64::MAX).is_none() && take(2, 51).is_none());
        let second = take(2, 50).unwrap();
        assert!(take(3, 1).is_none());
        drop(first);
        let third = take(3, 50).unwrap();
        drop((second, third));
        assert!(rooms.lock().is_empty());
    }
}
