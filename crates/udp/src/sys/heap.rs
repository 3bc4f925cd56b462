//! Freed memory that the allocator keeps.

/// Returns freed memory from the allocator to the system. Call it after something large, and not often: it looks at all
/// free memory. Does nothing with an allocator that does so by itself.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and locks what it looks at (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From now on the allocator keeps little freed memory, also in the arenas of threads, which [`give_back_memory`] does
/// not reach. For our own processes, before they start threads: the thresholds are global.
pub fn keep_little_memory() {
    /// Most free memory that is kept at the end of an arena.
    #[cfg(target_env = "gnu")]
    const KEPT_BYTES: i32 = 1 << 20;
    /// Allocations from this size on are mapped separately. It is set here because setting the other threshold turns
    /// glibc's own adjustment off.
    #[cfg(target_env = "gnu")]
    const LARGE_BYTES: i32 = 4 << 20;
    #[cfg(target_env = "gnu")]
    // SAFETY: they take no pointers, and set numbers of the allocator under its lock (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
