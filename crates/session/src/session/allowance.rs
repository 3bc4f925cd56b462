//! How much a peer may send that is ignored: frames of another release, which say by their kind that they may be.
//!
//! They are no progress, whatever they cost. So there is an allowance of them, in number and in bytes, which comes back
//! with time: enough for any release that has something to say, too little to keep anybody busy.

use std::time::{Duration, Instant};

/// Frames that come back in a second.
const FRAMES_PER_SEC: u32 = 64;
/// Bytes of them that come back in a second.
const BYTES_PER_SEC: u64 = 64 * 1024;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// When this was looked at last; `None`: nothing has been ignored yet.
    at: Option<Instant>,
    /// What has been taken and has not come back.
    frames: u32,
    bytes: u64,
}

impl Allowance {
    /// Most frames at once.
    pub(super) const FRAMES: u32 = 4096;
    /// Most bytes of them at once.
    pub(super) const BYTES: u64 = 1 << 20;

    /// Takes a frame of so many bytes out of the allowance at `now`; false when it is used up.
    pub(super) fn take(&mut self, now: Instant, bytes: usize) -> bool {
        // Whole seconds come back; what is left of one counts for the next.
        let at = *self.at.get_or_insert(now);
        let whole = now.saturating_duration_since(at).as_secs();
        self.at = Some(at + Duration::from_secs(whole));
        let seconds = u32::try_from(whole).unwrap_or(u32::MAX);
        self.frames = self.frames.saturating_sub(FRAMES_PER_SEC.saturating_mul(seconds)).saturating_add(1);
        self.bytes = self.bytes.saturating_sub(BYTES_PER_SEC.saturating_mul(whole)).saturating_add(bytes as u64);
        self.frames <= Self::FRAMES && self.bytes <= Self::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_bytes_run_out_and_come_back_with_time() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let taken =
            |allowance: &mut Allowance, at, bytes| (0..20_000).take_while(|_| allowance.take(at, bytes)).count();
        let mut allowance = Allowance::default();
        assert_eq!(taken(&mut allowance, began, 9), Allowance::FRAMES as usize);
        // The one that was too much counts, too.
        assert_eq!(taken(&mut allowance, after(1), 9), FRAMES_PER_SEC as usize - 1);
        assert_eq!(taken(&mut allowance, after(100_000), 9), Allowance::FRAMES as usize);
        let mut allowance = Allowance::default();
        assert_eq!(taken(&mut allowance, began, 64 * 1024), 16);
        assert_eq!(taken(&mut allowance, after(2), 64 * 1024), 1);
    }

    #[test]
    fn a_few_a_second_go_on_for_ever() {
        let began = Instant::now();
        let mut allowance = Allowance::default();
        let at = |n: u64| began + Duration::from_millis(20 * n);
        assert!((0..100_000).all(|n| allowance.take(at(n), 1000)));
    }
}
