//! Scheduled changes.

use std::collections::BTreeMap;

use inhaul_base::{Bitrate, Time};
use inhaul_transport::Command;

use crate::ids::{EndpointId, LinkId, TransferId};

/// Something that is changed in a running network.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link gets another rate; `None`: no limit.
    LinkRate(LinkId, Option<Bitrate>),
    /// A link takes IP packets up to this many bytes, and silently drops larger ones; `None`: any size.
    LinkMtu(LinkId, Option<u32>),
    /// A link dies: packets on it are lost, and it takes no more.
    LinkDown(LinkId),
    /// A dead link lives again.
    LinkUp(LinkId),
    /// An endpoint is commanded: limits, a flow to be disconnected at one end, bytes to be fetched again
    /// (which the simulation then expects to be placed again).
    Command(EndpointId, Command),
    /// The control stream of a transfer breaks: both ends are disconnected.
    Break(TransferId),
    /// The process of an endpoint ends suddenly, as by SIGKILL: its kernel closes its control streams, and datagrams to
    /// its address are no longer read.
    Crash(EndpointId),
    /// An endpoint gets another address, as behind a NAT that forgets: datagrams sent to the old one from now on are
    /// lost. Datagrams in flight still arrive, from the new address.
    Rebind(EndpointId),
    /// From now on a transfer's datagrams take a reliable stream beside its control stream, as a program does if UDP
    /// does not pass, or again the network. In a stream they come complete and in order, data behind a lost segment
    /// waits, and a sender stops while the stream is full.
    Tunnel(TransferId, bool),
}

/// The change.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Change(Change),
    Start(TransferId),
    Stop(TransferId),
}

/// Scheduled changes, by time; equal times in the order of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    happenings: BTreeMap<(Time, u64), Happening>,
    sequence: u64,
}

impl Timeline {
    pub(crate) fn push(&mut self, at: Time, happening: Happening) {
        self.sequence += 1;
        self.happenings.insert((at, self.sequence), happening);
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.happenings.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next thing that is due by `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Happening> {
        let first = self.happenings.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
