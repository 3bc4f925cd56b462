//! Connections that have not been let in yet: they are few, and the oldest makes way for the next.
//!
//! Such a connection costs a thread and some memory, and a stranger can open any number of them. So it holds no place
//! among the sessions. There are places enough for a burst of honest clients. When all are taken, the address that
//! holds most of them loses its oldest one. So a client is not held up by other addresses, whatever they do; and one
//! that shares its address with an attacker has as long for its handshake as the address takes to fill its part anew.
//!
//! A system may have fewer threads than there are places. When it has none left there are fewer places for a while: so
//! what strangers hold makes way here, too, and the server's other work gets threads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inhaul_session::session::slots::Origin;

/// The part of the places that stays when there is no thread for one more: so many of so many.
const FEWER: (usize, usize) = (3, 4);

/// The connections that nobody has been let in by yet.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Places that are there now.
    places: usize,
    /// The number of the next.
    next: u64,
    /// Their ends for closing, by number: the oldest first.
    connections: BTreeMap<u64, (Origin, TcpStream)>,
    by_origin: BTreeMap<Origin, BTreeSet<u64>>,
    /// How many had to make way.
    dropped: u64,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    of: Arc<HalfOpen>,
    number: u64,
}

impl HalfOpen {
    /// At most so many.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let max = max.max(1);
        Arc::new(Self { max, held: Mutex::new(Held { places: max, ..Held::default() }) })
    }

    /// A place for this connection from `address`. If there is none, the oldest connection of the address with most of
    /// them is closed.
    ///
    /// # Errors
    /// When the process has no descriptor for it.
    pub(crate) fn take(self: &Arc<Self>, tcp: &TcpStream, address: IpAddr) -> std::io::Result<Waiting> {
        let handle = tcp.try_clone()?;
        let origin = Origin::from(address);
        let mut held = self.lock();
        while held.connections.len() >= held.places {
            held.drop_one();
        }
        let number = held.next;
        held.next += 1;
        held.connections.insert(number, (origin, handle));
        held.by_origin.entry(origin).or_default().insert(number);
        Ok(Waiting { of: Arc::clone(self), number })
    }

    /// There is no thread for one more: some of those that are here make way.
    pub(crate) fn allow_fewer(&self) {
        let mut held = self.lock();
        held.places = (held.connections.len() * FEWER.0 / FEWER.1).max(1);
        while held.connections.len() > held.places {
            held.drop_one();
        }
    }

    /// There are more places again, by and by.
    pub(crate) fn allow_more(&self) {
        let mut held = self.lock();
        held.places = self.max.min(held.places + held.places / 4 + 1);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// How many had to make way since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Closes the oldest connection of the address that has most of them; of several such, of the one that has waited
    /// longest.
    fn drop_one(&mut self) {
        let of = |numbers: &BTreeSet<u64>| numbers.first().map(|oldest| (numbers.len(), std::cmp::Reverse(*oldest)));
        let heaviest = self.by_origin.values().filter_map(of).max();
        let Some((_, std::cmp::Reverse(number))) = heaviest else { return };
        if let Some(tcp) = self.remove(number) {
            self.dropped += 1;
            // Its thread finds the connection closed. One that is gone already is no loss.
            let _ = tcp.shutdown(Shutdown::Both);
        }
    }

    fn remove(&mut self, number: u64) -> Option<TcpStream> {
        let (origin, tcp) = self.connections.remove(&number)?;
        if let Some(numbers) = self.by_origin.get_mut(&origin) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
        Some(tcp)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.of.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Connections to itself: the client's ends and the server's.
    fn pairs(count: usize) -> Vec<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (0..count).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0)).collect()
    }

    fn is_closed(client: &mut TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_of_the_address_with_most_of_them_makes_way() {
        let half_open = HalfOpen::new(4);
        let mut pairs = pairs(6);
        let greedy: IpAddr = "192.0.2.1".parse().unwrap();
        let honest: IpAddr = "192.0.2.2".parse().unwrap();
        let addresses = [honest, greedy, greedy, greedy, honest, honest];
        let held: Vec<Waiting> =
            pairs.iter().zip(addresses).map(|((_, tcp), from)| half_open.take(tcp, from).unwrap()).collect();
        assert_eq!((half_open.count(), half_open.dropped()), (4, 2));
        let closed: Vec<bool> = pairs.iter_mut().map(|(client, _)| is_closed(client)).collect();
        // First the greedy one's oldest; then both have two, and the first of all is the honest one's... which is not
        // older than the greedy one's next only if it came later.
        assert_eq!(closed, [true, true, false, false, false, false]);
        drop(held);
        assert_eq!((half_open.count(), half_open.lock().by_origin.len()), (0, 0));
    }

    #[test]
    fn without_a_thread_for_one_more_there_are_fewer_places_for_a_while() {
        let half_open = HalfOpen::new(8);
        let pairs = pairs(12);
        let from: IpAddr = "192.0.2.1".parse().unwrap();
        let mut held: Vec<Waiting> = pairs[..8].iter().map(|(_, tcp)| half_open.take(tcp, from).unwrap()).collect();
        half_open.allow_fewer();
        assert_eq!((half_open.count(), half_open.dropped()), (6, 2));
        held.push(half_open.take(&pairs[8].1, from).unwrap());
        assert_eq!((half_open.count(), half_open.dropped()), (6, 3), "there is no place more than that");
        let places = |half_open: &HalfOpen| half_open.lock().places;
        let grown = [(); 4].map(|()| {
            half_open.allow_more();
            places(&half_open)
        });
        assert_eq!(grown, [8, 8, 8, 8]);
        drop(held);
        half_open.allow_fewer();
        assert_eq!(places(&half_open), 1, "there is always one");
    }

    #[test]
    fn strangers_with_one_address_never_displace_another() {
        let half_open = HalfOpen::new(3);
        let mut pairs = pairs(20);
        let mut from: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(); 20];
        from[0] = "192.0.2.2".parse().unwrap();
        let _held: Vec<Waiting> =
            pairs.iter().zip(from).map(|((_, tcp), from)| half_open.take(tcp, from).unwrap()).collect();
        assert!(!is_closed(&mut pairs[0].0));
        assert_eq!(half_open.dropped(), 17);
    }
}
