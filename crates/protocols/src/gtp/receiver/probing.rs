//! The path to one sender: probes and their echoes, the MTU, and the responses that let data come.

use std::collections::VecDeque;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::kit::{MtuCheck, MtuStep, mtu_candidates};

use super::flow::OPENING_GAP;
use crate::gtp::FEEDBACK_GAP;
use crate::gtp::wire::{Datagram, HEADER_LEN};

/// While the path is being opened, gaps between probes grow up to this.
const OPENING_GAP_MAX: Span = Span::from_secs(1);
/// Probes when it is open.
const PROBE_GAP: Span = Span::from_millis(250);
/// Probes that may be under way: all that are sent while a path is opened, so that one that answers after seconds opens, too.
const PROBES_MAX: usize = 64;
/// A path that carries less than both hosts would is tried again after so long, it may have been chance; then after twice as long
/// each time, ...
const RAISE_GAP: Span = Span::from_secs(1);
/// ... up to this.
const RAISE_GAP_MAX: Span = Span::from_secs(32);
/// Probes of each size then.
const RAISE_PROBES: u32 = 3;
/// From one check of the MTU to the next it takes so long ...
const CHECK_GAP: Span = Span::from_secs(1);
/// ... and until so many times the bytes of a check could have come: echoes are sent at the flow's rate, too.
const CHECK_PART: u64 = 8;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Probing {
    /// What datagrams of the flow carry: key and token.
    names: (u32, u64),
    /// Bytes of IP and UDP header.
    headers: u16,
    /// The largest IP packet that both hosts believe in.
    mtu: u16,
    /// The largest that came back; after a check, the largest that still does.
    pub(super) confirmed: u16,
    next_probe: Time,
    opening_gap: Span,
    number: u32,
    /// The last probes that have not come back, and when they were sent.
    probes: VecDeque<(u32, Time)>,
    raise_due: Time,
    raise_gap: Span,
    check: Option<MtuCheck>,
    next_check: Time,
    /// What the last echo wants to have back.
    challenge: Option<u64>,
    response_due: Time,
    responded: Time,
}

impl Probing {
    pub(super) fn new(key: u32, mtu: u16) -> Self {
        Self {
            names: (key, 0),
            headers: 0,
            mtu,
            confirmed: 0,
            next_probe: Time::FAR_FUTURE,
            opening_gap: OPENING_GAP,
            number: 0,
            probes: VecDeque::new(),
            raise_due: Time::FAR_FUTURE,
            raise_gap: RAISE_GAP,
            check: None,
            next_check: Time::ZERO,
            challenge: None,
            response_due: Time::FAR_FUTURE,
            responded: Time::ZERO,
        }
    }

    /// The sender accepted: probes may leave, once its address is known.
    pub(super) fn begin(&mut self, now: Time, token: u64, mtu: u16) {
        self.names.1 = token;
        self.mtu = self.mtu.min(mtu);
        self.next_probe = now;
    }

    /// The path is open.
    pub(super) fn open(&mut self, now: Time) {
        self.next_probe = now + PROBE_GAP;
        self.raise_due = now + self.raise_gap;
    }

    /// Whether packets of the largest size have come back.
    pub(super) fn is_whole(&self) -> bool {
        self.confirmed == self.mtu
    }

    // --- Probes -----------------------------------------------------------------------------------------------------

    fn probe(&mut self, now: Time, size: Option<u16>, send: &mut impl FnMut(Datagram, u16)) {
        self.number += 1;
        if self.probes.len() == PROBES_MAX {
            self.probes.pop_front();
        }
        self.probes.push_back((self.number, now));
        let ((key, token), number) = (self.names, self.number);
        let len = size.map_or(HEADER_LEN as u16, |size| size - self.headers);
        send(Datagram::Probe { key, token, number, sent: now.as_nanos() }, len);
    }

