//! When the calling thread runs: how long before another has its turn, or only when nobody else would.

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

/// Asks for turns of so many nanoseconds at most, from 0.1 to 100 ms, in return for which the thread is sooner on
/// again: since Linux
/// 6.12 one that wakes up takes the processor from another whose turns are longer. Its share of the processor stays as
/// it is.
///
/// # Errors
/// When the kernel refuses. Kernels before 6.12 do not, and ignore it.
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

/// Has the thread run only when nobody else wants its processor.
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
