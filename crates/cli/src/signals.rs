//! Signals: Ctrl-C and SIGTERM stop a command; others request an action.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inhaul_mover::{Ask, MoveError, Stop};

use crate::exit;

/// A flag that Ctrl-C or SIGTERM sets; the second time the program ends at once.
pub(crate) fn stop_on_signals() -> Result<Stop, MoveError> {
    let stop = Stop::new();
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
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
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    signal_hook::flag::register(signal, ask.flag()).map_err(system)?;
    Ok(ask)
}
