//! IP packets as a TUN device hands them over, and the superpackets among them.

mod checksum;
mod headers;
mod superpacket;

pub(crate) use superpacket::{BUFFER_LEN, Packet};

#[cfg(test)]
pub(crate) mod samples;
