//! A netlink request about a network device: `ioctl` refuses this to the root of a user namespace.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// Length of a message's header, `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
const RTM_NEWLINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const REQUEST: u16 = 1 | 4;
const NLMSG_ERROR: u16 = 2;
const IFLA_TXQLEN: u16 = 13;

/// Sets the queue length of the device with that index, in packets.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn set_queue_packets(index: i32, packets: u32) -> io::Result<()> {
    // NETLINK_ROUTE is protocol 0, the default.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message(index, packets), SendFlags::empty())?;
    let mut answer = [0u8; 512];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    answered(&answer[..len])
}

/// RTM_NEWLINK of an existing device, with one attribute.
fn message(index: i32, packets: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    // The length is filled in last; sequence number and sender do not matter.
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    // `struct ifinfomsg`: family, type, index, flags and which of them change.
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&index.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    // The attribute: its length, type and value.
    bytes.extend_from_slice(&8u16.to_ne_bytes());
    bytes.extend_from_slice(&IFLA_TXQLEN.to_ne_bytes());
    bytes.extend_from_slice(&packets.to_ne_bytes());
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Reads the kernel's answer: NLMSG_ERROR, with zero or a negative error number.
fn answered(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match (kind, answer.get(HEADER_LEN..HEADER_LEN + 4)) {
        (Some(NLMSG_ERROR), Some(&[a, b, c, d])) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        },
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_queue_packets_says_when_there_is_no_such_device() {
        let error = set_queue_packets(i32::MAX, 100).unwrap_err();
        // An ordinary user is not even told that.
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }

    #[test]
    fn answered_takes_no_nonsense_for_success() {
        let mut answer = vec![0u8; HEADER_LEN + 4];
        assert!(answered(&answer).is_err(), "no error message");
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert!(answered(&answer).is_ok());
        answer[HEADER_LEN..].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert_eq!(answered(&answer).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(answered(&answer[..HEADER_LEN]).is_err());
    }
}
