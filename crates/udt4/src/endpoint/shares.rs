//! Each host's share of an endpoint, so that none takes all.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// How many connections each host has.
#[derive(Debug, Default)]
pub(super) struct Shares {
    hosts: BTreeMap<IpAddr, usize>,
}

impl Shares {
    /// How many `host` has.
    pub(super) fn of(&self, host: IpAddr) -> usize {
        self.hosts.get(&network(host)).copied().unwrap_or(0)
    }

    /// It has one more.
    pub(super) fn add(&mut self, host: IpAddr) {
        *self.hosts.entry(network(host)).or_default() += 1;
    }

    /// It has one less.
    pub(super) fn remove(&mut self, host: IpAddr) {
        let network = network(host);
        match self.hosts.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.hosts.remove(&network)),
        }
    }
}

/// The unit that counts as one host: an address of IPv4; in IPv6 a network of 64 bits, because one host can choose any
/// address in it.
fn network(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(host) => IpAddr::V6(Ipv6Addr::from_bits(host.to_bits() & !u128::from(u64::MAX))),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let mut shares = Shares::default();
        let host = |text: &str| text.parse::<IpAddr>().unwrap();
        for text in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"]
        {
            shares.add(host(text));
        }
        let counts =
            ["192.0.2.1", "192.0.2.2", "2001:db8::7", "2001:db8:0:1::", "::1"].map(|text| shares.of(host(text)));
        assert_eq!(counts, [2, 1, 2, 1, 0]);
        shares.remove(host("192.0.2.1"));
        shares.remove(host("192.0.2.2"));
        shares.remove(host("::1"));
        assert_eq!((shares.of(host("192.0.2.1")), shares.hosts.len()), (1, 3));
    }
}
