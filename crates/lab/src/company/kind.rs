//! The kinds of shared networks, the places of their bottlenecks, and the contestants.

use std::str::FromStr;

use inhaul_protocols::{registry, tcp};
use serde::Serialize;

use crate::stars::Knowledge;

/// The kinds of rivals and changes in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Long flows that take the capacity left by others: TCP, UDT.
    Elastic,
    /// No elastic rivals, constant rates; own flows join and leave.
    Steady,
    /// No elastic rivals; the rate changes, or short flows or datagrams come and go.
    Changing,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Elastic, Self::Steady, Self::Changing];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elastic => "elastic",
            Self::Steady => "steady",
            Self::Changing => "changing",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| "elastic, steady or changing".to_owned())
    }
}

/// Where the shared bottleneck is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Between pairs of hosts: each flow has a receiver of its own.
    Dumbbell,
    /// Before one receiver and its neighbours: all own flows end at one host.
    Receiver,
    /// Inside: some of one receiver's own flows cross it, the others do not.
    Inner,
}

impl Place {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dumbbell => "dumbbell",
            Self::Receiver => "receiver",
            Self::Inner => "inner",
        }
    }
}

/// How the bottleneck drops packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discipline {
    /// When the queue is full.
    Tail,
    /// Controlled delay (RFC 8289).
    CoDel,
    /// Random early detection.
    Red,
}

/// The protocol that is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contestant {
    /// A registered protocol.
    pub protocol: String,
    /// Whether GTP is told the capacities; other protocols do not need them.
    pub knowledge: Knowledge,
}

impl Contestant {
    /// With which every contestant is compared.
    pub const REFERENCE: &str = tcp::CUBIC.name;

    /// Whether its protocol has a parameter of this name.
    pub(super) fn has(&self, parameter: &str) -> bool {
        let protocol = registry::find(&self.protocol);
        protocol.is_some_and(|protocol| protocol.parameters.iter().any(|known| known.name == parameter))
    }

    /// Whether it is told the capacities, if it accepts them.
    pub fn is_told(&self) -> bool {
        self.knowledge == Knowledge::Told && self.has("control")
    }

    /// A protocol that measures its capacities.
    pub fn of(protocol: &str) -> Self {
        Self { protocol: protocol.to_owned(), knowledge: Knowledge::Found }
    }
}
