//! The counters of a link.

use inhaul_base::Span;

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes, as given to `send`.
    pub bytes: u64,
}

impl Traffic {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    #[inline]
    pub(crate) fn take(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }
}

/// The counters of a link. At any time `offered = carried + dropped() + queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Sent into the link.
    pub offered: Traffic,
    /// Transmitted, or in transmission, and not lost.
    pub carried: Traffic,
    /// Waiting for the transmitter.
    pub queued: Traffic,
    /// Dropped because the queue was full.
    pub queue_full: Traffic,
    /// Marked as having met congestion: instead of a drop by RED or CoDel, or by a device that marks at random.
    pub marked: Traffic,
    /// Dropped by RED or CoDel while the queue was not full.
    pub early: Traffic,
    /// Transmitted and lost on the wire.
    pub lost: Traffic,
    /// Dropped because the link was down, or went down.
    pub down: Traffic,
    /// Duplicates, in addition to `carried`.
    pub duplicated: Traffic,
    /// Most bytes that ever waited at once.
    pub queue_bytes_max: u64,
    /// Most packets that ever waited at once.
    pub queue_packets_max: u64,
    /// How long the transmitter was busy. Utilisation is this divided by the elapsed time.
    pub busy: Span,
}

impl LinkStats {
    /// Packets that did not or will not arrive, for any cause.
    pub fn dropped(&self) -> Traffic {
        let causes = [self.queue_full, self.early, self.lost, self.down];
        causes.iter().fold(Traffic::default(), |sum, cause| Traffic {
            packets: sum.packets + cause.packets,
            bytes: sum.bytes + cause.bytes,
        })
    }
}
