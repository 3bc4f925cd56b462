//! Network devices of the namespace that the calling thread is in: TUN devices are made, devices are set up.

use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, c_uint, c_ulong, ifreq, in6_ifreq};

use super::netlink::set_queue_packets;

// linux/ethtool.h: commands that read one number.
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Longest name of a device, in bytes.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// What a TUN device may leave for its reader to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunOffload {
    /// Packets of at most the MTU, perhaps with checksums to be completed.
    Checksums,
    /// TCP superpackets as well, and UDP ones if the kernel has them (Linux 6.2): many segments under one header.
    Segments,
}

/// Makes a TUN device: IP packets, each behind a `virtio_net_hdr` in native byte order. Returns its non-blocking
/// descriptor. The device is down, and is removed when the descriptor is closed.
///
/// # Errors
/// When `/dev/net/tun` cannot be opened, the thread may not make devices in its network namespace, or the name is
/// taken.
pub fn create_tun(name: &str, offload: TunOffload) -> io::Result<OwnedFd> {
    let mut request = request(name)?;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // The flags fit: IFF_TUN, IFF_NO_PI and IFF_VNET_HDR are below 2^15.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is.
    unsafe { ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }?;
    let plain = libc::TUN_F_CSUM;
    let tcp = plain | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    match offload {
        TunOffload::Checksums => set_offload(&file, plain)?,
        TunOffload::Segments => {
            set_offload(&file, tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6).or_else(|_| set_offload(&file, tcp))?;
        }
    }
    let descriptor = OwnedFd::from(file);
    rustix::io::ioctl_fionbio(&descriptor, true)?;
    Ok(descriptor)
}

fn set_offload(file: &impl AsRawFd, features: c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, c_ulong::from(features)) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The offloads of a network device, or of the kernel on its behalf. `None`: the device does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOffloads {
    /// Consecutive incoming packets pass through the kernel as one (GRO).
    pub receive: Option<bool>,
    /// Outgoing packets pass through the kernel as one and are segmented at the end (GSO).
    pub segmentation: Option<bool>,
    /// The device computes checksums of what it sends. UDP segmentation depends on it.
    pub send_checksums: Option<bool>,
}

/// A network device, to be set up. Each call looks it up by name, in the network namespace in which this was made.
pub struct NetDevice {
    name: String,
    control: UdpSocket,
}

impl NetDevice {
    /// The device of that name.
    ///
    /// # Errors
    /// When the process has too many files open.
    pub fn named(name: &str) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), control: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))? })
    }

    /// Gives it an IPv4 address and the route to the network of `prefix` bits around it.
    ///
    /// When the thread may not, or the device does not exist; the same below.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0));
        for (what, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
            let mut request = request(&self.name)?;
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_in` is as long as `sockaddr`, and neither has padding or a destructor.
            request.ifr_ifru.ifru_addr = unsafe { ptr::read_unaligned((&raw const raw).cast()) };
            self.apply(what, &mut request)?;
        }
        Ok(())
    }

    /// Adds an IPv6 address and the route to the network of `prefix` bits around it.
    ///
    /// # Errors
    /// As [`set_address`](Self::set_address); and when IPv6 is off.
    pub fn add_address_v6(&self, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
        let ifr6_ifindex = self.index()?;
        let ifr6_addr = libc::in6_addr { s6_addr: address.octets() };
        let mut request = in6_ifreq { ifr6_addr, ifr6_prefixlen: u32::from(prefix.min(128)), ifr6_ifindex };
        let control = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        // SAFETY: SIOCSIFADDR of an IPv6 socket reads one `in6_ifreq`.
        unsafe { ioctl(control.as_raw_fd(), libc::SIOCSIFADDR as _, &raw mut request) }
    }

    /// Sets the longest packet, in bytes.
    ///
    /// # Errors
    /// As [`set_address`](Self::set_address).
    pub fn set_mtu(&self, bytes: u16) -> io::Result<()> {
        let mut request = request(&self.name)?;
        request.ifr_ifru.ifru_mtu = c_int::from(bytes);
        self.apply(libc::SIOCSIFMTU, &mut request)
    }

    /// Sets how many packets may wait to be sent (for a TUN device: to be read).
    ///
    /// # Errors
    /// As [`set_address`](Self::set_address).
    pub fn set_queue_packets(&self, packets: u16) -> io::Result<()> {
        set_queue_packets(self.index()?, u32::from(packets))
    }

    /// Brings it up.
    ///
    /// # Errors
    /// As [`set_address`](Self::set_address).
    pub fn bring_up(&self) -> io::Result<()> {
        let mut request = request(&self.name)?;
        self.apply(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS succeeded and has written this field of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
        self.apply(libc::SIOCSIFFLAGS, &mut request)
    }

    /// Its offloads. Needs no privilege.
    pub fn offloads(&self) -> DeviceOffloads {
        DeviceOffloads {
            receive: self.ethtool(ETHTOOL_GGRO),
            segmentation: self.ethtool(ETHTOOL_GGSO),
            send_checksums: self.ethtool(ETHTOOL_GTXCSUM),
        }
    }

    fn ethtool(&self, command: u32) -> Option<bool> {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = request(&self.name).ok()?;
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // The kernel reads and writes `value`, which `request` points to and which outlives the call.
        self.apply(libc::SIOCETHTOOL, &mut request).ok()?;
        Some(value.data != 0)
    }

    fn index(&self) -> io::Result<c_int> {
        let mut request = request(&self.name)?;
        self.apply(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: SIOCGIFINDEX succeeded and has written this field of the union.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex })
    }

    fn apply(&self, what: c_ulong, request: &mut ifreq) -> io::Result<()> {
        // SAFETY: the requests that are passed here read and write one `ifreq`.
        unsafe { ioctl(self.control.as_raw_fd(), what as libc::Ioctl, request) }
    }
}

/// An empty request about the device `name`.
fn request(name: &str) -> io::Result<ifreq> {
    if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{name}' cannot name a device")));
    }
    // SAFETY: all zeros is a legal value of every member of this structure of integers and unions of them.
    let mut request: ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// One `ioctl` whose argument is a pointer.
///
/// # Safety
/// `argument` points to what the request `what` reads and writes.
unsafe fn ioctl<T>(fd: RawFd, what: libc::Ioctl, argument: *mut T) -> io::Result<()> {
    // SAFETY: the caller's promise.
    let result = unsafe { libc::ioctl(fd, what, argument) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_refuses_what_the_kernel_would_cut() {
        assert!(request("grid0").is_ok() && request("fifteen-letters").is_ok());
        for name in ["", "sixteen-letters!", "a\0b"] {
            assert_eq!(request(name).map(|_| ()).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn offloads_of_loopback_are_known_and_those_of_no_device_are_not() {
        assert!(NetDevice::named("lo").unwrap().offloads().segmentation.is_some());
        assert_eq!(NetDevice::named("no-such-device").unwrap().offloads(), DeviceOffloads::default());
    }

    #[test]
    fn bring_up_says_when_there_is_no_such_device() {
        let error = NetDevice::named("no-such-device").unwrap().bring_up().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
