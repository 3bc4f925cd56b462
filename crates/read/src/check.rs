//! Whether a part is what its proof says, and to whom it then goes; the thread that finds it out for long parts.

use std::sync::mpsc::{Receiver, Sender, channel};

use inhaul_store::digest::proof::digest_of_part;
use inhaul_udp::Waker;

use super::cache::Keep;
use super::memory::Proof;
use super::order::SetId;
use super::parts::Taker;
use inhaul_session::api::error::MoveError;
use inhaul_session::session::frame::PartOf;
use inhaul_session::system::threads;

/// Shorter parts are checked where they come in: that takes less time than to wake a thread.
const HERE_BYTES_MAX: usize = 64 << 10;

/// A part that has come, and what it should be.
pub(super) struct Check {
    pub(super) set: SetId,
    /// Where it begins in the byte space.
    pub(super) start: u64,
    /// Its number: another may have begun there meanwhile.
    pub(super) number: u64,
    pub(super) file_len: u64,
    /// Its group, by its number in the file.
    pub(super) group: u64,
    pub(super) of: PartOf,
    pub(super) bytes: Vec<u8>,
    /// `None`: it needs none.
    pub(super) proof: Option<Proof>,
    /// Where it is kept if its proof is right.
    pub(super) keep: Option<Keep>,
    pub(super) takers: Vec<Taker>,
}

/// What came of it.
pub(super) struct Checked {
    pub(super) set: SetId,
    pub(super) start: u64,
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) is_right: bool,
    /// Those who have not got theirs.
    pub(super) takers: Vec<Taker>,
}

impl Check {
    /// Compares, keeps and delivers what is right.
    fn carry_out(self) -> Checked {
        let Self { set, start, number, file_len, group, of, bytes, proof, keep, mut takers } = self;
        let is_right = proof.is_none_or(|proof| {
            digest_of_part(file_len, group, of.chunks(), &bytes, &proof.inside) == Some(proof.digest)
        });
        if is_right {
            // Before anybody hears of it: who has got a part and ends, or reads it again, finds it in the cache.
            if let Some(keep) = keep {
                keep.part(group, of.chunks(), &bytes);
            }
            takers.drain(..).for_each(|taker| taker.deliver(&bytes));
        }
        Checked { set, start, number, bytes, is_right, takers }
    }
}

/// See the module's description. Dropping it ends the thread.
pub(super) struct Checker {
    checks: Sender<Check>,
    checked: Receiver<Checked>,
}

impl Checker {
    /// `waker` is called when something was found out.
    pub(super) fn start(waker: Waker) -> Result<Self, MoveError> {
        let (checks, incoming) = channel::<Check>();
        let (results, checked) = channel();
        threads::spawn_helper("inhaul-check", move || {
            for check in incoming {
                if results.send(check.carry_out()).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Self { checks, checked })
    }

    /// Checks a part, now or on the thread.
    pub(super) fn check(&self, check: Check) -> Option<Checked> {
        if check.bytes.len() <= HERE_BYTES_MAX {
            return Some(check.carry_out());
        }
        // Without the thread nothing can go on, which nobody can help.
        self.checks.send(check).err().map(|failed| failed.0.carry_out())
    }

    /// The next that the thread has found out.
    pub(super) fn next(&self) -> Option<Checked> {
        self.checked.try_recv().ok()
    }
}
