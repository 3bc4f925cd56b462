//! A flow whose path is a byte stream (PROTOCOL.md 7.6): it loses nothing and finds its own rate. Its delay says
//! nothing of a capacity, and what does not come in order only comes later. So what bounds the flow is how much is
//! asked for ahead, and its share of the receiver.

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::STREAM_AHEAD_MAX;

/// Bytes requested ahead: the arrivals of this many round trips, and of this time. A stream's rate may double in each
/// round trip, and its measurement is older than one.
const WINDOW_RTTS: u64 = 4;
/// While the rate rises, it is this many. If the rate doubles in each round trip, four are all in flight when the
/// measurement is oldest; then nothing is left for further requests and for the sockets' buffers.
const WINDOW_RTTS_RISING: u64 = 8;
/// A rate counts as rising if it is this many times the earlier one.
const RISING: f64 = 1.25;
const WINDOW_SPAN: Span = Span::from_millis(100);
/// ... but at least this much, before anything is known, and at most `STREAM_AHEAD_MAX`: 5 round trips of 200 ms at 1
/// Gbit/s. Data behind a loss in a stream stays outstanding until the loss is repaired, which takes one or two round
/// trips.
const WINDOW_MIN: u64 = 2 << 20;
/// Rates are measured over a round trip, but no less than this.
const MEASURED_MIN: Span = Span::from_millis(50);
/// In each of these the highest rate that was seen counts for this part less. Streams stand still for a while after a
/// loss, and go on.
const FADING: f64 = 0.9;
/// The flow is expected to use up to this many times its earlier rate: its stream may have just begun.
const GROWTH: f64 = 2.0;
/// ... and no less than this.
const USE_MIN: Bitrate = Bitrate::from_mbps(10);
/// Data that has not come for this long was lost with one of the streams, or was never sent.
const LOST_AFTER: Span = Span::from_secs(3);

/// How a stream does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    since: Option<Time>,
    bytes: u64,
    /// The highest rate of late.
    rate: Bitrate,
    /// It was much higher than before when it was measured last.
    rises: bool,
}

impl Stream {
    /// `bytes` came.
    pub(super) fn on_data(&mut self, now: Time, bytes: u64, base_rtt: Span) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let took = now.since(since);
        if took >= base_rtt.max(MEASURED_MIN) {
            let rate = Bitrate::of(self.bytes, took);
            self.rises = rate.as_f64() >= self.rate.as_f64() * RISING;
            self.rate = self.rate.mul_f64(FADING).max(rate);
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// Bytes that may be asked for ahead.
    pub(super) fn window(&self, base_rtt: Span) -> u64 {
        let rtts = if self.rises { WINDOW_RTTS_RISING } else { WINDOW_RTTS };
        self.rate.bytes_in(base_rtt * rtts + WINDOW_SPAN).clamp(WINDOW_MIN, STREAM_AHEAD_MAX)
    }

    /// The highest recent rate; zero while unknown.
    pub(super) fn rate(&self) -> Bitrate {
        self.rate
    }

    /// The rate that the flow may reach; `None` while unknown.
    pub(super) fn use_expected(&self) -> Option<Bitrate> {
        (self.rate > Bitrate::ZERO).then(|| self.rate.mul_f64(GROWTH).max(USE_MIN))
    }

    /// How long something may be late.
    pub(super) fn patience(rtt: Span) -> Span {
        LOST_AFTER.max(rtt * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_wider_while_the_rate_rises() {
        let (mut stream, rtt) = (Stream::default(), Span::from_millis(100));
        let mut window = |millis: u64, bytes: u64| {
            stream.on_data(Time::ZERO + Span::from_millis(millis), bytes, rtt);
            stream.window(rtt)
        };
        window(0, 0);
        assert_eq!(window(100, 1_000_000), 9_000_000, "10 MB/s, and nothing before: 900 ms of it");
        assert_eq!(window(200, 2_000_000), 18_000_000);
        assert_eq!(window(300, 2_000_000), 10_000_000, "500 ms of it");
    }

    #[test]
    fn window_follows_the_stream_s_rate_and_outlasts_a_pause_of_it() {
        let (mut stream, rtt) = (Stream::default(), Span::from_millis(100));
        assert_eq!((stream.window(rtt), stream.use_expected()), (WINDOW_MIN, None));
        let mut now = Time::ZERO;
        for _ in 0..1000 {
            stream.on_data(now, 10_000, rtt);
            now += Span::from_millis(1);
        }
        // 80 Mbit/s, 10 MB/s: 500 ms of it.
        let window = stream.window(rtt);
        assert!((5_000_000..5_100_000).contains(&window), "{window}");
        stream.on_data(now + Span::from_millis(400), 10_000, rtt);
        assert!(stream.window(rtt) > window / 10 * 8);
        assert!(stream.use_expected().unwrap() > Bitrate::from_mbps(140));
        for _ in 0..1000 {
            now += Span::from_millis(10);
            stream.on_data(now, 10_000_000, rtt);
        }
        assert_eq!(stream.window(rtt), STREAM_AHEAD_MAX);
    }
}
