//! Which of the standard streams this process was started without.
//!
//! Rust's runtime opens `/dev/null` in place of each closed one before `main`. After that it cannot be seen: what is
//! written there is lost without an error. So this looks earlier.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C library calls this section's functions before `main`, and so before Rust's runtime.
// SAFETY: the section holds pointers to functions of C; this one needs nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asking for a descriptor's flags changes nothing, whatever its number is.
    let is_closed = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
    INPUT_CLOSED.store(is_closed(libc::STDIN_FILENO), Ordering::Relaxed);
    OUTPUT_CLOSED.store(is_closed(libc::STDOUT_FILENO), Ordering::Relaxed);
}

/// Whether standard input was closed when the process began.
pub fn is_input_closed() -> bool {
    INPUT_CLOSED.load(Ordering::Relaxed)
}

/// Whether standard output was closed when the process began.
pub fn is_output_closed() -> bool {
    OUTPUT_CLOSED.load(Ordering::Relaxed)
}
