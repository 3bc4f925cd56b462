//! The calling thread's scheduling: its time slice, or idle priority.

use std::io;

use inhaul_base::Span;

/// `struct sched_attr` in its first version (Linux 3.14).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Its size, in bytes.
const SIZE: u32 = size_of::<SchedAttr>() as u32;
/// `SCHED_FLAG_RESET_ON_FORK`: children have the default.
const RESET_ON_FORK: u64 = 1;

/// Asks for time slices of this length, from 0.1 to 100 ms. A thread with short slices gets the processor sooner: since
/// Linux 6.12, when it wakes up, it preempts another one with longer slices. Its share of the processor stays the same.
///
/// When the kernel refuses. Kernels before 6.12 ignore the request.
pub(crate) fn set_slice(slice: Span) -> io::Result<()> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most `SIZE` bytes to `attr`, which has them.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    if read != 0 {
        return Err(io::Error::last_os_error());
    }
    attr.runtime = slice.as_nanos();
    attr.flags |= RESET_ON_FORK;
    set(attr)
}

/// The thread runs only when no other wants its processor.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn set_idle() -> io::Result<()> {
    set(SchedAttr { policy: libc::SCHED_IDLE as u32, flags: RESET_ON_FORK, ..SchedAttr::default() })
}

fn set(mut attr: SchedAttr) -> io::Result<()> {
    attr.size = SIZE;
    // SAFETY: `attr` is a whole `sched_attr` of the size that it says.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
