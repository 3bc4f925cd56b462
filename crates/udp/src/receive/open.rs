//! Which datagrams are genuine: sealed ones are opened, the others are checked by their checksums.
//!
//! Datagrams are opened where they lie, or, if a receiver into memory expects them, from the socket's buffer to where
//! they belong. Then the head of a datagram is opened over the end of the body before it, which is put back.

use inhaul_transport::{ConnectionId, ENVELOPE_LEN, Envelope};

use super::batch::{Form, Memory, Message, shown_len};
use super::scatter::{HEAD_BYTES_MAX, Layout, Spot};
use crate::checksum;
use crate::seal::{Opener, Seals, TAG_LEN, refuse};
use crate::sys::Arrival;

/// The kind of the echo of a probe (WIRE.md 5.2).
const ECHO: u8 = 4;

impl Message {
    /// A message whose datagrams were opened directly into the window. Their tags are gone.
    pub(super) fn opened_in_window(part: usize, layout: Layout, arrival: Arrival) -> Self {
        let Arrival { len, segment, .. } = arrival;
        let arrival = Arrival { len: shown_len(len, segment, TAG_LEN), segment: segment - TAG_LEN, ..arrival };
        Self { part, form: Form::Scattered, layout, arrival, tag_len: 0 }
    }
}

impl Memory {
    /// Whether all datagrams of a message in its buffer carry this connection id in the clear and have at least
    /// `len_min` bytes.
    pub(super) fn carries(&self, part: usize, arrival: &Arrival, connection: ConnectionId, len_min: usize) -> bool {
        let bytes = &self.buffers[part * self.buffer_len..][..arrival.len];
        bytes.chunks(arrival.segment).all(|datagram| datagram.len() >= len_min && id_of(datagram) == Some(connection))
    }

    /// Opens a message from its buffer: heads go to the message's part of the heads, bodies to the window, by the
    /// layout. Nothing else of the window changes.
    pub(super) fn open_to_window(
        &mut self,
        part: usize,
        arrival: &Arrival,
        layout: &Layout,
        opener: &mut Opener,
        window: &mut [u8],
    ) {
        let shape = layout.shape;
        let behind = shape.head_len - ENVELOPE_LEN;
        let bytes = &mut self.buffers[part * self.buffer_len..][..arrival.len];
        let heads = &mut self.heads[part * self.heads_len..][..layout.slots() * shape.head_len];
        let mut before = [0; HEAD_BYTES_MAX];
        // In ascending order, so that the processor can predict the addresses. A head is opened in front of its body,
        // over the end of the previous body, which is then restored.
        let datagrams = bytes.chunks_mut(arrival.segment).zip(heads.chunks_mut(shape.head_len));
        for (k, (datagram, head)) in datagrams.enumerate() {
            let body_at = layout.window_at + k * shape.body_len;
            let body_len = datagram.len() - TAG_LEN - shape.head_len;
            if let Some(front) = body_at.checked_sub(behind) {
                before[..behind].copy_from_slice(&window[front..body_at]);
                match opener.open_to(datagram, &mut window[front..body_at + body_len]) {
                    Some(envelope) => head[..ENVELOPE_LEN].copy_from_slice(&envelope),
                    None => refuse(head),
                }
                head[ENVELOPE_LEN..].copy_from_slice(&window[front..body_at]);
                window[front..body_at].copy_from_slice(&before[..behind]);
            } else {
                // The window has no room for a head in front of it.
                opener.open(datagram);
                head.copy_from_slice(&datagram[..shape.head_len]);
                window[body_at..body_at + body_len].copy_from_slice(&datagram[shape.head_len..][..body_len]);
            }
        }
    }

