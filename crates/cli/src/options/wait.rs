//! How an emulator waits.

use clap::ValueEnum;
use inhaul_emu::Wait;

/// See [`Wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitArg {
    #[default]
    Sleep,
    Spin,
}

impl From<WaitArg> for Wait {
    fn from(wait: WaitArg) -> Self {
        match wait {
            WaitArg::Sleep => Self::Sleep,
            WaitArg::Spin => Self::Spin,
        }
    }
}
