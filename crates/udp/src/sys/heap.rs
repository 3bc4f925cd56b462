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
