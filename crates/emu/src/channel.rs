//! Messages between the emulator and the keeper of its namespaces: JSON and file descriptors over a socket that keeps
//! message boundaries.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message, in bytes: below the default size of a socket buffer.
const MESSAGE_MAX: usize = 128 << 10;
/// Most descriptors with a message.
const DESCRIPTORS_MAX: usize = 4;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Two ends. Children do not inherit them.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    /// The end that a descriptor is.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// The descriptor that the end is.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.0
    }

    /// Sends a message with copies of some descriptors.
    ///
    /// # Errors
    /// When it is too long, or the other end is gone.
    pub(crate) fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "arguments and environment are too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                other => return other.map(|_| ()).map_err(io::Error::from),
            }
        }
    }

    /// Waits for a message; `None` when the other end is gone.
    ///
    /// # Errors
    /// If the received bytes are no message.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(Some((serde_json::from_slice(&bytes[..received.bytes])?, descriptors)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn send_carries_words_and_descriptors() {
        let (near, far) = Channel::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        near.send(&("hello", 7), &[writer.as_fd()]).unwrap();
        drop(writer);
        let ((words, number), descriptors): ((String, u32), _) = far.receive().unwrap().unwrap();
        assert_eq!((words.as_str(), number), ("hello", 7));
        for descriptor in descriptors {
            io::PipeWriter::from(descriptor).write_all(b"through it").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through it");
    }

    #[test]
    fn receive_says_when_the_other_end_is_gone_and_refuses_nonsense() {
        let (near, far) = Channel::pair().unwrap();
        near.send(&"words", &[]).unwrap();
        assert!(far.receive::<u32>().is_err());
        drop(near);
        assert!(far.receive::<u32>().unwrap().is_none());
        assert!(far.send(&1, &[]).is_err());
    }

    #[test]
    fn send_refuses_what_is_too_long() {
        let (near, _far) = Channel::pair().unwrap();
        assert!(near.send(&"x".repeat(MESSAGE_MAX), &[]).is_err());
    }
}
