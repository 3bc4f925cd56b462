//! The kinds of stars, and the capacities that GTP is told.

use std::str::FromStr;

use serde::Serialize;

/// What disturbs the flows of a star.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing.
    Clean,
    /// The access link loses packets at random, 0.1 to 30 %.
    Loss,
    /// Packets come up to 4 ms late, in order.
    Jitter,
    /// A CUBIC flow comes and goes on the access link.
    Cross,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Clean, Self::Loss, Self::Jitter, Self::Cross];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Loss => "loss",
            Self::Jitter => "jitter",
            Self::Cross => "cross",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| "clean, loss, jitter or cross".to_owned())
    }
}

/// How GTP sets its rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// Capacities are found: the default.
    Found,
    /// gtp-2004 as published: the true capacities are given.
    Told,
}
