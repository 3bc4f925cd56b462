//! How a grid is emulated.

use serde::Serialize;

use crate::grid::Superpackets;

/// How the emulator waits for the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It sleeps. The kernel wakes it some tens of microseconds late.
    #[default]
    Sleep,
    /// It looks again and again. That takes a whole processor, which is the emulator's alone where there is another
    /// one: what runs in the hosts keeps off it.
    Spin,
}

/// How a grid is emulated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How the emulator waits.
    pub wait: Wait,
    /// Whether devices hand over superpackets.
    pub superpackets: Superpackets,
    /// Whether this machine's processors are kept awake. It is for virtual machines, whose host takes a processor that
    /// halts and gives it back late; all processors are busy then, at the lowest priority, and one is the emulator's
    /// alone however it waits.
    pub awake: bool,
}
