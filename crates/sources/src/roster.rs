//! The sources of data sets that are away: they have not answered yet, or are lost, and are being tried.

use std::collections::BTreeMap;

use inhaul_base::{Span, Time};
use inhaul_store::digest;
use inhaul_transport::FlowId;
use inhaul_udp::Waker;

use crate::opener::{Candidate, MirrorId, Opener, Tried};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::report::SourceStatus;
use inhaul_session::api::source::Server;
use inhaul_session::session::groups::Groups;

/// A flow that has stood for this long did not fall at once: its next loss counts as the first.
const STEADY: Span = Span::from_secs(10);

/// How often in a row a source has been lost, with this loss: it was open since `opened`, and had been lost `before`.
pub fn next_fall(now: Time, opened: Option<Time>, before: u32) -> u32 {
    let has_stood = opened.is_some_and(|opened| now.since(opened) >= STEADY);
    if has_stood { 1 } else { before.saturating_add(1) }
}

/// The means to open sources again, and those that are being tried.
#[derive(Debug, Default)]
pub struct Roster {
    /// `None`: who is lost stays lost.
    opener: Option<Opener>,
    away: BTreeMap<MirrorId, Away>,
}

/// A source that is being tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    pub since: Time,
    /// Why it is away.
    pub reason: String,
    /// The flow that it was, if it was there already.
    pub former: Option<FlowId>,
    /// It has neither answered nor failed yet.
    pub(crate) is_unheard: bool,
    /// How often in a row it was lost.
    pub falls: u32,
}

/// What a source has to be to belong to a data set that is open.
#[derive(Clone, Copy, Debug)]
pub struct Sameness<'a> {
    /// The data set's identity.
    pub identity: digest::Hash,
    /// Its groups and holes.
    pub groups: &'a Groups,
}

impl Sameness<'_> {
    /// Whether a source that has answered has the same data set.
    fn judge(&self, candidate: &Candidate, server: &Server) -> Result<(), MoveError> {
        if !candidate.has(self.identity, self.groups.manifest()) {
            return Err(MoveError::SourceChanged { server: server.clone() });
        }
        if !self.groups.manifest().has_holes_within(&candidate.manifest) {
            return Err(MoveError::OtherHoles { server: server.clone() });
        }
        Ok(())
    }
}

/// What a try has come to.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a try comes to one, and tries are seconds apart")]
pub enum News {
    /// The source is there, and has the data set.
    Back { mirror: MirrorId, candidate: Candidate, away: Away },
    /// It is not there yet, and is tried again.
    Waits { mirror: MirrorId, error: MoveError },
    /// It is not tried again. `away` is what was known of it.
    Gone { mirror: MirrorId, away: Option<Away>, status: SourceStatus, error: MoveError },
}

impl Roster {
    /// With the means of first contact. Without any, or if nothing is to be tried, nothing is opened again.
    pub fn new(opener: Option<Opener>) -> Self {
        let opener = opener.filter(|opener| opener.retry_for() > Span::ZERO || !opener.is_idle());
        Self { opener, away: BTreeMap::new() }
    }

    /// Has this waker called whenever a try has come to something.
    pub fn wake(&self, waker: Waker) {
        if let Some(opener) = &self.opener {
            opener.wake(waker);
        }
    }

    /// How long a data set may be without a source.
    pub fn retry_for(&self) -> Span {
        self.opener.as_ref().map_or(Span::ZERO, Opener::retry_for)
    }

    /// A source that is being tried since first contact has not answered yet.
    pub fn expect(&mut self, now: Time, mirror: MirrorId, is_unheard: bool) {
        let reason = "it has not answered yet".to_owned();
        self.away.insert(mirror, Away { since: now, reason, former: None, is_unheard, falls: 0 });
    }

