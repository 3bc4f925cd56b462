//! A forecast in memory that two threads share without a lock, so that an interrupted thread does not hold the other
//! up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::Pause;

use super::Forecast;

/// Stands for none: a pause and a rate are never zero.
const NONE: u64 = 0;

/// See the module's description. One thread writes.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Odd during a write.
    version: AtomicU64,
    start: AtomicU64,
    length: AtomicU64,
    intake: AtomicU64,
    scarce: AtomicBool,
}

impl Published {
    /// Replaces the forecast.
    pub(super) fn set(&self, forecast: Forecast) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::SeqCst);
        let pause = forecast.pause.unwrap_or(Pause { start: Time::ZERO, length: Span::ZERO });
        self.start.store(pause.start.as_nanos(), Ordering::SeqCst);
        self.length.store(pause.length.as_nanos(), Ordering::SeqCst);
        self.intake.store(forecast.intake.map_or(NONE, Bitrate::bps), Ordering::SeqCst);
        self.scarce.store(forecast.scarce, Ordering::SeqCst);
        self.version.store(version.wrapping_add(2), Ordering::SeqCst);
    }

    /// The forecast, if its version is not `seen`. `None` also during a write.
    pub(super) fn news(&self, seen: &mut u64) -> Option<Forecast> {
        let version = self.version.load(Ordering::Acquire);
        if version == *seen || version % 2 == 1 {
            return None;
        }
        let read = |word: &AtomicU64| word.load(Ordering::SeqCst);
        let (start, length, intake) = (read(&self.start), read(&self.length), read(&self.intake));
        let scarce = self.scarce.load(Ordering::SeqCst);
        if self.version.load(Ordering::SeqCst) != version {
            return None;
        }
        *seen = version;
        let pause = Pause { start: Time::from_nanos(start), length: Span::from_nanos(length) };
        Some(Forecast {
            pause: (length != NONE).then_some(pause),
            intake: (intake != NONE).then(|| Bitrate::from_bps(intake)),
            scarce,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_told_once_and_whole() {
        let published = Published::default();
        let mut seen = 0;
        assert_eq!(published.news(&mut seen), None);
        let pause = Pause { start: Time::from_nanos(7), length: Span::from_millis(3) };
        let forecast = Forecast { pause: Some(pause), intake: Some(Bitrate::from_mbps(5)), scarce: true };
        published.set(forecast);
        assert_eq!(published.news(&mut seen), Some(forecast));
        assert_eq!(published.news(&mut seen), None);
        published.set(Forecast::default());
        assert_eq!(published.news(&mut seen), Some(Forecast::default()));
    }

    #[test]
    fn what_is_read_was_written_as_one() {
        let published = std::sync::Arc::new(Published::default());
        let writer = std::sync::Arc::clone(&published);
        let thread = std::thread::spawn(move || {
            for number in 1..50_000u64 {
                let pause = Pause { start: Time::from_nanos(number), length: Span::from_nanos(number) };
                let intake = Some(Bitrate::from_bps(number));
                writer.set(Forecast { pause: Some(pause), intake, scarce: number % 2 == 1 });
            }
        });
        let mut seen = 0;
        while !thread.is_finished() {
            if let Some(Forecast { pause: Some(pause), intake: Some(intake), scarce }) = published.news(&mut seen) {
                assert_eq!(scarce, pause.length.as_nanos() % 2 == 1);
                assert_eq!((pause.start.as_nanos(), intake.bps()), (pause.length.as_nanos(), pause.length.as_nanos()));
            }
        }
        thread.join().unwrap();
    }
}
