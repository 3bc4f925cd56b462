//! Address validation: a value that only the receiver at an address can know (as in RFC 9000 section 8.1).

use std::net::{IpAddr, SocketAddr};

/// Makes challenges: for each address another, the same whenever it is asked, so nothing must be remembered for
/// addresses that have not answered.
#[derive(Clone, Copy, Debug)]
pub struct Challenges {
    key: [u64; 2],
}

impl Challenges {
    /// Challenges that cannot be guessed without `seed`.
    pub fn new(seed: u64) -> Self {
        Self { key: [seed, !seed] }
    }

    /// The challenge for the host at `address`.
    pub fn of(&self, address: SocketAddr) -> u64 {
        sip_hash_2_4(self.key, &address_bytes(address))
    }

    /// The challenge for the host at `address` during the period number `period`; it is valid only then.
    pub fn of_period(&self, address: SocketAddr, period: u64) -> u64 {
        let mut bytes = [0; 26];
        bytes[..18].copy_from_slice(&address_bytes(address));
        bytes[18..].copy_from_slice(&period.to_be_bytes());
        sip_hash_2_4(self.key, &bytes)
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

/// SipHash-2-4 (Aumasson, Bernstein 2012): a keyed hash of short inputs.
fn sip_hash_2_4(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32).wrapping_add(*d);
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sip_hash_is_that_of_its_paper() {
        // Appendix A of the paper: the bytes 0 to 14 under the key of the bytes 0 to 15.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(sip_hash_2_4(key, &bytes), 0xa129_ca61_49be_45e5);
    }

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