    /// Tries a source for the first time, or as if for the first time.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn open(&mut self, now: Time, mirror: MirrorId) -> Result<(), MoveError> {
        if let Some(opener) = &self.opener {
            opener.open(mirror.clone())?;
            self.expect(now, mirror, false);
        }
        Ok(())
    }

    /// A source was lost for the `falls`th time in a row, for this reason: it is tried again. False when it is not to be.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn reopen(
        &mut self,
        now: Time,
        mirror: MirrorId,
        (falls, reason): (u32, &str),
        former: Option<FlowId>,
    ) -> Result<bool, MoveError> {
        let Some(opener) = self.opener.as_ref().filter(|opener| opener.retry_for() > Span::ZERO) else {
            return Ok(false);
        };
        opener.reopen(mirror.clone(), falls)?;
        self.away.insert(mirror, Away { since: now, reason: reason.to_owned(), former, is_unheard: false, falls });
        Ok(true)
    }

    /// What the next try that has ended has come to. `expected` says what a source of the data set must be; `None`: it
    /// is not waited for any more, and its session is closed.
    pub fn next<'g>(&mut self, expected: impl Fn(&MirrorId) -> Option<Sameness<'g>>) -> Option<News> {
        loop {
            let Tried { mirror, result, again, .. } = self.opener.as_ref()?.try_next()?;
            let Some(sameness) = expected(&mirror) else { continue };
            let error = match result.and_then(|one| sameness.judge(&one, &mirror.server).map(|()| one)) {
                Ok(candidate) => match self.away.remove(&mirror) {
                    Some(away) => return Some(News::Back { mirror, candidate, away }),
                    None => continue,
                },
                Err(error) if again => {
                    if let Some(away) = self.away.get_mut(&mirror) {
                        away.reason = error.to_string();
                        away.is_unheard = false;
                    }
                    return Some(News::Waits { mirror, error });
                }
                Err(error) => error,
            };
            let away = self.away.remove(&mirror);
            return Some(News::Gone { mirror, away, status: status_of(&error), error });
        }
    }

    /// Whether a source of the data set may still answer for the first time, of which nothing is known.
    pub fn has_unheard(&self, request: usize) -> bool {
        self.of_request(request).any(|(_, away)| away.is_unheard)
    }

    /// Whether a source of the data set is being tried.
    pub fn has_away(&self, request: usize) -> bool {
        self.of_request(request).next().is_some()
    }

    /// Whether one is that would say what it has by digests.
    pub fn has_session_away(&self, request: usize) -> bool {
        self.of_request(request).any(|(mirror, _)| mirror.server.url.is_none())
    }

    /// The sources of a data set that are being tried.
    pub fn of_request(&self, request: usize) -> impl Iterator<Item = (&MirrorId, &Away)> {
        self.away.iter().filter(move |(mirror, _)| mirror.request == request)
    }

    /// All that are being tried.
    pub fn away(&self) -> impl Iterator<Item = (&MirrorId, &Away)> {
        self.away.iter()
    }
}

/// What a source is that does not come because of this.
fn status_of(error: &MoveError) -> SourceStatus {
    match error {
        MoveError::SourceChanged { .. } | MoveError::OtherHoles { .. } => SourceStatus::Different,
        _ => SourceStatus::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_stood_for_a_while_falls_as_if_for_the_first_time() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!(next_fall(at(5), None, 0), 1);
        assert_eq!(next_fall(at(5), Some(at(1)), 3), 4);
        assert_eq!(next_fall(at(11), Some(at(1)), 3), 1);
    }

    #[test]
    fn roster_without_means_opens_nothing_again() {
        let mut roster = Roster::new(None);
        let mirror = MirrorId { request: 2, server: Server::new("a", 1) };
        roster.expect(Time::ZERO, mirror.clone(), true);
        assert!(roster.has_unheard(2) && roster.has_away(2) && !roster.has_away(1));
        assert!(!roster.reopen(Time::ZERO, mirror, (1, "gone"), None).unwrap());
        assert_eq!(roster.retry_for(), Span::ZERO);
    }
}
