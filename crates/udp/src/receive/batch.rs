//! A batch of received messages, and the delivery of their bodies.

use std::io::IoSlice;
use std::ops::Range;

use inhaul_base::ByteRange;
use inhaul_transport::{FlowId, Place, RxMessage};

use super::scatter::{Layout, Shape, Spot};
use super::window::Window;
use crate::sys::Arrival;

/// Most slices of one delivery: the limit of one write call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// The memory that messages arrive in. Message `m` of a call has part `m` of the heads and of the buffers.
pub(super) struct Memory {
    pub(super) heads: Vec<u8>,
    pub(super) heads_len: usize,
    pub(super) buffers: Vec<u8>,
    pub(super) buffer_len: usize,
    /// Messages that had to be reassembled, one after the other.
    pub(super) linear: Vec<u8>,
}

/// How the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// All in its buffer.
    Plain,
    /// By its layout; all datagrams but the last have the layout's length.
    Scattered,
    /// All in `linear`, from this offset.
    Linear(usize),
}

/// A message and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) part: usize,
    pub(super) form: Form,
    pub(super) layout: Layout,
    pub(super) arrival: Arrival,
    /// Bytes at the end of each datagram that are not shown.
    pub(super) tag_len: usize,
}

/// Reused lists.
#[derive(Default)]
pub(super) struct Work {
    pub(super) messages: Vec<Message>,
    /// Copies of bytes that lie in the window but belong elsewhere.
    stash: Vec<u8>,
    pieces: Vec<Piece>,
}

#[cfg(test)]
impl Work {
    /// Whether the last delivery found every body in its place.
    pub(super) fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.stash.is_empty()
    }
}

/// An area of memory that bodies may lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Heads,
    Buffers,
    Linear,
    Window,
    Stash,
}

/// Bytes that do not lie where they belong.
#[derive(Clone, Copy, Debug)]
struct Piece {
    area: Area,
    at: usize,
    len: usize,
    flow: FlowId,
    /// Their offset in the flow's object.
    offset: u64,
    /// Their offset in the window, if they belong there.
    window_at: Option<usize>,
}

/// Consecutive bodies of a flow's object, outside of the window.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// The flow, which identifies the object.
    pub flow: FlowId,
    /// Where in the object the bytes belong.
    pub range: ByteRange,
    /// The bytes, in order; at most as many slices as one write call takes.
    pub bodies: &'d [IoSlice<'d>],
}

/// Messages of one receive call. Show them to the endpoint, then deliver the bodies.
pub struct Batch<'r, 'w> {
    pub(super) memory: &'r Memory,
    pub(super) work: &'r mut Work,
    pub(super) window: Option<Window<'w>>,
    pub(super) shown: Vec<RxMessage<'r>>,
}

impl Memory {
    pub(super) fn new(parts: usize, buffer_len: usize) -> Self {
        Self { heads: Vec::new(), heads_len: 0, buffers: vec![0; parts * buffer_len], buffer_len, linear: Vec::new() }
    }

    /// How many messages there is room for.
    const fn len(&self) -> usize {
        self.buffers.len() / self.buffer_len
    }

    /// Makes room for the heads of messages of `shape`.
    pub(super) fn reserve_heads(&mut self, shape: Shape) {
        self.heads_len = shape.datagrams_max() * shape.head_len;
        let len = self.len() * self.heads_len;
        if self.heads.len() < len {
            self.heads.resize(len, 0);
        }
    }

