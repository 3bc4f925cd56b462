//! Where the bytes of a message land: heads in one area, bodies in the user's memory, the rest in a buffer.

use std::io::IoSliceMut;

/// Largest message of a socket, in bytes, rounded up.
pub(super) const MESSAGE_BYTES: usize = 1 << 16;

/// Longest head for a layout. With a longer one, messages are received plainly.
pub(super) const HEAD_BYTES_MAX: usize = 1024;

/// The shape of the expected datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) head_len: usize,
    pub(super) body_len: usize,
}

impl Shape {
    /// Length of a whole datagram.
    pub(super) const fn datagram_len(self) -> usize {
        self.head_len + self.body_len
    }

    /// Most datagrams of this shape in one message; the last may be short.
    pub(super) const fn datagrams_max(self) -> usize {
        MESSAGE_BYTES.div_ceil(self.datagram_len())
    }
}

/// How one message is scattered: `full` times a head and a body; then perhaps a head and a body of `tail` bytes (the
/// end of the window); then a buffer for the rest.
///
/// Message `m + 1` is laid out as if message `m` filled all of its slots. If it does not, bodies are misplaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    /// The first body's offset in the window.
    pub(super) window_at: usize,
    pub(super) full: usize,
    pub(super) tail: usize,
}

/// A place in memory: its area, and the offset in the area (or in the message's part of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// In the message's part of the heads.
    Head(usize),
    /// In the user's memory.
    Window(usize),
    /// In the message's buffer.
    Buffer(usize),
}

impl Layout {
    /// Everything goes to the buffer.
    pub(super) const PLAIN: Self = Self { shape: Shape { head_len: 0, body_len: 1 }, window_at: 0, full: 0, tail: 0 };

    /// The layout of a message whose first body belongs at `window_at` of a window of `window_len` bytes, with room
    /// for at most `slots` datagrams.
    pub(super) fn new(shape: Shape, window_at: usize, window_len: usize, slots: usize) -> Self {
        let room = window_len.saturating_sub(window_at);
        let full = (room / shape.body_len).min(slots);
        let tail = if full < slots { room - full * shape.body_len } else { 0 };
        Self { shape, window_at, full, tail }
    }

    /// How many datagrams have a slot.
    pub(super) const fn slots(&self) -> usize {
        self.full + (self.tail > 0) as usize
    }

    /// How many bytes of the window it covers.
    pub(super) const fn window_len(&self) -> usize {
        self.full * self.shape.body_len + self.tail
    }

    /// Whether all of a message of `len` bytes lands in slots.
    pub(super) const fn holds(&self, len: usize) -> bool {
        let tail = if self.tail > 0 { self.shape.head_len + self.tail } else { 0 };
        len <= self.full * self.shape.datagram_len() + tail
    }

    /// Where byte `at` of the message lands, and how many bytes follow it there in memory.
    pub(super) fn locate(&self, at: usize) -> (Spot, usize) {
        let Shape { head_len, body_len } = self.shape;
        let datagram_len = self.shape.datagram_len();
        let slot = (at / datagram_len).min(self.full);
        let rest = at - slot * datagram_len;
        let body_len = if slot < self.full { body_len } else { self.tail };
        if slot == self.slots() {
            return (Spot::Buffer(rest), usize::MAX);
        }
        if rest < head_len {
            (Spot::Head(slot * head_len + rest), head_len - rest)
        } else if rest < head_len + body_len {
            let in_body = rest - head_len;
            (Spot::Window(self.window_at + slot * self.shape.body_len + in_body), body_len - in_body)
        } else {
            (Spot::Buffer(rest - head_len - body_len), usize::MAX)
        }
    }

    /// The pieces of memory that the bytes `[start, end)` of the message lie in, in order.
    pub(super) fn spots(&self, start: usize, end: usize) -> impl Iterator<Item = (Spot, usize)> {
        let mut at = start;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (spot, room) = self.locate(at);
                let len = room.min(end - at);
                at += len;
                (spot, len)
            })
        })
    }

    /// Appends the slices to receive into. `heads` and `buffer` are the message's own. `window` is the rest of the
    /// window that no earlier message covers; this message's part is split off.
    pub(super) fn append_slices<'b>(
        &self,
        mut heads: &'b mut [u8],
        window: &mut &'b mut [u8],
        buffer: &'b mut [u8],
        slices: &mut Vec<IoSliceMut<'b>>,
    ) {
        for slot in 0..self.slots() {
            let body_len = if slot < self.full { self.shape.body_len } else { self.tail };
            let (head, other_heads) = heads.split_at_mut(self.shape.head_len);
            let (body, other_window) = std::mem::take(window).split_at_mut(body_len);
            slices.push(IoSliceMut::new(head));
            slices.push(IoSliceMut::new(body));
            (heads, *window) = (other_heads, other_window);
        }
        slices.push(IoSliceMut::new(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locate_walks_slots_then_the_short_slot_then_the_buffer() {
        let layout = Layout::new(Shape { head_len: 2, body_len: 10 }, 10, 35, 8);
        assert_eq!((layout.full, layout.tail, layout.slots(), layout.window_len()), (2, 5, 3, 25));
        let spots: Vec<_> = layout.spots(11, 40).collect();
        assert_eq!(
            spots,
            [
                (Spot::Window(19), 1),
                (Spot::Head(2), 2),
                (Spot::Window(20), 10),
                (Spot::Head(4), 2),
                (Spot::Window(30), 5),
                (Spot::Buffer(0), 9),
            ]
        );
        assert_eq!(Layout::PLAIN.locate(7), (Spot::Buffer(7), usize::MAX));
    }

    #[test]
    fn append_slices_agrees_with_locate() {
        let layout = Layout::new(Shape { head_len: 3, body_len: 7 }, 0, 17, 8);
        let (mut heads, mut window, mut buffer) = ([0u8; 9], [0u8; 17], [0u8; 12]);
        let mut slices = Vec::new();
        layout.append_slices(&mut heads, &mut &mut window[..], &mut buffer, &mut slices);
        let mut next = 0u8;
        for byte in slices.iter_mut().flat_map(|slice| slice.iter_mut()) {
            *byte = next;
            next += 1;
        }
        for at in 0..next {
            let found = match layout.locate(usize::from(at)).0 {
                Spot::Head(spot) => heads[spot],
                Spot::Window(spot) => window[spot],
                Spot::Buffer(spot) => buffer[spot],
            };
            assert_eq!(found, at);
        }
    }
}
