//! UDT's two state machines and its congestion control, over packet numbers: no wire format, no sockets, no clock.
//!
//! [`SendSide`] schedules packets, [`ReceiveSide`] schedules reports. Packets are numbered from 0 with 64 bits. A shell
//! maps them to the width of its wire ([`nearest`]), keeps each packet's content, and moves [`Feedback`] and ACK2s
//! between the two.

mod arrivals;
mod by_law;
mod control;
mod native;
mod pacing;
mod receive;
mod rtt;
mod samples;
mod send;
mod terms;
mod trend;

pub use control::Control;
pub use native::{Native, Variant, WINDOW_MORE};
pub use receive::{Arrival, ReceiveSide};
pub use samples::{ControlLimits, Nak, Progress, Tick};
pub use send::{BadNumber, Expired, Next, NextAction, SendSide};
pub use terms::{Ack, Feedback, LIGHT_ACK_EVERY, Losses, PAIR_EVERY, Reporting, SYN, SpeedRule};

/// Bits of numbers on UDT's wires.
const WIRE_BITS: u32 = 31;

/// The low bits of a packet number, as they stand on a wire.
pub fn low_bits(number: u64) -> u32 {
    number as u32 & (u32::MAX >> (u32::BITS - WIRE_BITS))
}

/// The number nearest to `near` that has these low bits; `None` when that is before the first packet.
pub fn nearest(near: u64, low: u32) -> Option<u64> {
    let ahead = low_bits(u64::from(low).wrapping_sub(near));
    let ahead = i64::from((ahead << 1) as i32 >> 1);
    near.checked_add_signed(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nearest_finds_a_number_again(near in 0u64..1 << 40, off in -(1i64 << 30) + 1..1i64 << 30) {
            if let Some(number) = near.checked_add_signed(off) {
                prop_assert_eq!(nearest(near, low_bits(number)), Some(number));
            }
        }

        #[test]
        fn nearest_takes_any_bits(near: u64, low: u32) {
            let _ = nearest(near, low);
        }
    }

    #[test]
    fn nearest_counts_across_the_wrap_and_not_before_the_beginning() {
        assert_eq!(nearest((1 << 31) - 2, 3), Some((1 << 31) + 3));
        assert_eq!(nearest(3, (1 << 31) - 1), None);
        assert_eq!(nearest(3, 0), Some(0));
    }
}
