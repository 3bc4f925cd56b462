//! Gathered writes, split at the borders of files.

use std::io::IoSlice;

use rustix::io::Errno;

/// Most slices of one system call (IOV_MAX).
const SLICES_MAX: usize = 1024;

/// Slices, consumed from the front.
pub(super) struct Gather<'a> {
    slices: &'a [IoSlice<'a>],
    /// Consumed bytes of the first slice.
    used: usize,
}

impl<'a> Gather<'a> {
    pub(super) fn new(slices: &'a [IoSlice<'a>]) -> Self {
        Self { slices, used: 0 }
    }

    /// The next `len` bytes, or all that are left, in nonempty slices.
    pub(super) fn take(&mut self, len: usize) -> Vec<IoSlice<'a>> {
        let mut taken = Vec::with_capacity(self.slices.len());
        let mut wanted = len;
        while wanted > 0
            && let Some((first, rest)) = self.slices.split_first()
        {
            let unused = &first[self.used..];
            let part = &unused[..unused.len().min(wanted)];
            if !part.is_empty() {
                taken.push(IoSlice::new(part));
            }
            wanted -= part.len();
            if part.len() == unused.len() {
                self.slices = rest;
                self.used = 0;
            } else {
                self.used += part.len();
            }
        }
        taken
    }
}

/// Writes all of `bufs` (none of them empty) from `offset` on, by calls of `write`, which may write less than given.
pub(super) fn write_fully(
    mut bufs: &mut [IoSlice<'_>],
    mut offset: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    while !bufs.is_empty() {
        match write(&bufs[..bufs.len().min(SLICES_MAX)], offset) {
            // A file that takes nothing without an error: how some systems report a full disk.
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut bufs, written);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn write_fully_passes_errors_on_and_repeats_interrupted_calls() {
        let mut calls = vec![Err(Errno::NOSPC), Ok(2), Err(Errno::INTR), Ok(1)];
        let mut offsets = Vec::new();
        let done = write_fully(&mut [IoSlice::new(b"hello")], 10, |_, offset| {
            offsets.push(offset);
            calls.pop().unwrap()
        });
        assert_eq!(done, Err(Errno::NOSPC));
        assert_eq!(offsets, [10, 11, 11, 13]);
        assert_eq!(write_fully(&mut [IoSlice::new(b"x")], 0, |_, _| Ok(0)), Err(Errno::NOSPC));
    }

    #[test]
    fn write_fully_reports_a_full_device() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = write_fully(&mut [IoSlice::new(b"x")], 0, |bufs, at| rustix::io::pwritev(&full, bufs, at));
        assert_eq!(done, Err(Errno::NOSPC));
    }

    proptest! {
        #[test]
        fn every_byte_is_written_once_in_order(
            lens in prop::collection::vec(0usize..40, 0..60),
            cuts in prop::collection::vec(1usize..200, 0..20),
            short in 1usize..50,
        ) {
            let bytes: Vec<Vec<u8>> = lens.iter().enumerate().map(|(i, &len)| vec![i as u8; len]).collect();
            let slices: Vec<_> = bytes.iter().map(|b| IoSlice::new(b)).collect();
            let mut gather = Gather::new(&slices);
            let mut written = Vec::new();
            for len in cuts.into_iter().chain([usize::MAX]) {
                let mut bufs = gather.take(len);
                let start = written.len();
                write_fully(&mut bufs, start as u64, |bufs, at| {
                    assert_eq!(at, written.len() as u64);
                    let before = written.len();
                    written.extend(bufs.iter().flat_map(|b| b.iter().copied()).take(short));
                    Ok(written.len() - before)
                }).unwrap();
                prop_assert!(written.len() - start <= len);
            }
            prop_assert_eq!(written, bytes.concat());
        }

        #[test]
        fn one_call_takes_no_more_slices_than_the_system(count in 0usize..3000) {
            let slices = vec![IoSlice::new(b"x"); count];
            let mut bufs = Gather::new(&slices).take(count);
            let mut calls = 0;
            write_fully(&mut bufs, 0, |bufs, _| {
                assert!(bufs.len() <= SLICES_MAX);
                calls += 1;
                Ok(bufs.len())
            }).unwrap();
            prop_assert_eq!(calls, count.div_ceil(SLICES_MAX));
        }
    }
}
