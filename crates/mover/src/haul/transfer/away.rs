//! The mirrors that have not answered yet or are lost, and are being tried.

use std::collections::BTreeMap;

use inhaul_base::{Bitrate, Span, Time};
use inhaul_transport::FlowId;

use crate::api::options::{GetOptions, NetOptions};
use crate::session::opener::{MirrorId, Opener};

/// The means to open mirrors again, and those that are being tried.
pub(crate) struct Reopening {
    /// `None`: who is lost stays lost.
    pub(super) opener: Option<Opener>,
    pub(super) net: NetOptions,
    pub(super) rate: Option<Bitrate>,
    pub(super) away: BTreeMap<MirrorId, Away>,
}

/// A mirror that is being tried.
pub(super) struct Away {
    pub(super) since: Time,
    /// Why it is away.
    pub(super) reason: String,
    /// The flow that it was, if it was there already.
    pub(super) former: Option<FlowId>,
    /// It has neither answered nor failed yet.
    pub(super) is_unheard: bool,
}

impl Reopening {
    /// With the means of first contact; without any, nothing is opened again.
    pub(crate) fn new(opener: Option<Opener>, options: &GetOptions) -> Self {
        // With no retry time, each mirror is tried once.
        let opener = opener.filter(|opener| opener.retry_for() > Span::ZERO || !opener.is_idle());
        Self { opener, net: options.net.clone(), rate: options.rate, away: BTreeMap::new() }
    }

    pub(super) fn retry_for(&self) -> Span {
        self.opener.as_ref().map_or(Span::ZERO, Opener::retry_for)
    }

    /// Whether a mirror may still answer for the first time, of which nothing is known.
    pub(super) fn has_unheard(&self, request: usize) -> bool {
        self.of_request(request).any(|(_, away)| away.is_unheard)
    }

    pub(super) fn of_request(&self, request: usize) -> impl Iterator<Item = (&MirrorId, &Away)> {
        self.away.iter().filter(move |(mirror, _)| mirror.request == request)
    }
}
