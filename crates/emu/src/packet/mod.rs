//! IP packets as a TUN device hands them over, and the superpackets among them.

mod checksum;
mod headers;
mod packet;

pub(crate) use packet::{BUFFER_LEN, Packet};

#[cfg(test)]
pub(crate) mod samples;
