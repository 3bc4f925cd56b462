//! Who may have a server fetch now. There are so many places, and one client's transfers do not keep others out for ever:
//! when all places are taken, a transfer that brings nothing makes way, and so does the latest one of a client that has
//! more than its share, for a client that has less.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inhaul_session::api::options::{Progress, Stop};
use inhaul_session::session::frame::RefusalCode;
use inhaul_session::session::refusal::{GreetingError, refused};

/// How long is waited for a transfer that makes way: for another one, or for the same that was ordered once more.
const MAKE_WAY: Duration = Duration::from_secs(5);
/// A transfer that brings less than this ...
const USEFUL_BYTES: u64 = 1 << 20;
/// ... in this time makes way when others wait.
const USEFUL_TIME: Duration = Duration::from_secs(60);

/// The places for transfers.
#[derive(Debug)]
pub(crate) struct Places {
    places_max: usize,
    /// Places of a client that it keeps when others wait.
    share: usize,
    taken: Mutex<Taken>,
    /// A transfer has ended.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    next_number: u64,
    /// The transfers that are under way.
    running: BTreeMap<u64, Running>,
}

/// A transfer that is under way.
#[derive(Debug)]
struct Running {
    /// What the client calls it: see [`crate::order::Order::transfer`].
    transfer: u64,
    /// Whose it is.
    client: String,
    stop: Stop,
    makes_way: Arc<AtomicBool>,
    /// What it had brought, and when, the last time that it was enough.
    brought: (u64, Instant),
}

/// A transfer's right to run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    number: u64,
    stop: Stop,
    makes_way: Arc<AtomicBool>,
}

