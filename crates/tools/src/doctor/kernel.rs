//! Checks of the kernel: socket buffers, and segmentation and receive offload of UDP.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use inhaul_base::{Bitrate, format_bytes};
use inhaul_udp::{Arrival, Interface, NetDevice, Socket, SocketOptions};

use super::finding::{Cost, Finding};
use inhaul_session::system::sockets;

/// Datagrams of the trial of offloads, and bytes of each.
const TRIAL_DATAGRAMS: usize = 8;
const TRIAL_BYTES: u16 = 1000;
/// Loopback takes less than this.
const TRIAL_PATIENCE: Duration = Duration::from_millis(500);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(super) fn look(rate: Bitrate, note: &mut dyn FnMut(Finding)) {
    let wanted = SocketOptions::default();
    match Socket::bind(ANY_PORT, &wanted) {
        Ok(socket) => {
            note(receive_buffer(socket.receive_buffer_bytes(), wanted.receive_buffer_bytes, rate));
            note(send_buffer(socket.send_buffer_bytes(), wanted.send_buffer_bytes, rate));
        }
        Err(error) => note(Finding::unknown("receive-buffer", error.to_string())),
    }
    note(offloads(rate));
}

/// How the receive buffer that the kernel gave compares to the one that was asked for.
fn receive_buffer(given: usize, wanted: usize, rate: Bitrate) -> Finding {
    let found = format!("the kernel gives {} of the {} asked for", bytes(given), bytes(wanted));
    if given >= wanted {
        return Finding::ok("receive-buffer", found);
    }
    let pause_ms = rate.time_for(given as u64).as_secs_f64() * 1e3;
    let text = format!("packets that come at {rate} are lost when this program gets no processor for {pause_ms:.2} ms");
    Finding::costs("receive-buffer", found, Cost::new(pause_ms, "ms", text)).fix(sysctl("rmem_max", wanted))
}

/// The same of the send buffer.
fn send_buffer(given: usize, wanted: usize, rate: Bitrate) -> Finding {
    let found = format!("the kernel gives {} of the {} asked for", bytes(given), bytes(wanted));
    if given >= wanted {
        return Finding::ok("send-buffer", found);
    }
    let pause_ms = rate.time_for(given as u64).as_secs_f64() * 1e3;
    let text = format!("serving at {rate}, the wire falls idle when the server gets no processor for {pause_ms:.2} ms");
    Finding::costs("send-buffer", found, Cost::new(pause_ms, "ms", text)).fix(sysctl("wmem_max", wanted))
}

fn bytes(count: usize) -> String {
    format_bytes(count as u64)
}

fn sysctl(name: &str, wanted: usize) -> [String; 2] {
    [
        format!("sudo sysctl -w net.core.{name}={wanted}"),
        format!("echo 'net.core.{name} = {wanted}' | sudo tee -a /etc/sysctl.d/90-inhaul.conf"),
    ]
}

/// Tries segmentation and receive offload over loopback.
fn offloads(rate: Bitrate) -> Finding {
    const CHECK: &str = "kernel-offloads";
    let each = per_second(rate, 1500);
    let no_fix = ["use Linux 5.0 or newer"];
    match try_offloads() {
        Ok(Trial { sent_as_one: true, came_as: 1 }) => {
            Finding::ok(CHECK, "UDP leaves and arrives many datagrams at a time (GSO, GRO)")
        }
        Ok(Trial { sent_as_one, came_as }) => {
            let half = |works: bool| if works { "works" } else { "does not" };
            let found = format!("tried over loopback: GSO {}, GRO {}", half(sent_as_one), half(came_as == 1));
            let text = format!("each of {each:.0} packets/s at {rate} and 1500 bytes is handled by itself");
            Finding::costs(CHECK, found, Cost::new(each, "packets/s", text)).fix(no_fix)
        }
        Err(error) => Finding::unknown(CHECK, format!("UDP over loopback could not be tried: {error}")),
    }
}