    /// The heads and the buffer of each message.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = (&mut [u8], &mut [u8])> {
        let mut heads = &mut self.heads[..];
        let heads_len = self.heads_len;
        self.buffers.chunks_mut(self.buffer_len).map(move |buffer| {
            let (own, others) = std::mem::take(&mut heads).split_at_mut(heads_len);
            heads = others;
            (own, buffer)
        })
    }

    /// Copies the heads that had no slot behind those that had one.
    pub(super) fn collect_heads(&mut self, part: usize, layout: &Layout, len: usize) {
        let Shape { head_len, .. } = layout.shape;
        let datagram_len = layout.shape.datagram_len();
        for datagram in layout.slots()..len.div_ceil(datagram_len) {
            let start = datagram * datagram_len;
            let mut to = part * self.heads_len + datagram * head_len;
            for (spot, n) in layout.spots(start, (start + head_len).min(len)) {
                if let Spot::Buffer(at) = spot {
                    let from = part * self.buffer_len + at;
                    self.heads[to..to + n].copy_from_slice(&self.buffers[from..from + n]);
                }
                to += n;
            }
        }
    }

    /// Puts the bytes of a message together in `linear`, and says where they start.
    pub(super) fn linearize(&mut self, part: usize, layout: &Layout, len: usize, window: &[u8]) -> usize {
        let start = self.linear.len();
        for (spot, n) in layout.spots(0, len) {
            let bytes = match spot {
                Spot::Head(at) => &self.heads[part * self.heads_len + at..][..n],
                Spot::Window(at) => &window[at..at + n],
                Spot::Buffer(at) => &self.buffers[part * self.buffer_len + at..][..n],
            };
            self.linear.extend_from_slice(bytes);
        }
        start
    }

    /// The message as the endpoint sees it.
    pub(super) fn show(&self, index: usize, message: &Message) -> RxMessage<'_> {
        let Arrival { from, to, len, segment, waited, congested, .. } = message.arrival;
        let datagram_len = segment.saturating_sub(message.tag_len);
        let total_len = shown_len(len, segment, message.tag_len);
        let (heads, head_stride) = match message.form {
            Form::Plain => (&self.buffers[message.part * self.buffer_len..][..len], segment),
            Form::Linear(at) => (&self.linear[at..at + len], segment),
            Form::Scattered => {
                let head_len = message.layout.shape.head_len;
                let bytes = len / segment * head_len + (len % segment).min(head_len);
                (&self.heads[message.part * self.heads_len..][..bytes], head_len)
            }
        };
        RxMessage {
            index: index as u32,
            head_stride,
            datagram_len,
            total_len,
            waited,
            congested,
            to,
            ..RxMessage::single(from, heads)
        }
    }

    /// Calls `each` for every stretch of memory that the bytes `range` of the message lie in, in order: with the area,
    /// the offset in it and the length.
    fn stretches(&self, message: &Message, range: Range<usize>, mut each: impl FnMut(Area, usize, usize)) {
        let buffer = message.part * self.buffer_len;
        match message.form {
            Form::Plain => each(Area::Buffers, buffer + range.start, range.len()),
            Form::Linear(at) => each(Area::Linear, at + range.start, range.len()),
            Form::Scattered => {
                for (spot, len) in message.layout.spots(range.start, range.end) {
                    match spot {
                        Spot::Head(at) => each(Area::Heads, message.part * self.heads_len + at, len),
                        Spot::Buffer(at) => each(Area::Buffers, buffer + at, len),
                        Spot::Window(at) => each(Area::Window, at, len),
                    }
                }
            }
        }
    }
}

