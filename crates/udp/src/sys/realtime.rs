//! Running before others: real-time priority, or a lower nice value.

use std::io;

use libc::{c_int, sched_param};

/// Has the calling thread run whenever it wants to, before all threads of ordinary priority.
///
/// # Errors
/// When the system does not permit it: root, `CAP_SYS_NICE` or `RLIMIT_RTPRIO` does.
pub(crate) fn set_realtime() -> io::Result<()> {
    // SAFETY: `sched_param` is plain data, for which all zeros are a value.
    let mut param: sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = 1;
    let policy: c_int = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` is a whole `sched_param`, which the kernel only reads; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
