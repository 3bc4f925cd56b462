//! How many sessions a server has at once: all together, and of one address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who counts as one client: an IPv4 address, or a /64 of IPv6, as a host has all of one and picks addresses as it
/// likes (RFC 4291 2.5.4, RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin(IpAddr);

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
pub(crate) struct Slots {
    sessions_max: usize,
    per_origin_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    by_origin: BTreeMap<Origin, usize>,
}

/// A session's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    of: Arc<Slots>,
    origin: Origin,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// The server has none.
    #[error("it has {0} sessions open, and no more may be (serve --max-sessions): try again later")]
    Server(usize),
    /// The client's address has all that it may have.
    #[error(
        "it has {0} sessions open with this client's address, and no more may be (serve --max-sessions-per-address): try again later"
    )]
    Origin(usize),
}

impl Slots {
    /// At most so many sessions, and so many of one origin.
    pub(crate) fn new(sessions_max: usize, per_origin_max: usize) -> Arc<Self> {
        Arc::new(Self { sessions_max, per_origin_max, taken: Mutex::default() })
    }

    /// A place for a client that comes from `address`.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Slot, Full> {
        let origin = Origin::from(address);
        let mut taken = self.lock();
        if taken.count >= self.sessions_max {
            return Err(Full::Server(self.sessions_max));
        }
        if taken.by_origin.get(&origin).is_some_and(|&count| count >= self.per_origin_max) {
            return Err(Full::Origin(self.per_origin_max));
        }
        taken.count += 1;
        *taken.by_origin.entry(origin).or_default() += 1;
        Ok(Slot { of: Arc::clone(self), origin })
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.count -= 1;
        if let Some(count) = taken.by_origin.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                taken.by_origin.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let slots = Slots::new(3, 2);
        let greedy = address("192.0.2.1");
        let held: Vec<Slot> = (0..2).map(|_| slots.take(greedy).unwrap()).collect();
        assert_eq!(slots.take(greedy).unwrap_err(), Full::Origin(2));
        assert_eq!(slots.take(address("::ffff:192.0.2.1")).unwrap_err(), Full::Origin(2), "the same, mapped into IPv6");
        let other = slots.take(address("192.0.2.2")).unwrap();
        assert_eq!(slots.take(address("192.0.2.3")).unwrap_err(), Full::Server(3));
        drop((held, other));
        assert_eq!((slots.taken(), slots.lock().by_origin.len()), (0, 0));
    }

    #[test]
    fn ipv6_addresses_count_by_their_64() {
        let slots = Slots::new(9, 1);
        let _held = slots.take(address("2001:db8::1")).unwrap();
        assert_eq!(slots.take(address("2001:db8::ffff:2")).unwrap_err(), Full::Origin(1));
        assert!(slots.take(address("2001:db8:0:1::1")).is_ok());
    }
}
