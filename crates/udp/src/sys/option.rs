//! Socket options that are one integer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, socklen_t};

const INT_LEN: socklen_t = size_of::<c_int>() as socklen_t;

/// Sets the option `name` of `level`.
///
/// # Errors
/// When the kernel refuses or does not know it.
pub(crate) fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), INT_LEN) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The value of the option `name` of `level`.
///
/// # Errors
/// When the kernel refuses or does not know it.
pub(crate) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = INT_LEN;
    // SAFETY: the pointers describe `value` and its length.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
