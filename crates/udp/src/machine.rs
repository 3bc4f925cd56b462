//! The machine's network interfaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use inhaul_base::Bitrate;

use crate::sys::interface_addresses;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, like `eth0`.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Speed of its link, if hardware tells it. Virtual interfaces claim meaningless speeds.
    pub speed: Option<Bitrate>,
}

impl Interface {
    /// The interface that has `address`; `None` if none has.
    ///
    /// When the system does not list its interfaces.
    pub fn with_address(address: IpAddr) -> io::Result<Option<Self>> {
        let address = address.to_canonical();
        let found = interface_addresses()?.into_iter().find(|(_, own)| *own == address);
        found.map(|(name, _)| Self::read(Path::new("/sys/class/net"), name)).transpose()
    }

    /// The interface by which packets to `peer` leave; `None` if it is unknown.
    ///
    /// When there is no route to the peer, or the system does not list its interfaces.
    pub fn toward(peer: SocketAddr) -> io::Result<Option<Self>> {
        let any = if peer.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        // Connecting a UDP socket sends nothing. The kernel only looks up the route.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(peer)?;
        let local = socket.local_addr()?;
        match interface_name(zone_of(local)) {
            // Several interfaces may have the same link-local address.
            Some(name) => Self::read(Path::new("/sys/class/net"), name).map(Some),
            None => Self::with_address(local.ip()),
        }
    }

    /// Reads an interface from `classes` (`/sys/class/net`).
    fn read(classes: &Path, name: String) -> io::Result<Self> {
        let class = classes.join(&name);
        let mtu = read_number(class.join("mtu"))?;
        let mtu = u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData)?;
        // Without a speed, some drivers give an error and some -1.
        let mbps = class.join("device").exists().then(|| read_number(class.join("speed")).ok()).flatten();
        let speed = mbps.and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0 && n < u32::MAX);
        Ok(Self { name, mtu, speed: speed.map(|n| Bitrate::from_mbps(n.into())) })
    }
}

/// The interface index of a link-local address; 0: none.
fn zone_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) if matches!(address.ip(), ip if ip.is_unicast_link_local()) => address.scope_id(),
        _ => 0,
    }
}

/// An address as text. A link-local one ends in the name of its interface. No brackets.
pub fn written(address: SocketAddr) -> String {
    let ip: IpAddr = address.ip();
    match zone_of(address) {
        0 => ip.to_string(),
        index => format!("{ip}%{}", interface_name(index).unwrap_or_else(|| index.to_string())),
    }
}

/// The name of an interface.
fn interface_name(index: u32) -> Option<String> {
    // The ioctl works on any socket.
    let any = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok().filter(|_| index != 0)?;
    rustix::net::netdevice::index_to_name(&any, index).ok()
}

/// The number that a file holds.
fn read_number(path: PathBuf) -> io::Result<i64> {
    std::fs::read_to_string(path)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn toward_loopback_is_the_loopback_interface() {
        let interface = Interface::toward("127.0.0.1:9".parse().unwrap()).unwrap().unwrap();
        assert_eq!((interface.name.as_str(), interface.speed), ("lo", None));
        assert_eq!(Interface::with_address("127.0.0.1".parse().unwrap()).unwrap(), Some(interface));
        assert_eq!(Interface::with_address("192.0.2.77".parse().unwrap()).unwrap(), None);
    }

    #[test]
    fn read_believes_the_speed_of_hardware_only() {
        let dir = tempfile::tempdir().unwrap();
        let class = dir.path().join("eth7");
        fs::create_dir(&class).unwrap();
        fs::write(class.join("mtu"), "9000\n").unwrap();
        let read = || Interface::read(dir.path(), "eth7".to_owned()).unwrap();
        assert_eq!((read().mtu, read().speed), (9000, None));
        fs::write(class.join("speed"), "25000\n").unwrap();
        assert_eq!(read().speed, None, "no device stands behind it");
        fs::create_dir(class.join("device")).unwrap();
        assert_eq!(read().speed, Some(Bitrate::from_gbps(25)));
        for unknown in ["-1", "4294967295", "fast"] {
            fs::write(class.join("speed"), unknown).unwrap();
            assert_eq!(read().speed, None, "{unknown}");
        }
    }

    #[test]
    fn an_address_of_a_link_is_written_with_its_interface() {
        let told = |text: &str| written(text.parse().unwrap());
        assert_eq!(told("[fe80::1%1]:7"), "fe80::1%lo");
        assert_eq!(told("[fe80::1%99999]:7"), "fe80::1%99999");
        assert_eq!(told("[2001:db8::1%1]:7"), "2001:db8::1");
        assert_eq!(told("192.0.2.1:7"), "192.0.2.1");
    }
}
