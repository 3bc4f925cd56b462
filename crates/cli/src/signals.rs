//! Signals: Ctrl-C and SIGTERM stop a command; others request an action.
//!
//! A signal that is ignored when the program starts stays ignored, as `nohup` and a shell's background jobs want it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inhaul_mover::{Ask, MoveError, Stop};

use crate::exit;

/// A flag that Ctrl-C or SIGTERM sets; the second time the program ends at once.
pub(crate) fn stop_on_signals() -> Result<Stop, MoveError> {
    let stop = Stop::new();
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if is_ignored(signal) {
            continue;
        }
        // In this order: the first signal finds the flag not set yet.
        let flag: Arc<AtomicBool> = stop.flag();
        let interrupted = i32::from(exit::code(inhaul_mover::ErrorKind::Interrupted));
        signal_hook::flag::register_conditional_shutdown(signal, interrupted, Arc::clone(&flag)).map_err(system)?;
        signal_hook::flag::register(signal, flag).map_err(system)?;
    }
    // A file beyond the user's limit (ulimit -f) is an error of the call that makes it, and not the end of the
    // program.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map_err(system)?;
    Ok(stop)
}

/// A flag that a signal sets, rather than ends the program.
pub(crate) fn ask_by_signal(signal: i32) -> Result<Ask, MoveError> {
    let ask = Ask::default();
    if is_ignored(signal) {
        return Ok(ask);
    }
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    signal_hook::flag::register(signal, ask.flag()).map_err(system)?;
    Ok(ask)
}

/// Whether a signal is ignored now: as it was inherited, as long as nothing here handles it.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, signal)
}

/// Whether proc_pid_status(5) lists a signal as ignored.
fn is_in_mask(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal - 1).ok().and_then(|at| 1_u64.checked_shl(at));
    bit.is_some_and(|bit| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tinhaul\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001003\nSigCgt:\tffffffffffffffff\n";
        let ignored: Vec<i32> = (0..66).filter(|&signal| is_in_mask(status, signal)).collect();
        assert_eq!(ignored, [1, 2, 13]);
        assert!(!is_in_mask("", 1) && !is_in_mask("SigIgn:\tx\n", 1));
    }
}