    /// Sends what is due to an address that `headers` bytes of IP and UDP header lead to, as headers and padded lengths of UDP payload.
    /// While the path is being opened there are probes of all sizes.
    pub(super) fn send_due(
        &mut self,
        now: Time,
        headers: u16,
        opening: bool,
        waits_for_data: bool,
        send: &mut impl FnMut(Datagram, u16),
    ) {
        self.headers = headers;
        self.respond(now, waits_for_data, send);
        if now < self.next_probe {
            return;
        }
        if opening {
            self.next_probe = now + self.opening_gap;
            self.opening_gap = (self.opening_gap * 2).min(OPENING_GAP_MAX);
            for size in mtu_candidates(self.mtu) {
                self.probe(now, Some(size), send);
            }
            return;
        }
        self.next_probe = now + PROBE_GAP;
        if self.is_whole() || now < self.raise_due {
            return self.probe(now, None, send);
        }
        self.raise_gap = (self.raise_gap * 2).min(RAISE_GAP_MAX);
        self.raise_due = now + self.raise_gap;
        let confirmed = self.confirmed;
        for size in mtu_candidates(self.mtu).take_while(|&size| size > confirmed) {
            // Where many are lost a single one would say little, and the next try is long after.
            (0..RAISE_PROBES).for_each(|_| self.probe(now, Some(size), send));
        }
    }

    /// A probe came back in `len` bytes of UDP payload; each counts once, by our own record of when it left. Returns the time that it took.
    pub(super) fn on_echo(&mut self, now: Time, number: u32, len: u16, challenge: u64) -> Option<Span> {
        let index = self.probes.iter().position(|probe| probe.0 == number)?;
        let (_, sent) = self.probes.remove(index)?;
        if self.challenge.replace(challenge) != Some(challenge) {
            // We are at an address that the sender does not know yet.
            self.response_due = now;
        }
        let size = len.saturating_add(self.headers).min(self.mtu);
        self.confirmed = self.confirmed.max(size);
        if self.check.as_mut().is_some_and(|check| check.on_echo(size)) {
            self.check = None;
        }
        Some(now.since(sent))
    }

    // --- Responses --------------------------------------------------------------------------------------------------

    /// Data was asked for after there was nothing to ask for.
    pub(super) fn expect_data(&mut self, now: Time) {
        if self.challenge.is_some() {
            self.response_due = self.response_due.min(now.max(self.responded + FEEDBACK_GAP));
        }
    }

    fn respond(&mut self, now: Time, waits_for_data: bool, send: &mut impl FnMut(Datagram, u16)) {
        let Some(challenge) = self.challenge.filter(|_| now >= self.response_due) else { return };
        let (key, token) = self.names;
        send(Datagram::Response { key, token, challenge }, HEADER_LEN as u16);
        self.responded = now;
        self.response_due = if waits_for_data { now + FEEDBACK_GAP } else { Time::FAR_FUTURE };
    }

    // --- The MTU, measured again ------------------------------------------------------------------------------------

    /// Full-size packets seem to vanish though the sender answers: sees whether they do.
    pub(super) fn check_mtu(&mut self, now: Time, rate: Bitrate) {
        let gap = CHECK_GAP.max(rate.time_for(MtuCheck::bytes(self.confirmed) * CHECK_PART));
        if self.check.is_none() && now >= self.next_check {
            self.check = Some(MtuCheck::begin(now, self.confirmed));
            self.next_check = now + gap;
        }
    }

    /// A full-size packet came.
    pub(super) fn full_size_passes(&mut self) {
        self.check = None;
    }

    /// Goes on with the check, if one runs. Returns whether the path was found to carry less.
    pub(super) fn step_check(&mut self, now: Time, patience: Span, send: &mut impl FnMut(Datagram, u16)) -> bool {
        let Some(check) = &mut self.check else { return false };
        match check.step(now, patience) {
            MtuStep::Wait => false,
            MtuStep::Probe(sizes) => {
                sizes.into_iter().for_each(|size| self.probe(now, Some(size), send));
                false
            }
            MtuStep::Over(smaller) => {
                self.check = None;
                self.confirmed = smaller.unwrap_or(self.confirmed);
                self.raise_due = now + self.raise_gap;
                smaller.is_some()
            }
        }
    }

    /// When this next needs attention.
    pub(super) fn due(&self) -> Time {
        let check = self.check.as_ref().map_or(Time::FAR_FUTURE, MtuCheck::due);
        self.next_probe.min(self.response_due).min(check)
    }
}
