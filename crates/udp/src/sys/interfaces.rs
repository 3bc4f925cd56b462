//! The addresses of this machine's interfaces.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::ptr;

use super::address::RawAddress;

/// The list that `getifaddrs` allocated; freed when dropped.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a successful `getifaddrs` and is freed once.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

/// Every pair of interface name and address on this machine.
///
/// When the kernel does not list them.
pub(crate) fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let mut head = ptr::null_mut();
    // SAFETY: `head` is a valid place for the list's pointer.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(head);
    let mut found = Vec::new();
    let mut at = list.0;
    while !at.is_null() {
        // SAFETY: `at` is an entry of the list, which lives until `list` is dropped.
        let entry = unsafe { &*at };
        // SAFETY: the entry's address is null or a whole socket address.
        if let Some(address) = unsafe { RawAddress::read(entry.ifa_addr) } {
            // SAFETY: the entry's name is a string that ends in a zero byte.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), address.ip()));
        }
        at = entry.ifa_next;
    }
    Ok(found)
}
