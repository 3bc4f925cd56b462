//! Where the bodies of datagrams come from.

use std::io::{self, IoSliceMut};

use inhaul_base::ByteRange;
use inhaul_transport::FlowId;

/// Where the bodies of datagrams come from.
pub trait BodySource {
    /// Fills `bodies`, one after the other, with the bytes of the flow's object from `offset` on.
    ///
    /// When some of the bytes cannot be read. Bytes written before the error are ignored.
    fn read(&mut self, flow: FlowId, offset: u64, bodies: &mut [IoSliceMut<'_>]) -> io::Result<()>;

    /// These bytes of the flow's object, if they lie in one piece of memory. A sealed flow is then sealed from there,
    /// without a copy. The memory must not change meanwhile, so a mapped file does not qualify.
    fn lend(&self, flow: FlowId, range: ByteRange) -> Option<&[u8]> {
        let (_, _) = (flow, range);
        None
    }
}
