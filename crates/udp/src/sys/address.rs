//! Socket addresses between Rust's form and the kernel's.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{AF_INET, AF_INET6, sockaddr_in, sockaddr_in6, socklen_t};

/// Room for an IPv4 or an IPv6 socket address as the kernel writes it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union RawAddress {
    family: libc::sa_family_t,
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl RawAddress {
    pub(super) const LEN: socklen_t = size_of::<Self>() as socklen_t;

    /// An address of no family, for the kernel to write into.
    pub(super) const fn empty() -> Self {
        // SAFETY: all of the union's fields are plain integers, for which zero bytes are a legal value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    /// The address in the kernel's form, and how many of its bytes count.
    pub(super) fn new(address: SocketAddr) -> (Self, socklen_t) {
        let mut raw = Self::empty();
        match address {
            SocketAddr::V4(v4) => {
                raw.v4 = sockaddr_in {
                    sin_family: AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                (raw, size_of::<sockaddr_in>() as socklen_t)
            }
            SocketAddr::V6(v6) => {
                raw.v6 = sockaddr_in6 {
                    sin6_family: AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                (raw, size_of::<sockaddr_in6>() as socklen_t)
            }
        }
    }

    /// The address in Rust's form; an IPv4 address that an IPv6 socket saw (`::ffff:a.b.c.d`) as plain IPv4. `None`
    /// for other families.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: the union was zeroed or written whole by `new` before the kernel wrote to it, so every byte of every
        // field is initialized, and all fields are plain integers.
        let (family, v4, v6) = unsafe { (self.family, self.v4, self.v6) };
        match i32::from(family) {
            AF_INET => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(match ip.to_ipv4_mapped() {
                    Some(ip) => SocketAddrV4::new(ip, port).into(),
                    None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
                })
            }
            _ => None,
        }
    }

    /// The address that `raw` points to, if it is one of IPv4 or IPv6.
    ///
    /// # Safety
    /// `raw` is null or points to a socket address that is as long as its family says.
    pub(super) unsafe fn read(raw: *const libc::sockaddr) -> Option<SocketAddr> {
        if raw.is_null() {
            return None;
        }
        let mut address = Self::empty();
        // SAFETY: the caller vouches for `raw`; each family's address is read by that family's length.
        unsafe {
            match i32::from((*raw).sa_family) {
                AF_INET => address.v4 = ptr::read_unaligned(raw.cast()),
                AF_INET6 => address.v6 = ptr::read_unaligned(raw.cast()),
                _ => return None,
            }
        }
        address.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_get_are_inverse_and_mapped_addresses_become_plain() {
        for text in ["192.0.2.1:7", "[2001:db8::1]:9999", "[fe80::1%3]:5"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::new(address).0.get(), Some(address), "{text}");
        }
        let mapped = "[::ffff:192.0.2.1]:7".parse().unwrap();
        assert_eq!(RawAddress::new(mapped).0.get(), Some("192.0.2.1:7".parse().unwrap()));
        assert_eq!(RawAddress::empty().get(), None);
    }
}
