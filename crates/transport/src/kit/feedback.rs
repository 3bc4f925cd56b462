//! The decision whether telling senders of a pause pays: rbudp-plus-2006 leaves it open (section 6, discussion).

use inhaul_base::{Bitrate, Span};

/// Data that arrives while a host does not run may fill at most this part of its socket buffer: small packets take more
/// of it than their bytes, and predictions are not exact.
const ROOM_PART: f64 = 0.75;

/// Whether `bytes` that come in while a host does not run are more than a socket buffer of `room` bytes takes for sure.
pub fn overflows(bytes: u64, room: u64) -> bool {
    bytes as f64 > ROOM_PART * room as f64
}

/// Whether senders should hold during a pause of this length: by the load, which makes pauses long, and by the arrival
/// rate. If the socket buffer can hold the arrivals of the pause, nothing is lost, and holding would cost time:
/// rbudp-plus-2006 figure 5 shows that cost, figure 6 the gain.
pub fn pays(pause: Span, incoming: Bitrate, room: u64) -> bool {
    overflows(incoming.bytes_in(pause), room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pays_where_what_comes_in_meanwhile_would_be_lost() {
        // rbudp-plus-2006 6: at low rates, and without load, feedback only costs.
        let stock = 212_992;
        let slice = Span::from_millis(4);
        assert!(!pays(slice, Bitrate::from_mbps(100), stock));
        assert!(pays(slice, Bitrate::from_mbps(1_000), stock));
        assert!(!pays(slice, Bitrate::from_mbps(1_000), 4 << 20));
        assert!(pays(Span::from_millis(50), Bitrate::from_mbps(1_000), 4 << 20));
        assert!(!pays(Span::ZERO, Bitrate::from_gbps(100), stock));
    }
}
