//! Receives messages in batches, and delivers their bodies.
//!
//! A [`Receiver`] owns the memory for arriving datagrams. There are two ways to receive, with one interface:
//!
//! - [`Receiver::receive`]: messages stay in the receiver's memory as they came.
//! - [`Receiver::receive_into`]: the next datagrams of one flow are predicted ([`Expected`]). Their bodies are received
//!   directly into the user's memory, or opened there if they are sealed. That saves a copy of every byte.
//!
//! Either way the [`Batch`] shows the heads to an endpoint, which answers with [`Place`](inhaul_transport::Place)s.
//! [`Batch::deliver`] then leaves correctly predicted bodies alone, rearranges the rest of the window, and hands all
//! others to the caller.
//!
//! The endpoint predicts (`Endpoint::expected`). A vector for the kernel then scatters heads to one side and bodies to
//! their places, so the kernel's copy is the only one. For sealed bodies the cipher's pass is the copy. A wrong guess
//! (loss, reordering) costs a copy, never correctness.

mod batch;
mod open;
mod scatter;
#[cfg(test)]
mod tests;
mod window;

use std::io::{self, IoSliceMut};

use inhaul_transport::{ENVELOPE_LEN, Expected};

use crate::datagrams::DatagramSocket;
use crate::seal::{Seals, TAG_LEN};
use crate::sys::{Arrival, MESSAGES_MAX};
pub use batch::{Batch, Delivery};
use batch::{Form, Memory, Message, Work};
use scatter::{HEAD_BYTES_MAX, Layout, MESSAGE_BYTES, Shape};
pub use window::Window;

/// Messages that one call receives with receive offload: half a megabyte at most.
const AGGREGATES: usize = 8;

/// Receives batches of messages. Its memory is reused.
pub struct Receiver {
    memory: Memory,
    work: Work,
    arrivals: Vec<Arrival>,
    layouts: Vec<Layout>,
    slices: Vec<IoSliceMut<'static>>,
    ends: Vec<usize>,
    /// Most messages per call.
    depth_max: usize,
    /// How many messages to lay out. Room for messages that do not come costs time.
    depth: usize,
    /// How many datagrams the next message of an expected run should have, judged by the messages before it.
    run: Option<usize>,
    drops_seen: u32,
    drops: u64,
    /// How many of the first messages of a call were opened directly into the window.
    opened_until: usize,
    /// Whether datagrams have envelopes, with checksums or sealed.
    enveloped: bool,
}

impl Receiver {
    /// A receiver for `socket`. Without receive offload, datagrams of more than `datagram_bytes_max` bytes are
    /// dropped.
    pub fn new(socket: &impl DatagramSocket, datagram_bytes_max: usize) -> Self {
        let (depth_max, buffer_len) = if socket.aggregates() {
            (AGGREGATES, MESSAGE_BYTES)
        } else {
            (MESSAGES_MAX, datagram_bytes_max.clamp(1, MESSAGE_BYTES))
        };
        Self::with_memory(depth_max, buffer_len)
    }

    /// A receiver for a foreign protocol: datagrams are shown as they come. See [`Receiver::new`].
    pub fn foreign(socket: &impl DatagramSocket, datagram_bytes_max: usize) -> Self {
        Self { enveloped: false, ..Self::new(socket, datagram_bytes_max) }
    }

    fn with_memory(depth_max: usize, buffer_len: usize) -> Self {
        Self {
            memory: Memory::new(depth_max, buffer_len),
            work: Work::default(),
            arrivals: Vec::with_capacity(depth_max),
            layouts: Vec::with_capacity(depth_max),
            slices: Vec::new(),
            ends: Vec::with_capacity(depth_max),
            depth_max,
            depth: 1,
            run: None,
            drops_seen: 0,
            drops: 0,
            opened_until: 0,
            enveloped: true,
        }
    }

    /// How many messages the kernel has dropped because the socket's buffer was full, by the last message received.
    /// With receive offload a message has up to 64 datagrams, so this shows that there was loss, not how much.
    pub const fn kernel_drops(&self) -> u64 {
        self.drops
    }

