//! A flood of legal frames in one session, at either end: stack, memory and work are bounded.
//!
//! `INHAUL_FLOOD_FRAMES` sets their number, and `INHAUL_FUZZ_SEED` chooses them.

use inhaul_mover::fuzzing::{Flood, flood};

/// The stack of the receiving thread.
const STACK: usize = 128 * 1024;
/// The default number of frames.
const FRAMES: u64 = 200_000;
/// Frames that may be ignored, at once: see the session's protocol.
const IGNORED_MAX: u64 = 4096;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn flooded(frames: u64, optional_every: u64) -> Flood {
    let seed = setting("INHAUL_FUZZ_SEED", 1);
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || flood(seed, frames, optional_every));
    let came = thread.expect("a thread can be made").join().expect("it ends by itself");
    println!("{frames} frames of INHAUL_FUZZ_SEED={seed}, one in {optional_every} may be ignored: {came:?}");
    assert!(came.held_max <= 1 << 20, "{came:?}");
    came
}

#[test]
fn legal_frames_go_on_for_ever() {
    let frames = setting("INHAUL_FLOOD_FRAMES", FRAMES);
    let came = flooded(frames, 0);
    assert_eq!((came.sent, came.taken, came.is_ended), (frames, frames, false));
}

#[test]
fn a_few_of_them_may_be_ignored() {
    let came = flooded(FRAMES, 1000);
    assert!(!came.is_ended && came.taken < came.sent, "{came:?}");
}

#[test]
fn frames_that_may_be_ignored_end_the_session_after_a_bounded_number() {
    let frames = setting("INHAUL_FLOOD_FRAMES", FRAMES);
    for every in [1, 2, 10] {
        let came = flooded(frames, every);
        assert!(came.is_ended && came.sent < IGNORED_MAX * every * 2, "{came:?}");
    }
}
