//! Address validation: a value that only the receiver at an address can know (as in RFC 9000 section 8.1).

use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher24;

/// Makes challenges: for each address another, the same whenever it is asked, so nothing must be remembered for
/// addresses that have not answered.
#[derive(Clone, Copy, Debug)]
pub struct Challenges {
    /// SipHash-2-4 (Aumasson, Bernstein 2012), a keyed hash of short inputs.
    hasher: SipHasher24,
}

impl Challenges {
    /// Challenges that cannot be guessed without `seed`.
    pub fn new(seed: u64) -> Self {
        Self { hasher: SipHasher24::new_with_keys(seed, !seed) }
    }

    /// The challenge for the host at `address`.
    pub fn of(&self, address: SocketAddr) -> u64 {
        self.hasher.hash(&address_bytes(address))
    }

    /// The challenge for the host at `address` during the period number `period`; it is valid only then.
    pub fn of_period(&self, address: SocketAddr, period: u64) -> u64 {
        let mut bytes = [0; 26];
        bytes[..18].copy_from_slice(&address_bytes(address));
        bytes[18..].copy_from_slice(&period.to_be_bytes());
        self.hasher.hash(&bytes)
    }
}

fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_and_port_has_its_own() {
        let challenges = Challenges::new(7);
        let at = |address: &str| challenges.of(address.parse().unwrap());
        assert_eq!(at("192.0.2.1:7"), at("192.0.2.1:7"));
        for other in [at("192.0.2.1:8"), at("192.0.2.2:7"), at("[2001:db8::1]:7")] {
            assert_ne!(at("192.0.2.1:7"), other);
        }
        assert_ne!(at("192.0.2.1:7"), Challenges::new(8).of("192.0.2.1:7".parse().unwrap()));
    }

    #[test]
    fn each_period_has_its_own() {
        let (challenges, address) = (Challenges::new(7), "192.0.2.1:7".parse().unwrap());
        assert_eq!(challenges.of_period(address, 3), challenges.of_period(address, 3));
        assert_ne!(challenges.of_period(address, 3), challenges.of_period(address, 4));
        assert_ne!(challenges.of_period(address, 0), challenges.of(address));
    }
}
