//! Resources of a process: open files, random numbers, processor time.

use crate::api::error::MoveError;

/// How many files and connections this process may have open. `raise`: as many as the system allows it, from now on;
/// many systems begin with 1024.
pub fn files_allowed(raise: bool) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if raise {
        // With fewer, fewer are served.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A random number that cannot be guessed.
pub fn random_u64() -> Result<u64, MoveError> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        let got = rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.map_err(|errno| MoveError::System { what: "no random numbers", source: errno.into() })?;
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// A random number that cannot be guessed.
pub fn random_u32() -> Result<u32, MoveError> {
    random_u64().map(|n| (n >> 32) as u32)
}

/// Processor time that this process has used.
pub fn cpu_time() -> inhaul_base::Span {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    inhaul_base::Span::from_nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