/// How offloads did.
struct Trial {
    sent_as_one: bool,
    /// In how many messages the datagrams came.
    came_as: usize,
}

fn try_offloads() -> io::Result<Trial> {
    let options = SocketOptions::default();
    let open = || Socket::bind(ANY_PORT, &options).map_err(io::Error::other);
    let (from, to) = (open()?, open()?);
    let datagram = [0; TRIAL_BYTES as usize];
    let datagrams = [&datagram[..]; TRIAL_DATAGRAMS];
    let sent_as_one =
        from.segments() && sockets::send(&from, to.local_address(), &datagrams, Some(TRIAL_BYTES)).is_ok();
    if !sent_as_one {
        for datagram in datagrams {
            sockets::send(&from, to.local_address(), &[datagram], None)?;
        }
    }
    let mut memory = vec![0; TRIAL_DATAGRAMS * usize::from(u16::MAX)];
    let mut arrivals: Vec<Arrival> = Vec::new();
    let expected = TRIAL_DATAGRAMS * usize::from(TRIAL_BYTES);
    let until = Instant::now() + TRIAL_PATIENCE;
    while arrivals.iter().map(|arrival| arrival.len).sum::<usize>() < expected {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut slices: Vec<_> = memory.chunks_mut(usize::from(u16::MAX)).map(IoSliceMut::new).collect();
        let ends: Vec<usize> = (1..=slices.len()).collect();
        to.receive(&mut slices, &ends, &mut arrivals)?;
    }
    Ok(Trial { sent_as_one, came_as: arrivals.len() })
}

/// What the device does that packets from a server come in by.
pub(super) fn device(interface: &Interface, rate: Bitrate) -> Finding {
    const CHECK: &str = "device-offloads";
    let name = &interface.name;
    let offloads = match NetDevice::named(name) {
        Ok(device) => device.offloads(),
        Err(error) => return Finding::unknown(CHECK, format!("{name} cannot be asked: {error}")),
    };
    match (offloads.receive, offloads.segmentation, offloads.send_checksums) {
        (None, _, _) => Finding::unknown(CHECK, format!("{name} does not tell")),
        (Some(true), Some(true), Some(true)) => Finding::ok(CHECK, format!("{name} has GRO, GSO and checksums on")),
        (receive, segmentation, checksums) => {
            let missing = [("gro", receive), ("gso", segmentation), ("tx", checksums)];
            let off: Vec<&str> = missing.iter().filter(|(_, on)| *on != Some(true)).map(|(name, _)| *name).collect();
            let each = per_second(rate, interface.mtu);
            let text = format!("the kernel handles each of {each:.0} packets/s at {rate} by itself");
            Finding::costs(CHECK, format!("off at {name}: {}", off.join(", ")), Cost::new(each, "packets/s", text))
                .fix(off.iter().map(|feature| format!("sudo ethtool -K {name} {feature} on")))
        }
    }
}

/// Packets of `mtu` bytes that `rate` needs, per second.
pub(super) fn per_second(rate: Bitrate, mtu: u32) -> f64 {
    rate.as_f64() / 8.0 / f64::from(mtu.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn receive_buffer_costs_what_it_holds_at_the_rate() {
        let finding = receive_buffer(250_000, 8 << 20, Bitrate::from_gbps(1));
        assert_eq!(finding.verdict, Verdict::Costs);
        // 250,000 bytes at 125,000,000 bytes a second.
        assert!((finding.cost.unwrap().value - 2.0).abs() < 1e-9);
        assert_eq!(finding.fix[0], "sudo sysctl -w net.core.rmem_max=8388608");
        assert_eq!(receive_buffer(8 << 20, 8 << 20, Bitrate::from_gbps(1)).verdict, Verdict::Ok);
    }

    #[test]
    fn try_offloads_gets_every_datagram_through() {
        let trial = try_offloads().unwrap();
        assert!((1..=TRIAL_DATAGRAMS).contains(&trial.came_as));
    }
}
