//! RACK (RFC 8985): the time until an overtaken segment counts as lost.
//!
//! A segment is judged by the time of its *last sending*. It is lost once a later sent segment has come, and it is
//! later than reordering explains. So a lost retransmission is found like any other loss, in a round trip.

use inhaul_base::Span;

use super::scoreboard::Progress;

/// This many segments behind a gap mean a loss as long as no reordering was seen (RFC 8985 6.2 step 4, DupThresh).
const DUP_THRESH: u64 = 3;
/// Repairs without a duplicate until the tolerance falls back (RFC 8985 6.2: reo_wnd_persist).
const PERSIST: u32 = 16;
/// The tolerance is at most this many quarters of the least round-trip time; SRTT bounds it much earlier.
const QUARTERS_MAX: u32 = 255;

/// The newest segment that came, and the extent of reordering on this path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// The last sent of the arrived segments: its place in the order of sending, and its round-trip time (RACK.rtt).
    newest: Option<(u64, Span)>,
    /// Least round-trip time of segments that were sent once (RACK.min_RTT). Other than the timestamps' it is of the
    /// segment that set off the acknowledgement, so delayed acknowledgements do not hide the true least.
    least: Option<Span>,
    /// A segment came later than a segment sent after it (RACK.reordering_seen).
    reordering_seen: bool,
    /// Quarters of the least round-trip time that are tolerated (RACK.reo_wnd_mult), and repairs until they fall back.
    quarters: u32,
    persist: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Self { newest: None, least: None, reordering_seen: false, quarters: 1, persist: 0 }
    }
}

impl Rack {
    /// Least round-trip time, as far as it is known.
    pub(super) fn least(&self) -> Option<Span> {
        self.least
    }

    /// Takes in an acknowledgement's report (RFC 8985 6.2 steps 1 to 3).
    pub(super) fn on_ack(&mut self, progress: &Progress) {
        if let Some(rtt) = progress.least_rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if let Some(newest) = progress.newest_for_rack
            && self.newest.is_none_or(|before| newest.0 > before.0)
        {
            self.newest = Some(newest);
        }
        self.reordering_seen |= progress.reordered;
    }

    /// Something was sent again in vain: packets change places by more than is tolerated. Told once a round trip at
    /// most.
    pub(super) fn on_duplicate(&mut self) {
        self.quarters = (self.quarters + 1).min(QUARTERS_MAX);
        self.persist = PERSIST;
    }

    /// A repair has ended.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Segments before this place in the order of sending have been overtaken.
    pub(super) fn overtaken(&self) -> u64 {
        self.newest.map_or(0, |(order, _)| order)
    }

    /// How long after it was sent last a segment that has been overtaken is lost (RACK.rtt + RACK.reo_wnd).
    /// `repairing`: losses are known already; `sacked`: segments that came behind a gap.
    pub(super) fn patience(&self, smoothed: Option<Span>, repairing: bool, sacked: u64) -> Span {
        let rtt = self.newest.map_or(Span::ZERO, |(_, rtt)| rtt);
        if !self.reordering_seen && (repairing || sacked >= DUP_THRESH) {
            return rtt;
        }
        let window = self.least.unwrap_or(Span::ZERO) * u64::from(self.quarters) / 4;
        rtt + smoothed.map_or(window, |smoothed| window.min(smoothed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);

    fn progress(newest: Option<(u64, Span)>, least: Option<Span>, reordered: bool) -> Progress {
        let mut progress = Progress::default();
        (progress.newest_for_rack, progress.least_rtt, progress.reordered) = (newest, least, reordered);
        progress
    }

    #[test]
    fn patience_is_a_quarter_of_the_least_rtt_where_packets_change_places() {
        // RFC 8985 6.2 step 4.
        let mut rack = Rack::default();
        assert_eq!(rack.patience(None, false, 3), Span::ZERO, "nothing has come");
        rack.on_ack(&progress(Some((7, RTT * 2)), Some(RTT), false));
        assert_eq!(rack.patience(Some(RTT), false, 2), RTT * 2 + RTT / 4);
        assert_eq!(rack.patience(Some(RTT), false, 3), RTT * 2);
        assert_eq!(rack.patience(Some(RTT), true, 1), RTT * 2);
        rack.on_ack(&progress(Some((6, RTT)), None, true));
        assert_eq!((rack.overtaken(), rack.patience(Some(RTT), true, 9)), (7, RTT * 2 + RTT / 4));
    }

    #[test]
    fn duplicates_widen_it_up_to_the_smoothed_rtt_and_sixteen_repairs_without_one_narrow_it() {
        let mut rack = Rack::default();
        rack.on_ack(&progress(None, Some(RTT), true));
        rack.on_duplicate();
        assert_eq!(rack.patience(Some(RTT), true, 9), RTT / 2);
        (0..300).for_each(|_| rack.on_duplicate());
        assert_eq!(rack.patience(Some(RTT * 2), true, 9), RTT * 2);
        (0..15).for_each(|_| rack.on_recovered());
        assert_eq!(rack.patience(Some(RTT * 2), true, 9), RTT * 2);
        rack.on_recovered();
        assert_eq!(rack.patience(Some(RTT * 2), true, 9), RTT / 4);
    }
}
