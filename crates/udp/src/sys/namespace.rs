//! Namespaces of the calling thread, and the end of its children.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use inhaul_base::Span;
use rustix::thread::UnshareFlags;

/// Namespaces that a thread can leave for new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Users and privileges, which an ordinary user needs for all the others. Only for a process with a single thread.
    pub user: bool,
    /// Mount points.
    pub mount: bool,
    /// Processes: the children are in the new one, and the first of them is its init.
    pub process: bool,
    /// Network devices, addresses, routes and ports.
    pub network: bool,
    /// The host's name.
    pub host_name: bool,
}

/// Moves the calling thread into new namespaces.
///
/// # Errors
/// When the thread may not: an ordinary user needs `user` beside the others, and a system that allows it.
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    let flags = [
        (namespaces.user, UnshareFlags::NEWUSER),
        (namespaces.mount, UnshareFlags::NEWNS),
        (namespaces.process, UnshareFlags::NEWPID),
        (namespaces.network, UnshareFlags::NEWNET),
        (namespaces.host_name, UnshareFlags::NEWUTS),
    ];
    let flags = flags.into_iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag).collect();
    // SAFETY: `UnshareFlags::FILES`, which could take descriptors from other threads, is never among the flags.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// A child that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedChild {
    /// Its process id.
    pub pid: i32,
    /// How it ended.
    pub status: ExitStatus,
    /// The processor time of it and of the children that it has waited for.
    pub cpu: Span,
}

/// Reaps an ended child of the calling process; `None`: none has ended, or there is none.
///
/// When the kernel refuses.
pub fn reap_child() -> io::Result<Option<EndedChild>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointers are to places for one status and one `rusage`.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    if pid < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    }
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: all zeros is a legal `rusage`, and the kernel has written it.
    let usage = unsafe { usage.assume_init() };
    let span = |time: libc::timeval| Span::from_secs(time.tv_sec as u64) + Span::from_micros(time.tv_usec as u64);
    let cpu = span(usage.ru_utime) + span(usage.ru_stime);
    Ok(Some(EndedChild { pid, status: ExitStatus::from_raw(status), cpu }))
}
