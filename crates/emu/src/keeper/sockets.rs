//! Information from the kernel about the thread's network namespace: the device's counters, and listening sockets.

use std::fs;
use std::io;

use super::hosts::DEVICE;
use crate::message::DeviceCounters;

/// The device's counters.
pub(super) fn device_counters() -> io::Result<DeviceCounters> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    counters_of(&text, DEVICE).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the device is gone"))
}

/// Whether a socket listens for connections, or is bound for datagrams; on any port if none is named.
pub(super) fn listens(port: Option<u16>) -> bool {
    // States as the kernel writes them: TCP_LISTEN; and TCP_CLOSE, the state of an unconnected UDP socket.
    let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
    tables.into_iter().any(|(table, state)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        ports(&text, state).any(|at| port.is_none_or(|wanted| wanted == at))
    })
}

/// The line of /proc/net/dev about a device: eight counters inward, eight outward; of each the third is errors and the
/// fourth drops.
fn counters_of(text: &str, device: &str) -> Option<DeviceCounters> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |index: usize| numbers.get(index).copied();
    Some(DeviceCounters { inward_drops: at(2)? + at(3)?, outward_drops: at(10)? + at(11)? })
}

/// The local ports of the sockets in that state, of a table like /proc/net/tcp.
fn ports<'a>(table: &'a str, state: &'a str) -> impl Iterator<Item = u16> + 'a {
    table.lines().skip(1).filter_map(move |line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _remote, found) = (words.next()?, words.next()?, words.next()?);
        let (_, port) = local.rsplit_once(':')?;
        (found == state).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_finds_errors_and_drops_of_the_device() {
        let text = "Inter-|   Receive                    |  Transmit\n face |bytes    packets errs drop fifo\n\
                        lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n \
                     grid0: 1 2 3 40 0 0 0 0 9 10 11 1200 0 0 0 0\n";
        let counters = DeviceCounters { inward_drops: 43, outward_drops: 1211 };
        assert_eq!(counters_of(text, "grid0"), Some(counters));
        assert_eq!(counters_of(text, "grid"), None);
        assert_eq!(counters_of("grid0: 1 2", "grid0"), None);
    }

    #[test]
    fn ports_are_those_in_the_state() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                       0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                       1: 0100007F:0016 0100007F:A000 01 00000000:00000000\n";
        assert_eq!(ports(text, "0A").collect::<Vec<_>>(), [8080]);
    }
}