    /// Receives the waiting messages, opened with `seals`. Without a message the batch is empty.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive(&mut self, socket: &impl DatagramSocket, seals: &mut Seals) -> io::Result<Batch<'_, 'static>> {
        self.receive_by(None, seals, |slices, ends, arrivals| socket.receive(slices, ends, arrivals))
    }

    /// Receives the waiting messages, with bodies directly in the window if the prediction is right. A wrong one costs
    /// a copy.
    ///
    /// # Errors
    /// When the socket is broken.
    pub fn receive_into<'w>(
        &mut self,
        socket: &impl DatagramSocket,
        seals: &mut Seals,
        window: Window<'w>,
    ) -> io::Result<Batch<'_, 'w>> {
        self.receive_by(Some(window), seals, |slices, ends, arrivals| socket.receive(slices, ends, arrivals))
    }

    /// Lays out the messages, lets `kernel` fill them, and makes a batch of those that came.
    fn receive_by<'w>(
        &mut self,
        mut window: Option<Window<'w>>,
        seals: &mut Seals,
        kernel: impl FnOnce(&mut [IoSliceMut<'_>], &[usize], &mut Vec<Arrival>) -> io::Result<()>,
    ) -> io::Result<Batch<'_, 'w>> {
        let scattered = window.as_ref().filter(|window| !seals.is_sealed(window.flow));
        let shape = self.lay_out(scattered);
        self.arrivals.clear();
        let mut slices = recycle(std::mem::take(&mut self.slices));
        let mut free: &mut [u8] = window.as_mut().map_or(&mut [], |w| &mut *w.memory);
        self.ends.clear();
        for (layout, (heads, buffer)) in self.layouts.iter().zip(self.memory.parts()) {
            layout.append_slices(heads, &mut free, buffer, &mut slices);
            self.ends.push(slices.len());
        }
        let result = kernel(&mut slices, &self.ends, &mut self.arrivals);
        self.slices = recycle(slices);
        result?;
        self.learn(shape);
        Ok(self.batch(window, seals))
    }

    /// Decides how each message is scattered. Returns the expected shape of datagrams.
    fn lay_out(&mut self, window: Option<&Window<'_>>) -> Option<Shape> {
        self.layouts.clear();
        let expectation = window.and_then(|w| Some((shape_of(&w.expected)?, w.usable_len())));
        let Some((shape, window_len)) = expectation else {
            self.layouts.resize(self.depth, Layout::PLAIN);
            return None;
        };
        self.memory.reserve_heads(shape);
        let slots = self.run.unwrap_or(usize::MAX).clamp(1, shape.datagrams_max());
        let mut at = 0;
        for _ in 0..self.depth {
            let layout = Layout::new(shape, at, window_len, slots);
            at += layout.window_len();
            self.layouts.push(layout);
        }
        Some(shape)
    }

    /// Predicts the next batch from this one.
    fn learn(&mut self, shape: Option<Shape>) {
        self.depth = (self.arrivals.len() * 2).clamp(1, self.depth_max);
        if let Some(shape) = shape {
            let of_shape = self.arrivals.iter().filter(|a| a.segment == shape.datagram_len());
            self.run = of_shape.map(|a| a.len.div_ceil(a.segment)).max().or(self.run);
        }
        if let Some(drops) = self.arrivals.iter().rev().find_map(|a| a.drops) {
            self.drops += u64::from(drops.wrapping_sub(self.drops_seen));
            self.drops_seen = drops;
        }
    }

    /// Makes the heads of each message readable at equal distances, and restores their connection ids.
    fn batch<'w>(&mut self, mut window: Option<Window<'w>>, seals: &mut Seals) -> Batch<'_, 'w> {
        self.memory.linear.clear();
        self.work.messages.clear();
        self.open_into_window(window.as_mut(), seals);
        let window_memory: &[u8] = window.as_ref().map_or(&[], |w| &*w.memory);
        for (part, (&arrival, &layout)) in self.arrivals.iter().zip(&self.layouts).enumerate() {
            if arrival.truncated || arrival.len > MESSAGE_BYTES {
                continue;
            }
            let datagram_len = layout.shape.datagram_len();
            let form = if layout.slots() == 0 {
                Form::Plain
            } else if self.opened_until > part {
                self.work.messages.push(Message::opened_in_window(part, layout, arrival));
                continue;
            } else if arrival.segment == datagram_len {
                self.memory.collect_heads(part, &layout, arrival.len);
                Form::Scattered
            } else {
                // Datagrams of another size straddle the slots, so their bytes are reassembled.
                Form::Linear(self.memory.linearize(part, &layout, arrival.len, window_memory))
            };
            let message = Message { part, form, layout, arrival, tag_len: 0 };
            if self.enveloped {
                self.memory.make_genuine(message, window_memory, seals, &mut self.work.messages);
            } else {
                self.work.messages.push(message);
            }
        }
        let memory = &self.memory;
        let show = |(index, message)| memory.show(index, message);
        let shown = self.work.messages.iter().enumerate().map(show).collect();
        Batch { memory, work: &mut self.work, window, shown }
    }

    /// If the window's flow is sealed, opens the first messages directly into the window, as long as all of their
    /// datagrams look as expected.
    fn open_into_window(&mut self, window: Option<&mut Window<'_>>, seals: &mut Seals) {
        self.opened_until = 0;
        let Some(window) = window else { return };
        let usable = window.usable_len();
        let Some((shape, (connection, opener))) = shape_of(&window.expected).zip(seals.opener_of(window.flow)) else {
            return;
        };
        self.memory.reserve_heads(shape);
        let mut at = 0;
        for (part, (arrival, layout)) in self.arrivals.iter().zip(&mut self.layouts).enumerate() {
            let count = arrival.len.div_ceil(arrival.segment.max(1));
            let fitting = Layout::new(shape, at, usable, count);
            let is_as_expected = arrival.segment == shape.datagram_len() + TAG_LEN
                && arrival.len > TAG_LEN * count
                && fitting.holds(arrival.len - TAG_LEN * count)
                && !arrival.truncated
                && arrival.len <= MESSAGE_BYTES
                && self.memory.carries(part, arrival, connection, shape.head_len + TAG_LEN);
            if !is_as_expected {
                break;
            }
            at += fitting.window_len();
            *layout = fitting;
            self.opened_until = part + 1;
        }
        for part in 0..self.opened_until {
            self.memory.open_to_window(part, &self.arrivals[part], &self.layouts[part], opener, window.memory);
        }
    }
}

/// The shape of the expected datagrams, if it is usable: each has an envelope.
fn shape_of(expected: &Expected) -> Option<Shape> {
    let shape = Shape { head_len: expected.head_len, body_len: expected.body_len };
    let fits = (ENVELOPE_LEN..=HEAD_BYTES_MAX).contains(&shape.head_len)
        && (1..MESSAGE_BYTES - HEAD_BYTES_MAX).contains(&shape.body_len);
    fits.then_some(shape)
}

/// The same allocation, empty, for another lifetime. There is nothing to convert, and collecting in place keeps the
/// memory.
fn recycle<'b>(mut slices: Vec<IoSliceMut<'_>>) -> Vec<IoSliceMut<'b>> {
    slices.clear();
    slices.into_iter().map(|_| IoSliceMut::new(&mut [])).collect()
}