impl Places {
    /// So many places, of which a client keeps `share` when others wait.
    pub(crate) fn new(places_max: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { places_max, share: share.max(1), taken: Mutex::default(), freed: Condvar::new() })
    }

    /// The right to run one more transfer of a client. One that has lost this server orders the same transfer again, while
    /// what it had ordered before may not have noticed yet that it is gone: that one is ended first.
    pub(crate) fn take(self: &Arc<Self>, client: &str, transfer: u64) -> Result<Place, GreetingError> {
        let deadline = Instant::now() + MAKE_WAY;
        let mut is_asked = false;
        let mut taken = self.lock();
        loop {
            let now = Instant::now();
            let earlier = taken.earlier(client, transfer);
            if let Some(earlier) = &earlier {
                earlier.stop();
            } else if taken.running.len() < self.places_max {
                return Ok(self.give(&mut taken, client, transfer, now));
            } else if !is_asked {
                is_asked = taken.ask(client, self.share, now);
            }
            let is_over = now > deadline || (earlier.is_none() && !is_asked);
            if is_over {
                let count = taken.running.len();
                let text = match earlier {
                    Some(_) => "the same transfer is still being ended: try again later".to_owned(),
                    None => format!(
                        "{count} transfers to this server are under way, and no more may be (serve --max-puts): try again later"
                    ),
                };
                return Err(refused(RefusalCode::Busy, text));
            }
            let left = deadline.saturating_duration_since(now).max(Duration::from_millis(1));
            taken = self.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn give(self: &Arc<Self>, taken: &mut Taken, client: &str, transfer: u64, now: Instant) -> Place {
        taken.next_number += 1;
        let (number, stop, makes_way) = (taken.next_number, Stop::new(), Arc::new(AtomicBool::new(false)));
        let running = Running {
            transfer,
            client: client.to_owned(),
            stop: stop.clone(),
            makes_way: Arc::clone(&makes_way),
            brought: (0, now),
        };
        taken.running.insert(number, running);
        Place { of: Arc::clone(self), number, stop, makes_way }
    }

    /// How many are taken.
    pub(crate) fn count(&self) -> usize {
        self.lock().running.len()
    }

    /// Ends all transfers.
    pub(crate) fn stop_all(&self) {
        self.lock().running.values().for_each(|running| running.stop.stop());
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// How to end what runs of a client's transfer already.
    fn earlier(&self, client: &str, transfer: u64) -> Option<Stop> {
        let is_same = |running: &&Running| running.transfer == transfer && running.client == client;
        self.running.values().find(is_same).map(|running| running.stop.clone())
    }

    /// Has a transfer make way for `client`; whether one does.
    fn ask(&mut self, client: &str, share: usize, now: Instant) -> bool {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let stays = |running: &&Running| !running.makes_way.load(Ordering::Relaxed);
        for running in self.running.values().filter(stays) {
            *counts.entry(&running.client).or_default() += 1;
        }
        let others = || self.running.values().filter(stays).filter(|running| running.client != client);
        let brings_nothing = |running: &&Running| now.saturating_duration_since(running.brought.1) > USEFUL_TIME;
        let slow = others().filter(brings_nothing).min_by_key(|running| running.brought.1);
        let is_due = counts.get(client).copied().unwrap_or(0) < share;
        let most = counts.iter().filter(|(_, count)| **count > share && is_due).max_by_key(|(_, count)| **count);
        let latest = || others().rfind(|running| most.is_some_and(|(most, _)| running.client == *most));
        let Some(chosen) = slow.or_else(latest) else { return false };
        chosen.makes_way.store(true, Ordering::Relaxed);
        chosen.stop.stop();
        true
    }
}

impl Place {
    /// Ends the transfer when it is set.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// How far the transfer is.
    pub(crate) fn note(&self, progress: &Progress) {
        self.note_at(progress, Instant::now());
    }

    fn note_at(&self, progress: &Progress, now: Instant) {
        // What an interrupted transfer has left is nothing new; that it is verified is.
        let brought = progress.received_bytes.saturating_sub(progress.resumed_bytes) + progress.bytes;
        if let Some(running) = self.of.lock().running.get_mut(&self.number)
            && brought >= running.brought.0.saturating_add(USEFUL_BYTES)
        {
            running.brought = (brought, now);
        }
    }

    /// Whether the transfer may go on.
    ///
    /// # Errors
    /// The refusal for its client, which may order it again, if it makes way for another one.
    pub(crate) fn check(&self) -> Result<(), GreetingError> {
        if !self.makes_way.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = "another client waits for its place (serve --max-puts), and this transfer brought too little, or its client has more places than its share: try again later";
        Err(refused(RefusalCode::Busy, text))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.lock().running.remove(&self.number);
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight places, a quarter of them a client's own; these clients' transfers have them.
    fn taken(clients: &[&str]) -> (Arc<Places>, Vec<Place>) {
        let places = Places::new(8, 2);
        let taken = (0..).zip(clients).map(|(transfer, client)| places.take(client, transfer).unwrap()).collect();
        (places, taken)
    }

    fn ways(places: &[Place]) -> Vec<usize> {
        places.iter().enumerate().filter(|(_, place)| place.check().is_err()).map(|(at, _)| at).collect()
    }

    fn ask(places: &Places, client: &str, now: Instant) -> bool {
        places.lock().ask(client, places.share, now)
    }

    #[test]
    fn one_client_may_have_all_places_until_others_come() {
        let (places, held) = taken(&["a"; 8]);
        let now = Instant::now();
        assert!(!ask(&places, "a", now), "it is its own transfers that it waits for");
        assert!(ask(&places, "b", now) && ask(&places, "b", now));
        assert_eq!(ways(&held), [6, 7], "the latest ones");
        assert!(held[7].stop().is_set() && !held[0].stop().is_set());
        let refusal = held[7].check().unwrap_err().refusal().unwrap();
        assert!(refusal.0 == RefusalCode::Busy && refusal.1.contains("--max-puts"), "{refusal:?}");
    }

    #[test]
    fn nobody_is_sent_away_below_its_share() {
        let (places, held) = taken(&["a", "a", "a", "b", "b", "c", "c", "d"]);
        let now = Instant::now();
        assert!(!ask(&places, "b", now), "it has its share");
        assert!(ask(&places, "d", now));
        assert_eq!(ways(&held), [2]);
        assert!(!ask(&places, "e", now), "nobody has more than its share any more");
    }

    #[test]
    fn what_brings_nothing_makes_way_for_others() {
        let (places, held) = taken(&["a", "a", "b", "b", "c", "c", "d", "d"]);
        let later = Instant::now() + USEFUL_TIME + Duration::from_secs(1);
        let brought = |received_bytes| Progress { received_bytes, resumed_bytes: 1 << 30, ..Progress::default() };
        for (number, place) in held.iter().enumerate() {
            place.note_at(&brought((1 << 30) + if number == 2 { USEFUL_BYTES - 1 } else { USEFUL_BYTES }), later);
        }
        assert!(!ask(&places, "b", later), "its own");
        assert!(ask(&places, "e", later) && !ask(&places, "e", later));
        assert_eq!(ways(&held), [2]);
    }

    #[test]
    fn a_transfer_that_is_ordered_again_ends_the_one_before_of_the_same_client_only() {
        let (places, mut held) = taken(&["a"]);
        let other = places.take("b", 0).unwrap();
        assert!(!held[0].stop().is_set() && !other.stop().is_set());
        let (first, again) = (held.remove(0), Arc::clone(&places));
        std::thread::scope(|scope| {
            let again = scope.spawn(move || again.take("a", 0).unwrap());
            while !first.stop().is_set() {
                std::thread::yield_now();
            }
            drop(first);
            again.join().unwrap();
        });
        drop(other);
        assert_eq!(places.count(), 0);
    }
}
