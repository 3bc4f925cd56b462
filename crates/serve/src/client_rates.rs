//! What each client may be sent, over all its sessions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use inhaul_base::Bitrate;
use inhaul_transport::ClientRate;

use crate::turns::Client;
use inhaul_session::session::slots::Origin;

/// See the module's description.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientRates {
    /// `None`: as much as anybody.
    pub(crate) rate: Option<Bitrate>,
    /// Clients are known by their addresses: everybody is let in, with as many keys as they like.
    pub(crate) by_address: bool,
}

impl ClientRates {
    /// What holds for a session from `address`, of the client with this key or token.
    pub(crate) fn of(self, address: IpAddr, name: Option<&str>) -> Option<ClientRate> {
        Some(ClientRate { client: self.client(address, name), rate: self.rate? })
    }

    /// A number for the client that comes from `address` with this key or token.
    pub(crate) fn client(self, address: IpAddr, name: Option<&str>) -> Client {
        let mut hasher = DefaultHasher::new();
        match name.filter(|_| !self.by_address) {
            Some(name) => name.hash(&mut hasher),
            None => Origin::from(address).hash(&mut hasher),
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_its_key_or_its_address_where_keys_are_free() {
        let rate = Some(Bitrate::from_mbps(10));
        let of = |by_address, address: &str, name| {
            ClientRates { rate, by_address }.of(address.parse().unwrap(), name).unwrap().client
        };
        assert_eq!(of(false, "192.0.2.1", Some("alice")), of(false, "192.0.2.2", Some("alice")));
        assert_ne!(of(false, "192.0.2.1", Some("alice")), of(false, "192.0.2.1", Some("bob")));
        assert_eq!(of(true, "192.0.2.1", Some("alice")), of(true, "192.0.2.1", Some("bob")));
        assert_ne!(of(true, "192.0.2.1", None), of(true, "192.0.2.2", None));
        // Whoever has a /64 has all of its addresses.
        assert_eq!(of(true, "2001:db8::1", None), of(true, "2001:db8::2", None));
        assert_eq!(ClientRates::default().of("192.0.2.1".parse().unwrap(), Some("alice")), None);
    }
}
