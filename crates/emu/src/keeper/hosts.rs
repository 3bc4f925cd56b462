//! Makes the hosts: each gets a network namespace with its device, addresses and settings.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use inhaul_udp::{Namespaces, NetDevice, TunOffload, create_tun, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::refusal::failed;
use crate::channel::Channel;
use crate::message::{Answer, Cause, Failure, HostSetUp, Request};

/// The device of each host.
pub(super) const DEVICE: &str = "grid0";

/// All addresses of a grid are in one network, so that one route leads to all of them.
const IPV4_PREFIX: u8 = 8;
const IPV6_PREFIX: u8 = 64;

/// How many packets may wait until the emulator reads them. The kernel's default of 500 is 6 ms at 1 Gbit/s; a process
/// that is not scheduled for longer would lose packets outside of every emulated queue.
const QUEUE_PACKETS: u16 = 10_000;

/// Settings of each network namespace, beneath /proc/sys/net.
///
/// - TCP's buffers may grow to 1 GiB, the largest window (RFC 7323). The defaults of 4 and 6 MiB allow 0.5 Gbit/s at
///   100 ms.
/// - A connection's path metrics are not kept for the next connection: runs are independent.
/// - No router solicitations and similar messages: there is no router to answer.
const SETTINGS: [(&str, &str); 5] = [
    ("ipv4/tcp_rmem", "4096 131072 1073741824"),
    ("ipv4/tcp_wmem", "4096 65536 1073741824"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
];

/// The namespaces of a host.
pub(super) struct HostNamespaces {
    network: File,
    host_name: File,
}

impl HostNamespaces {
    /// The namespaces of the calling thread.
    fn current() -> io::Result<Self> {
        Ok(Self {
            network: File::open("/proc/thread-self/ns/net")?,
            host_name: File::open("/proc/thread-self/ns/uts")?,
        })
    }

    /// Moves the calling thread into them.
    pub(super) fn enter(&self) -> io::Result<()> {
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(move_into_link_name_space(self.host_name.as_fd(), Some(LinkNameSpaceType::HostNameAndNISDomainName))?)
    }
}

/// Makes the hosts that the emulator asks for, and hands it their devices. `None`: it has asked for nothing and gone.
pub(super) fn set_up(channel: &Channel) -> Result<Option<Vec<HostNamespaces>>, Failure> {
    let Some((Request::SetUp { hosts }, _)) = channel.receive().map_err(failed("reading what to set up"))? else {
        return Ok(None);
    };
    let mut warnings = Vec::new();
    let mut warn = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            warnings.push(format!("{what}: {error}"));
        }
    };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| failed("making mounts private")(error.into()))?;
    warn("host names do not resolve in the grid", name_hosts(&hosts));
    warn("ps in the grid shows other processes too", mount_proc());
    let mut namespaces = Vec::with_capacity(hosts.len());
    for host in &hosts {
        let made = make(host, &mut warn)?;
        let device = open_device(host)?;
        channel.send(&Answer::Host, &[device.as_fd()]).map_err(failed("handing over a device"))?;
        namespaces.push(made);
    }
    warnings.sort();
    warnings.dedup();
    channel.send(&Answer::Ready { warnings }, &[]).map_err(failed("saying that the grid is there"))?;
    Ok(Some(namespaces))
}

/// Moves the thread into the new namespaces of a host.
fn make(host: &HostSetUp, warn: &mut impl FnMut(&str, io::Result<()>)) -> Result<HostNamespaces, Failure> {
    unshare(Namespaces { network: true, host_name: true, ..Namespaces::default() }).map_err(|error| Failure {
        cause: Cause::NamespacesForbidden,
        ..failed("leaving for a network namespace")(error)
    })?;
    warn("hosts keep the name of this machine", rustix::system::sethostname(host.name.as_bytes()).map_err(Into::into));
    for (setting, value) in SETTINGS {
        let result = fs::write(Path::new("/proc/sys/net").join(setting), value);
        // A kernel without IPv6 sends nothing, which is as good.
        if !(setting.starts_with("ipv6") && result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
        {
            warn(&format!("net/{setting} cannot be set to {value}"), result);
        }
    }
    NetDevice::named("lo").and_then(|lo| lo.bring_up()).map_err(failed("bringing up lo"))?;
    HostNamespaces::current().map_err(failed("holding a network namespace"))
}

/// Makes the device of the host whose namespaces the thread is in.
fn open_device(host: &HostSetUp) -> Result<std::os::fd::OwnedFd, Failure> {
    let offload = if host.superpackets { TunOffload::Segments } else { TunOffload::Checksums };
    let device = create_tun(DEVICE, offload).map_err(|error| {
        let missing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
        let cause = if missing { Cause::TunForbidden } else { Cause::Other };
        Failure { cause, ..failed("making a TUN device")(error) }
    })?;
    let set_up = || {
        let settings = NetDevice::named(DEVICE)?;
        settings.set_mtu(host.mtu)?;
        settings.set_queue_packets(QUEUE_PACKETS)?;
        settings.set_address(host.ipv4, IPV4_PREFIX)?;
        settings.bring_up()?;
        // IPv6 asks for an MTU of 1280 at least (RFC 8200 section 5), and a kernel that has it.
        let _ = settings.add_address_v6(host.ipv6, IPV6_PREFIX);
        Ok(())
    };
    set_up().map_err(failed("setting up a TUN device"))?;
    Ok(device)
}

/// Has host names resolve, for everything that looks into /etc/hosts: it gets another one on top, in this mount
/// namespace.
fn name_hosts(hosts: &[HostSetUp]) -> io::Result<()> {
    const HOSTS: &str = "/etc/hosts";
    // A mount point for a moment. Only this process sees it.
    const ASIDE: &str = "/tmp";
    let mut text: String = hosts.iter().map(|host| format!("{} {}\n", host.ipv4, host.name)).collect();
    text += &fs::read_to_string(HOSTS)?;
    mount("tmpfs", ASIDE, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, None)?;
    let file = Path::new(ASIDE).join("hosts");
    let bound = fs::write(&file, text).and_then(|()| Ok(mount_bind(&file, HOSTS)?));
    unmount(ASIDE, UnmountFlags::DETACH)?;
    bound
}

/// Has /proc show the processes of the grid.
fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, None)?)
}
