//! When a thread of this process left the processor and came back: the kernel's record of context switches
//! (`perf_event_open`, a dummy event with `context_switch`). A user may watch own threads up to `perf_event_paranoid`
//! 2, the kernel's default.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` in its fifth version (Linux 4.1).
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TYPE_SOFTWARE: u32 = 1;
const COUNT_SW_DUMMY: u64 = 9;
const SAMPLE_TIME: u64 = 1 << 2;
const FLAG_DISABLED: u64 = 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;
const OPEN_CLOEXEC: u64 = 8;
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;

const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Pages of the ring: a power of two; 64 KiB hold 4,096 switches.
const RING_PAGES: usize = 16;
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// A recorded event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It left the processor, at this reading of `CLOCK_MONOTONIC` in nanoseconds.
    Out {
        /// When.
        at: u64,
        /// It was preempted: another thread got the processor, or its quota was used up.
        preempted: bool,
    },
    /// It has the processor again.
    In {
        /// When.
        at: u64,
    },
    /// Switches were lost here, because the ring was full.
    Lost,
}

/// The ring in which the kernel records a thread's switches.
#[derive(Debug)]
pub(crate) struct SwitchRing {
    fd: OwnedFd,
    memory: NonNull<u8>,
    page: usize,
}

// SAFETY: the memory is mapped for as long as the ring lives and is used through it only, by one thread at a time.
unsafe impl Send for SwitchRing {}

impl SwitchRing {
    /// Prepares to record the switches of a thread of this process, by its kernel id; 0: the calling one.
    ///
    /// When the kernel refuses (`perf_event_paranoid` above 2, a sandbox), or lacks these events.
    pub(crate) fn of_thread(thread: i32) -> io::Result<Self> {
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: COUNT_SW_DUMMY,
            sample_type: SAMPLE_TIME,
            flags: FLAG_DISABLED
                | FLAG_EXCLUDE_KERNEL
                | FLAG_EXCLUDE_HV
                | FLAG_SAMPLE_ID_ALL
                | FLAG_USE_CLOCKID
                | FLAG_CONTEXT_SWITCH,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        // SAFETY: `attr` is a whole `perf_event_attr` of the size that it says; the kernel only reads it.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, thread, -1, -1, OPEN_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let page = rustix::param::page_size();
        let len = (RING_PAGES + 1) * page;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { fd, memory, page })
    }

    /// Turns the record on or off.
    ///
    /// # Errors
    /// When the thread has ended.
    pub(crate) fn record(&self, on: bool) -> io::Result<()> {
        let request = if on { IOC_ENABLE } else { IOC_DISABLE };
        // SAFETY: neither request has an argument.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both counters are aligned words of the first page, which is mapped for as long as `self` lives; the
        // kernel writes one of them concurrently, which an atomic allows for.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    /// A byte of the ring.
    fn byte(&self, at: u64) -> u8 {
        let offset = (at % (RING_PAGES * self.page) as u64) as usize;
        // SAFETY: the offset is within the ring, behind the first page. The kernel does not write what lies between
        // tail and head, and nothing else is read; a value that it wrote meanwhile would be a wrong number only.
        unsafe { self.memory.as_ptr().add(self.page + offset).read_volatile() }
    }

    fn bytes<const N: usize>(&self, at: u64) -> [u8; N] {
        std::array::from_fn(|k| self.byte(at + k as u64))
    }

    /// Calls `hear` with the events since the last call, in order.
    pub(crate) fn drain(&mut self, hear: &mut dyn FnMut(Switch)) {
        let head = self.counter(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = self.counter(DATA_TAIL).load(Ordering::Relaxed);
        while tail < head {
            let kind = u32::from_ne_bytes(self.bytes(tail));
            let misc = u16::from_ne_bytes(self.bytes(tail + 4));
            let len = u64::from(u16::from_ne_bytes(self.bytes(tail + 6)));
            if len < 8 {
                // Not a record: the rest cannot be read either.
                tail = head;
                break;
            }
            match kind {
                RECORD_SWITCH if len >= 16 => {
                    let at = u64::from_ne_bytes(self.bytes(tail + 8));
                    hear(if misc & MISC_SWITCH_OUT == 0 {
                        Switch::In { at }
                    } else {
                        Switch::Out { at, preempted: misc & MISC_SWITCH_OUT_PREEMPT != 0 }
                    });
                }
                RECORD_LOST => hear(Switch::Lost),
                _ => {}
            }
            tail += len;
        }
        self.counter(DATA_TAIL).store(tail, Ordering::Release);
    }
}

impl Drop for SwitchRing {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), (RING_PAGES + 1) * self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_yields_the_processor_is_seen_to_leave_and_to_return() {
        // Where users may not watch their threads there is nothing to test.
        let Ok(mut ring) = SwitchRing::of_thread(0) else { return };
        ring.record(true).unwrap();
        // To wait for nothing leaves the processor for sure.
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        rustix::event::poll(&mut [], Some(&wait)).unwrap();
        ring.record(false).unwrap();
        let mut seen = Vec::new();
        ring.drain(&mut |switch| seen.push(switch));
        assert!(!seen.is_empty());
        let times: Vec<u64> = seen
            .iter()
            .filter_map(|switch| match *switch {
                Switch::Out { at, .. } | Switch::In { at } => Some(at),
                Switch::Lost => None,
            })
            .collect();
        assert!(times.is_sorted(), "{seen:?}");
        let mut again = Vec::new();
        ring.drain(&mut |switch| again.push(switch));
        assert!(again.is_empty(), "each is told once");
    }
}
