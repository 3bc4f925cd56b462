//! Lists of memory that the kernel is to read.

use std::marker::PhantomData;

/// One piece of memory for the kernel to read, valid for `'a`. It may be mapped file memory, so nobody here reads it.
#[repr(transparent)]
pub(super) struct IoVec<'a>(libc::iovec, PhantomData<&'a [u8]>);

// SAFETY: it stands for a shared borrow of bytes that only the kernel reads, and such a borrow may change threads.
unsafe impl Send for IoVec<'_> {}

/// Pieces of memory for the kernel to read, in order: what a message is gathered from. All of them are valid for `'a`.
#[derive(Default)]
pub struct IoVecs<'a> {
    pieces: Vec<IoVec<'a>>,
    bytes: usize,
}

impl<'a> IoVecs<'a> {
    /// An empty list.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), bytes: 0 }
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &'a [u8]) {
        self.push_raw(bytes.as_ptr(), bytes.len());
    }

    /// Appends `len` bytes from `base`.
    ///
    /// The caller, in this module, sees to it that the memory stays mapped for `'a`. The bytes need not be readable: the
    /// kernel answers with `EFAULT` when they are not.
    pub(super) fn push_raw(&mut self, base: *const u8, len: usize) {
        if len > 0 {
            self.pieces.push(IoVec(libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len }, PhantomData));
            self.bytes += len;
        }
    }

    /// Appends `len` bytes from `at` on of the only piece of `whole`; cut to what there is.
    pub(crate) fn push_part(&mut self, whole: &Self, at: usize, len: usize) {
        let Some(piece) = whole.pieces.first() else { return };
        let at = at.min(piece.0.iov_len);
        // Within the piece, so valid as long as the piece is.
        self.push_raw(piece.0.iov_base.cast::<u8>().wrapping_add(at), len.min(piece.0.iov_len - at));
    }

    /// How many bytes there are in all pieces together.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many pieces there are.
    pub const fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is no piece.
    pub const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes back all but the first `len` pieces.
    pub(crate) fn truncate(&mut self, len: usize) {
        for piece in self.pieces.drain(len.min(self.pieces.len())..) {
            self.bytes -= piece.0.iov_len;
        }
    }

    /// An empty list for any lifetime that keeps this one's memory.
    pub(crate) fn recycle<'b>(mut self) -> IoVecs<'b> {
        self.pieces.clear();
        // Nothing is left to convert; collecting in place keeps the allocation.
        let pieces = self.pieces.into_iter().map(|piece| IoVec(piece.0, PhantomData)).collect();
        IoVecs { pieces, bytes: 0 }
    }

    /// The pieces `range`, cut to those that there are.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> &[IoVec<'a>] {
        let end = range.end.min(self.pieces.len());
        &self.pieces[range.start.min(end)..end]
    }
}
