//! When to try again: after times that double, and are not the same for everybody who lost the same server.

use std::time::Duration;

use inhaul_base::RandomStream;

use crate::api::error::MoveError;
use crate::system::process;

/// The longest that the first wait may be; each further one may be twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// No wait is longer than this.
const LONGEST: Duration = Duration::from_secs(30);

/// Exponential back-off with jitter: the nth wait is drawn between half of `FIRST * 2^n` and all of it.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    random: RandomStream,
}

impl Backoff {
    /// Begins as if so many tries had failed already.
    pub fn after(failures: u32) -> Result<Self, MoveError> {
        Ok(Self { failures, random: RandomStream::new(process::random_u64()?, 0) })
    }

    /// How long to wait before the next try.
    pub fn next_wait(&mut self) -> Duration {
        let most = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        most.mul_f64(0.5 + self.random.unit() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_half_a_second_to_half_a_minute_and_differ() {
        let mut backoff = Backoff { failures: 0, random: RandomStream::new(7, 0) };
        let waits: Vec<f64> = (0..40).map(|_| backoff.next_wait().as_secs_f64()).collect();
        for (k, wait) in waits.iter().enumerate() {
            let most = (0.5 * 2f64.powi(k as i32)).min(30.0);
            assert!((most / 2.0..=most).contains(wait), "{k}: {wait}");
        }
        let late = &waits[10..];
        assert!(late.iter().any(|wait| (wait - late[0]).abs() > 1.0), "no jitter: {late:?}");
    }

    #[test]
    fn waits_begin_where_an_earlier_failure_has_left_off() {
        let mut backoff = Backoff { failures: 4, random: RandomStream::new(7, 0) };
        let wait = backoff.next_wait().as_secs_f64();
        assert!((4.0..=8.0).contains(&wait), "{wait}");
        assert!(Backoff::after(u32::MAX).unwrap().next_wait() <= LONGEST);
    }
}
