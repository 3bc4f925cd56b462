//! A destination that another transfer holds.
//!
//! A process that was killed holds its lock until the kernel has taken it apart, which takes a moment if it had much
//! memory, or writes under way. The same command may come sooner.

use std::time::{Duration, Instant};

use inhaul_session::api::options::Stop;

/// So long a destination may be held before it is said that it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at it: the first time, and the longest.
const LOOK_MIN: Duration = Duration::from_millis(5);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Waits while this holds, for a moment at most, or until it is stopped. Whether it had to wait.
pub(super) fn wait_while(is_busy: &dyn Fn() -> bool, stop: &Stop) -> bool {
    wait_within(PATIENCE, is_busy, stop)
}

fn wait_within(patience: Duration, is_busy: &dyn Fn() -> bool, stop: &Stop) -> bool {
    let (until, mut look) = (Instant::now() + patience, LOOK_MIN);
    let mut has_waited = false;
    while is_busy() && Instant::now() < until && !stop.is_set() {
        has_waited = true;
        std::thread::sleep(look);
        look = (look * 2).min(LOOK_MAX);
    }
    has_waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn it_waits_for_a_moment_and_no_longer() {
        assert!(!wait_while(&|| false, &Stop::new()));
        let left = Cell::new(3);
        assert!(wait_while(&|| left.replace(left.get() - 1) > 0, &Stop::new()));
        assert_eq!(left.get(), -1, "it went on as soon as it could");
        let stop = Stop::new();
        stop.stop();
        assert!(!wait_while(&|| true, &stop));
        assert!(wait_within(LOOK_MIN, &|| true, &Stop::new()), "and after all it ends");
    }
}
