//! The kernel's counters of the calling thread.

/// How often the calling thread has left its processor to wait.
pub(crate) fn voluntary_switches() -> u64 {
    // SAFETY: `rusage` is plain data, for which all zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a whole `rusage` to where it is told.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if result == 0 { u64::try_from(usage.ru_nvcsw).unwrap_or(0) } else { 0 }
}