    /// Opens a message's sealed datagrams, removes the checksums from the connection ids of the others, and appends the
    /// message to `messages`. If only some are sealed, it is appended in parts. Datagrams that are not genuine get a
    /// connection id that no flow has.
    pub(super) fn make_genuine(
        &mut self,
        message: Message,
        window: &[u8],
        seals: &mut Seals,
        messages: &mut Vec<Message>,
    ) {
        let Arrival { len, segment, .. } = message.arrival;
        let at = match message.form {
            Form::Plain => message.part * self.buffer_len,
            Form::Linear(at) => at,
            Form::Scattered => {
                self.unmask_scattered(&message, window, seals);
                messages.push(message);
                return;
            }
        };
        let bytes = if message.form == Form::Plain { &mut self.buffers } else { &mut self.linear };
        let bytes = &mut bytes[at..at + len];
        let mut rest = &mut *bytes;
        let mut parts = Vec::new();
        while !rest.is_empty() || parts.is_empty() {
            let (tag_len, count) = open_alike(rest, segment, seals);
            let part_len = (count * segment).min(rest.len());
            parts.push((tag_len, part_len));
            rest = &mut rest[part_len..];
        }
        if let [(tag_len, _)] = parts[..] {
            messages.push(Message { tag_len, ..message });
            return;
        }
        // Rare: one message of one peer with datagrams of both sealed and unsealed flows.
        let copy = bytes.to_vec();
        let mut rest = &copy[..];
        for (tag_len, part_len) in parts {
            let (own, after) = rest.split_at(part_len);
            let form = Form::Linear(self.linear.len());
            self.linear.extend_from_slice(own);
            let arrival = Arrival { len: part_len, ..message.arrival };
            messages.push(Message { form, arrival, tag_len, ..message });
            rest = after;
        }
    }

    /// Removes the checksums of a scattered message.
    fn unmask_scattered(&mut self, message: &Message, window: &[u8], seals: &mut Seals) {
        let Arrival { len, segment, .. } = message.arrival;
        let (heads, buffer) = (message.part * self.heads_len, message.part * self.buffer_len);
        let head_len = message.layout.shape.head_len;
        for (k, start) in (0..len).step_by(segment).enumerate() {
            let end = (start + segment).min(len);
            let body = (start + head_len).min(end);
            let head = &mut self.heads[heads + k * head_len..][..body - start];
            let buffers = &self.buffers[buffer..];
            let pieces = message.layout.spots(body, end).filter_map(|(spot, len)| match spot {
                Spot::Window(at) => Some(&window[at..at + len]),
                Spot::Buffer(at) => Some(&buffers[at..at + len]),
                // A datagram has one head.
                Spot::Head(_) => None,
            });
            checksum::mask_pieces(head, pieces);
            refuse_unsealed(head, seals);
        }
    }
}

fn id_of(datagram: &[u8]) -> Option<ConnectionId> {
    Envelope::parse(datagram).map(|envelope| envelope.connection)
}

/// Opens the first datagrams of `bytes`, or removes their checksums, as long as all are sealed or all are not. Returns
/// the length of their tags, and their number.
fn open_alike(bytes: &mut [u8], segment: usize, seals: &mut Seals) -> (usize, usize) {
    let (mut sealed, mut count) = (None, 0);
    for datagram in bytes.chunks_mut(segment.max(1)) {
        let opener = id_of(datagram).and_then(|id| seals.opener(id));
        if *sealed.get_or_insert(opener.is_some()) != opener.is_some() {
            break;
        }
        count += 1;
        match opener {
            Some(opener) => opener.open(datagram),
            None => {
                checksum::mask(datagram);
                refuse_unsealed(datagram, seals);
            }
        }
    }
    // A datagram that is too short for a tag was refused.
    let has_tag = sealed == Some(true) && segment >= ENVELOPE_LEN + TAG_LEN;
    (if has_tag { TAG_LEN } else { 0 }, count)
}

/// Refuses a datagram in the clear for a sealed flow: anyone can make one. Echoes of probes that were sent before there
/// were keys pass.
fn refuse_unsealed(datagram: &mut [u8], seals: &mut Seals) {
    let Some(opener) = id_of(datagram).and_then(|id| seals.opener(id)) else { return };
    if !(opener.takes_early_echoes() && datagram.get(ENVELOPE_LEN) == Some(&ECHO)) {
        opener.refuse();
        refuse(datagram);
    }
}
