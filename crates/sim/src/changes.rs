//! What is to happen at a set time.

use std::collections::BTreeMap;

use inhaul_base::{Bitrate, Time};
use inhaul_transport::Command;

use crate::ids::{EndpointId, LinkId, TransferId};

/// Something that is changed in a running network.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link gets another rate; `None`: no limit.
    LinkRate(LinkId, Option<Bitrate>),
    /// A link takes no IP packet of more bytes than this, and says nothing of those that it drops; `None`: of any
    /// size.
    LinkMtu(LinkId, Option<u32>),
    /// A link dies: what is on it is lost, nothing is taken.
    LinkDown(LinkId),
    /// A dead link lives again.
    LinkUp(LinkId),
    /// An endpoint is commanded: limits, a flow to be disconnected at one end, bytes to be fetched again
    /// (which the simulation then expects to be placed again).
    Command(EndpointId, Command),
    /// The control stream of a transfer breaks: both ends are disconnected.
    Break(TransferId),
    /// The process of an endpoint ends without a word, as by SIGKILL: its kernel closes its control streams, and
    /// nobody reads what still comes to its address.
    Crash(EndpointId),
    /// An endpoint gets another address, as behind a NAT that forgets: nobody reads what is sent to the old one from
    /// now on. What is on its way still arrives, from the new address.
    Rebind(EndpointId),
    /// From now on a transfer's datagrams take a reliable stream beside its control stream, or again the network as
    /// they are: what a program does where UDP does not pass. They come complete and in order, what follows a lost
    /// segment waits, and who has filled the stream sends no more.
    Tunnel(TransferId, bool),
}

/// What is scheduled.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Change(Change),
    Start(TransferId),
    Stop(TransferId),
}

/// What is scheduled, by time; equal times in the order of scheduling.
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