impl<'r> Batch<'r, '_> {
    /// The messages, in the order in which they came. A [`Place`] names them by their index.
    pub fn messages(&self) -> &[RxMessage<'r>] {
        &self.shown
    }

    /// Whether nothing has come.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Delivers every body to its place: in the window, or to `elsewhere`. The parts of the window that no place covers
    /// are unspecified.
    ///
    /// Places must not overlap. A place is cut to the bytes that came.
    ///
    /// The error of `elsewhere`, which is not called again then. The window is complete even so.
    pub fn deliver<E>(
        mut self,
        places: &[Place],
        elsewhere: impl FnMut(Delivery<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Misplaced bytes may lie where others belong, in any permutation. So all of them move from the window to the
        // stash before any byte is copied into the window. Bodies in their place are not in the way, because no two
        // places overlap.
        self.work.pieces.clear();
        self.work.stash.clear();
        for place in places {
            self.collect(place);
        }
        self.fill_window();
        self.hand_over(elsewhere)
    }

    /// The flow of the window, and the window's range of its object.
    fn target(&self) -> Option<(FlowId, ByteRange)> {
        let window = self.window.as_ref()?;
        Some((window.flow, ByteRange::at(window.expected.range.start, window.usable_len() as u64)))
    }

    /// Lists the misplaced pieces of one place.
    fn collect(&mut self, place: &Place) {
        let Some(&message) = self.work.messages.get(place.message as usize) else { return };
        if self.lies_right(place, &message) {
            return;
        }
        let Arrival { len: total, segment, .. } = message.arrival;
        let memory = self.memory;
        let mut offset = place.range.start;
        let mut datagram = place.first as usize;
        let mut head_len = place.skip as usize;
        while offset < place.range.end {
            let Some(start) = datagram.checked_mul(segment).filter(|&start| start < total) else { return };
            let end = (start + segment).min(total).saturating_sub(message.tag_len);
            let body = (start + head_len)..end.max(start + head_len);
            let wanted = usize::try_from(place.range.end - offset).unwrap_or(usize::MAX);
            let len = body.len().min(wanted);
            if len > 0 {
                memory.stretches(&message, body.start..body.start + len, |area, at, len| {
                    self.collect_stretch(area, at, len, place.flow, offset);
                    offset += len as u64;
                });
            }
            head_len = place.head_len as usize;
            datagram += 1;
        }
    }

    /// Whether all bodies of the place were received in place. This is the common case, so it is decided without a look
    /// at each datagram.
    fn lies_right(&self, place: &Place, message: &Message) -> bool {
        let Some((flow, target)) = self.target() else { return false };
        let Layout { shape, window_at, .. } = message.layout;
        if message.form != Form::Scattered || flow != place.flow || !target.contains(place.range) {
            return false;
        }
        let heads_alike = [place.skip, place.head_len].iter().all(|&len| len as usize == shape.head_len);
        // Bodies lie in the window without gaps, from the message's first slot to its last.
        let before = u64::from(place.first) * shape.body_len as u64;
        let received = window_at as u64 + before == place.range.start - target.start;
        heads_alike && received && before + place.range.len() <= message.layout.window_len() as u64
    }

    /// Lists a stretch of memory that belongs at `offset` of the flow's object, cut at the window's bounds.
    fn collect_stretch(&mut self, area: Area, at: usize, len: usize, flow: FlowId, offset: u64) {
        let whole = ByteRange::at(offset, len as u64);
        let target = self.target().filter(|&(of, target)| of == flow && !target.intersection(whole).is_empty());
        let Some((_, target)) = target else {
            self.collect_piece(Piece { area, at, len, flow, offset, window_at: None });
            return;
        };
        let inside = target.intersection(whole);
        let window_at = Some((inside.start - target.start) as usize);
        let before = ByteRange::new(whole.start, inside.start);
        let after = ByteRange::new(inside.end, whole.end);
        for (part, window_at) in [(before, None), (inside, window_at), (after, None)] {
            let at = at + (part.start - whole.start) as usize;
            self.collect_piece(Piece { area, at, len: part.len() as usize, flow, offset: part.start, window_at });
        }
    }

    /// Lists a piece, unless it is in place, and moves it out of the window.
    fn collect_piece(&mut self, mut piece: Piece) {
        if piece.len == 0 || (piece.area == Area::Window && piece.window_at == Some(piece.at)) {
            return;
        }
        if piece.area == Area::Window
            && let Some(window) = &self.window
        {
            let from = piece.at;
            (piece.area, piece.at) = (Area::Stash, self.work.stash.len());
            self.work.stash.extend_from_slice(&window.memory[from..from + piece.len]);
        }
        self.work.pieces.push(piece);
    }

    /// Copies the pieces that belong in the window into it.
    fn fill_window(&mut self) {
        let Some(window) = &mut self.window else { return };
        for piece in &self.work.pieces {
            if let Some(at) = piece.window_at {
                window.memory[at..at + piece.len].copy_from_slice(bytes(self.memory, &self.work.stash, piece));
            }
        }
    }

    /// Hands over the pieces outside of the window, consecutive ones together.
    fn hand_over<E>(&self, mut elsewhere: impl FnMut(Delivery<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut bodies = Vec::with_capacity(self.work.pieces.len().min(SLICES_MAX));
        let mut at: Option<(FlowId, ByteRange)> = None;
        for piece in self.work.pieces.iter().filter(|piece| piece.window_at.is_none()) {
            if let Some((flow, range)) = at
                && ((flow, range.end) != (piece.flow, piece.offset) || bodies.len() == SLICES_MAX)
            {
                elsewhere(Delivery { flow, range, bodies: &bodies })?;
                bodies.clear();
                at = None;
            }
            bodies.push(IoSlice::new(bytes(self.memory, &self.work.stash, piece)));
            let start = at.map_or(piece.offset, |(_, range)| range.start);
            at = Some((piece.flow, ByteRange::new(start, piece.offset + piece.len as u64)));
        }
        match at {
            Some((flow, range)) => elsewhere(Delivery { flow, range, bodies: &bodies }),
            None => Ok(()),
        }
    }
}

/// How many bytes of a message of `len` bytes are shown, without the `tag_len` bytes at the end of each datagram.
pub(super) const fn shown_len(len: usize, segment: usize, tag_len: usize) -> usize {
    if tag_len == 0 {
        return len;
    }
    len / segment * segment.saturating_sub(tag_len) + (len % segment).saturating_sub(tag_len)
}

/// The bytes of a piece, which has left the window.
fn bytes<'m>(memory: &'m Memory, stash: &'m [u8], piece: &Piece) -> &'m [u8] {
    let area = match piece.area {
        Area::Heads => &memory.heads[..],
        Area::Buffers => &memory.buffers,
        Area::Linear => &memory.linear,
        Area::Stash | Area::Window => stash,
    };
    &area[piece.at..piece.at + piece.len]
}
