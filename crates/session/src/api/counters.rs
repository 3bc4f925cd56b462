//! What a server counts, for those who watch it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a client did not get what it came for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All sessions are taken.
    Sessions,
    /// Its address has all sessions that it may have.
    SessionsPerAddress,
    /// Its key or token has all sessions that it may have.
    SessionsPerClient,
    /// The server is busy otherwise: too many puts, or lists of files that need too much memory.
    Busy,
    /// The right is missing, or has ended.
    NoRight,
    /// There is nothing at the path, it leads out of what is offered, or it cannot be read.
    Path,
    /// What it asks for is not offered here: puts, copies, a transport, another version.
    NotOffered,
    /// It does not keep to the protocol.
    Malformed,
    /// No secure session came about: it has fallen silent, ended, or is not agreed with.
    NoSession,
}

impl Refusal {
    /// Every cause.
    pub const ALL: [Self; 9] = [
        Self::Sessions,
        Self::SessionsPerAddress,
        Self::SessionsPerClient,
        Self::Busy,
        Self::NoRight,
        Self::Path,
        Self::NotOffered,
        Self::Malformed,
        Self::NoSession,
    ];

    /// Its name, as a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::SessionsPerAddress => "sessions_per_address",
            Self::SessionsPerClient => "sessions_per_client",
            Self::Busy => "busy",
            Self::NoRight => "no_right",
            Self::Path => "path",
            Self::NotOffered => "not_offered",
            Self::Malformed => "malformed",
            Self::NoSession => "no_session",
        }
    }
}

/// A number that only grows, or that is set: readers see it at any time.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Of a number that others may have seen higher.
    pub fn raise(&self, to: u64) {
        self.0.fetch_max(to, Ordering::Relaxed);
    }

    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }
}

/// What a server counts. All but the three numbers of what is open now only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Turns of the data thread. It has at least one every 100 ms: if there are none, it hangs.
    pub turns: Count,
    /// Connections that were taken.
    pub connections: Count,
    /// Now: connections of clients that have not been let in yet.
    pub half_open: Count,
    /// Such connections that were closed because newer ones needed their place.
    pub half_open_dropped: Count,
    /// Now: sessions of clients that were let in.
    pub sessions_open: Count,
    /// Now: puts and copies that the server carries out.
    pub orders_open: Count,
    /// Sessions that were let in.
    pub sessions: Count,
    /// Fetches that have ended with all that was asked for.
    pub fetches_done: Count,
    /// Fetches that have ended early.
    pub fetches_broken: Count,
    /// Bytes of files that were sent, with those that were sent again.
    pub sent_bytes: Count,
    /// Datagrams that were sent.
    pub sent_datagrams: Count,
    /// Bytes of files that were sent a second time or more; what a flow has sent in its last moment is not in it.
    pub retransmitted_bytes: Count,
    /// Datagrams that the kernel has dropped before they were read.
    pub kernel_drops: Count,
    /// Lines of the audit log that were written.
    pub audit_lines: Count,
    /// Refusals that were left out of the audit log because there were too many.
    pub audit_left_out: Count,
    /// Lines of the audit log that could not be written.
    pub audit_failures: Count,
    refusals: [Count; Refusal::ALL.len()],
}

impl Counters {
    /// How many clients were refused for this cause.
    pub fn refused(&self, cause: Refusal) -> u64 {
        self.refusals[cause as usize].get()
    }

    pub fn refuse(&self, cause: Refusal) {
        self.refusals[cause as usize].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_count_and_its_name() {
        let counters = Counters::default();
        Refusal::ALL.into_iter().for_each(|cause| counters.refuse(cause));
        assert!(Refusal::ALL.into_iter().all(|cause| counters.refused(cause) == 1));
        let names: std::collections::BTreeSet<&str> = Refusal::ALL.into_iter().map(Refusal::name).collect();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
