//! Memory that the allocator keeps.

/// Gives memory back to the system that was freed and is kept by the allocator for what is to come: after something
/// large, and not often, as it looks at all that is free. An allocator that does so by itself is left alone.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and locks what it looks at (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From now on the allocator keeps little of what is freed, in the memory of threads too, which [`give_back_memory`] does
/// not reach. For a process that is ours, before it has threads: the thresholds hold for all of it.
pub fn keep_little_memory() {
    /// Free memory at the end of a thread's memory that is kept.
    #[cfg(target_env = "gnu")]
    const KEPT_BYTES: i32 = 1 << 20;
    /// What is at least as large is memory of its own. Given here, as the other threshold ends what glibc finds by itself.
    #[cfg(target_env = "gnu")]
    const LARGE_BYTES: i32 = 4 << 20;
    #[cfg(target_env = "gnu")]
    // SAFETY: they take no pointers, and set numbers of the allocator under its lock (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
