//! How many sessions a server has at once: all together, of one address, and of one client.
//!
//! A slot is a field of its client's stream: it is free again when the stream is dropped. One address has at most a
//! quarter of the slots.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who counts as one client: an IPv4 address, or a /64 of IPv6, as a host has all of one and picks addresses as it
/// likes (RFC 4291 2.5.4, RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// The places for sessions.
#[derive(Debug)]
pub struct Slots {
    taken: Mutex<Taken>,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions of one [`Origin`].
    pub per_origin: usize,
    /// Sessions of one key or token.
    pub per_client: usize,
}

#[derive(Debug)]
struct Taken {
    limits: Limits,
    count: usize,
    by_origin: BTreeMap<Origin, usize>,
    by_client: BTreeMap<String, usize>,
}

/// A session's place, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    of: Arc<Slots>,
    origin: Origin,
    client: Option<String>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The server has none.
    #[error(
        "it has {0} sessions open, and no more may be (serve --max-sessions): try again later, or ask the server's user for more"
    )]
    Server(usize),
    /// The client's address has all that it may have.
    #[error(
        "it has {0} sessions open with this client's address, and no more may be (serve --max-sessions-per-address): try again later, or ask the server's user for more"
    )]
    Origin(usize),
    /// The client's key or token has all that it may have.
    #[error(
        "it has {0} sessions open with this client's key or token, and no more may be (serve --max-sessions-per-client): try again later, or ask the server's user for more"
    )]
    Client(usize),
}

impl Slots {
    /// No session yet.
    pub fn new(limits: Limits) -> Arc<Self> {
        let (by_origin, by_client) = (BTreeMap::new(), BTreeMap::new());
        Arc::new(Self { taken: Mutex::new(Taken { limits, count: 0, by_origin, by_client }) })
    }

    /// From now on there may be so many. Sessions that are open stay.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().limits = limits;
    }

    /// Whether there is a place now for a client from `address` that has not shown who it is.
    pub fn check(&self, address: IpAddr) -> Result<(), Full> {
        self.lock().check(Origin::from(address), None)
    }

    /// A place for a client that comes from `address`, and is known by this key or token.
    pub fn take(self: &Arc<Self>, address: IpAddr, client: Option<String>) -> Result<Slot, Full> {
        let origin = Origin::from(address);
        let mut taken = self.lock();
        taken.check(origin, client.as_ref())?;
        taken.count += 1;
        *taken.by_origin.entry(origin).or_default() += 1;
        if let Some(client) = &client {
            *taken.by_client.entry(client.clone()).or_default() += 1;
        }
        Ok(Slot { of: Arc::clone(self), origin, client })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn check(&self, origin: Origin, client: Option<&String>) -> Result<(), Full> {
        let Limits { sessions, per_origin, per_client } = self.limits;
        if self.count >= sessions {
            return Err(Full::Server(sessions));
        }
        if self.by_origin.get(&origin).is_some_and(|&count| count >= per_origin) {
            return Err(Full::Origin(per_origin));
        }
        if client.and_then(|client| self.by_client.get(client)).is_some_and(|&count| count >= per_client) {
            return Err(Full::Client(per_client));
        }
        Ok(())
    }
}

/// Counts one less, and forgets who has none any more.
fn give_back<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.count -= 1;
        give_back(&mut taken.by_origin, &self.origin);
        if let Some(client) = &self.client {
            give_back(&mut taken.by_client, client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn limits(sessions: usize, per_origin: usize, per_client: usize) -> Limits {
        Limits { sessions, per_origin, per_client }
    }

    #[test]
    fn one_client_has_its_part_wherever_it_comes_from() {
        let slots = Slots::new(limits(9, 9, 2));
        let take = |from: &str, client: &str| slots.take(address(from), Some(client.to_owned()));
        let held = [take("192.0.2.1", "a").unwrap(), take("192.0.2.2", "a").unwrap()];
        assert_eq!(take("192.0.2.3", "a").unwrap_err(), Full::Client(2));
        let _other = take("192.0.2.3", "b").unwrap();
        slots.set_limits(limits(9, 9, 3));
        drop(take("192.0.2.3", "a").unwrap());
        drop(held);
        assert_eq!((slots.taken(), slots.lock().by_client.len()), (1, 1));
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let slots = Slots::new(limits(3, 2, 9));
        let greedy = address("192.0.2.1");
        let held: Vec<Slot> = (0..2).map(|_| slots.take(greedy, None).unwrap()).collect();
        assert_eq!(slots.take(greedy, None).unwrap_err(), Full::Origin(2));
        assert_eq!(
            slots.take(address("::ffff:192.0.2.1"), None).unwrap_err(),
            Full::Origin(2),
            "the same, mapped into IPv6"
        );
        let other = slots.take(address("192.0.2.2"), None).unwrap();
        assert_eq!(slots.take(address("192.0.2.3"), None).unwrap_err(), Full::Server(3));
        drop((held, other));
        assert_eq!((slots.taken(), slots.lock().by_origin.len()), (0, 0));
    }

    #[test]
    fn ipv6_addresses_count_by_their_64() {
        let slots = Slots::new(limits(9, 1, 9));
        let _held = slots.take(address("2001:db8::1"), None).unwrap();
        assert_eq!(slots.take(address("2001:db8::ffff:2"), None).unwrap_err(), Full::Origin(1));
        assert!(slots.take(address("2001:db8:0:1::1"), None).is_ok());
    }
}
