//! Repeats an order while the other host cannot be reached. Puts and copies then continue from the data that the other
//! host has verified.

use std::time::{Duration, Instant};

use inhaul_base::{Span, Throughput};

use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{Progress, Stop, Update, Waiting};
use inhaul_session::api::report::Report;
use inhaul_session::session::backoff::Backoff;

/// How often the stop flag is looked at while nothing else happens.
const LOOK: Duration = Duration::from_millis(100);
/// How often the user is told what the transfer waits for.
const TOLD: Duration = Duration::from_secs(1);

/// The result of an attempt.
pub(crate) type Attempted = (Report, Result<(), MoveError>);

/// Repeats attempts until one succeeds or fails with a final error, or `retry_for` has passed without a byte. An
/// attempt gets whether earlier attempts have received data, from which it must continue.
pub(crate) fn repeat(
    retry_for: Span,
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
    mut attempt: impl FnMut(&mut dyn FnMut(Update), bool) -> Attempted,
) -> Attempted {
    let began = Instant::now();
    let mut latest = Latest { progress: Progress::default(), since: began };
    let mut whole = Whole { began, resumed_bytes: None };
    let mut warnings: Vec<String> = Vec::new();
    let mut failures = 0;
    loop {
        let before = latest.progress.received_bytes;
        let mut note = |mut update| {
            if let Update::Progress(progress) = &mut update {
                whole.take_progress(progress);
            }
            latest.note(&update);
            hear(update);
        };
        let (mut report, result) = attempt(&mut note, before > 0);
        whole.take_report(&mut report);
        report.warnings.splice(0..0, warnings.iter().cloned());
        let has_come = latest.progress.received_bytes > 0;
        let is_passing = |error: &MoveError| match error {
            // A path that was open once may be open again.
            MoveError::UdpBlocked { .. } => has_come,
            error => error.is_passing(),
        };
        let error = match result {
            Err(error) if is_passing(&error) && latest.allows(retry_for) && !stop.is_set() => error,
            result => return (report, result),
        };
        failures = if latest.progress.received_bytes > before { 0 } else { failures + 1 };
        if failures < 2 {
            let text = format!("{error}; trying again, Ctrl-C ends it");
            hear(Update::Warning(text.clone()));
            warnings.push(text);
        }
        if let Err(error) = wait(failures, &latest, &error, stop, hear) {
            report.error = Some((&error).into());
            return (report, Err(error));
        }
    }
}

/// What all attempts are together: a user has asked for one transfer.
struct Whole {
    began: Instant,
    /// What there was before the first one fetched anything.
    resumed_bytes: Option<u64>,
}

impl Whole {
    /// The other host tells of this attempt: what earlier ones have brought is of the same transfer.
    fn take_progress(&mut self, progress: &mut Progress) {
        if progress.fetched_bytes == 0 {
            // Earlier releases do not tell it.
            progress.fetched_bytes = progress.received_bytes.saturating_sub(progress.resumed_bytes);
        }
        let first = *self.resumed_bytes.get_or_insert(progress.resumed_bytes);
        let earlier = progress.resumed_bytes.saturating_sub(first);
        progress.resumed_bytes -= earlier;
        progress.fetched_bytes = progress.fetched_bytes.saturating_add(earlier);
        let so_far = Throughput::of(progress.fetched_bytes, self.began.elapsed().into());
        (progress.seconds, progress.average_bps) = (so_far.seconds(), so_far.bps());
    }

    fn take_report(&self, report: &mut Report) {
        let earlier = report.resumed_bytes.saturating_sub(self.resumed_bytes.unwrap_or(report.resumed_bytes));
        report.resumed_bytes -= earlier;
        report.fetched_bytes = report.fetched_bytes.saturating_add(earlier);
        report.take_time(self.began.elapsed().into());
    }
}

/// How far it was when a byte came last.
struct Latest {
    progress: Progress,
    since: Instant,
}

impl Latest {
    fn note(&mut self, update: &Update) {
        if let Update::Progress(progress) = update
            && progress.received_bytes > self.progress.received_bytes
        {
            (self.progress, self.since) = (progress.clone(), Instant::now());
        }
    }

    fn allows(&self, retry_for: Span) -> bool {
        self.since.elapsed() < Duration::from_nanos(retry_for.as_nanos())
    }
}

/// Waits before another attempt, and says so.
fn wait(
    failures: u32,
    latest: &Latest,
    why: &MoveError,
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
) -> Result<(), MoveError> {
    let until = Instant::now() + Backoff::after(failures)?.next_wait();
    let mut tell_at = Instant::now();
    while Instant::now() < until {
        if stop.is_set() {
            return Err(MoveError::Interrupted);
        }
        if Instant::now() >= tell_at {
            tell_at += TOLD;
            let seconds = latest.since.elapsed().as_secs_f64();
            let servers = why.server().map(ToString::to_string).into_iter().collect();
            let waiting = Some(Waiting { servers, seconds, reason: why.to_string() });
            hear(Update::Progress(Progress { waiting, goodput_bps: 0.0, ..latest.progress.clone() }));
        }
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::api::source::Server;

    fn lost() -> MoveError {
        MoveError::ServerLost { server: Server::new("b", 1), detail: "gone".to_owned() }
    }

    /// What comes of attempts that end in these ways, and what is told meanwhile.
    fn attempts(retry_for: Span, ends: Vec<Result<(), MoveError>>) -> (Vec<Update>, Result<(), MoveError>, usize) {
        let (mut told, mut made) = (Vec::new(), 0);
        let mut ends = ends.into_iter();
        let (report, result) = repeat(retry_for, &Stop::new(), &mut |update| told.push(update), |hear, goes_on| {
            assert_eq!(goes_on, made > 0);
            made += 1;
            hear(Update::Progress(Progress { received_bytes: 7 * made as u64, ..Progress::default() }));
            (Report::default(), ends.next().unwrap())
        });
        assert_eq!(report.warnings.len(), made - 1);
        (told, result, made)
    }

    #[test]
    fn what_passes_is_tried_again_and_told() {
        let (told, result, made) = attempts(Span::from_secs(60), vec![Err(lost()), Ok(())]);
        result.unwrap();
        assert_eq!(made, 2);
        let waiting = told.iter().find_map(|update| match update {
            Update::Progress(Progress { waiting: Some(waiting), received_bytes: 7, .. }) => Some(waiting),
            _ => None,
        });
        assert_eq!(waiting.unwrap().servers, ["b:1"]);
    }

    #[test]
    fn all_attempts_are_one_transfer_with_one_time_and_one_rate() {
        let mut told = Vec::new();
        let mut made = 0;
        let (report, result) = repeat(Span::from_secs(60), &Stop::new(), &mut |update| told.push(update), |hear, _| {
            made += 1;
            // 1,000 bytes of an earlier call; the first attempt adds 4,000 to them, the second 5,000.
            let (resumed, fetched) = if made == 1 { (1_000, 4_000) } else { (5_000, 5_000) };
            hear(Update::Progress(Progress {
                received_bytes: resumed + fetched,
                resumed_bytes: resumed,
                fetched_bytes: fetched,
                ..Progress::default()
            }));
            let report = Report {
                bytes: resumed + fetched,
                resumed_bytes: resumed,
                fetched_bytes: fetched,
                // As long as the other host has taken for this attempt.
                seconds: 1e9,
                ..Report::default()
            };
            if made == 1 { (Report::default(), Err(lost())) } else { (report, Ok(())) }
        });
        result.unwrap();
        assert_eq!((report.bytes, report.resumed_bytes, report.fetched_bytes), (10_000, 1_000, 9_000));
        assert!(report.seconds < 60.0 && report.seconds > 0.0, "{report:?}");
        assert!((report.goodput_bps * report.seconds - 72_000.0).abs() < 1e-3, "{report:?}");
        let last = told.iter().rev().find_map(|update| match update {
            Update::Progress(progress) => Some(progress),
            Update::Warning(_) => None,
        });
        let last = last.unwrap();
        assert_eq!((last.resumed_bytes, last.fetched_bytes), (1_000, 9_000));
        assert!((last.average_bps * last.seconds - 72_000.0).abs() < 1e-3, "{last:?}");
    }

    #[test]
    fn what_would_be_the_same_again_ends_it_and_so_does_no_time_to_try() {
        let refused = || MoveError::Refused { server: Server::new("b", 1), detail: String::new() };
        assert!(matches!(attempts(Span::from_secs(60), vec![Err(refused())]), (_, Err(MoveError::Refused { .. }), 1)));
        assert!(matches!(attempts(Span::ZERO, vec![Err(lost())]), (_, Err(MoveError::ServerLost { .. }), 1)));
    }

    #[test]
    fn the_user_may_end_it_while_it_waits() {
        let stop = Stop::new();
        let began = Instant::now();
        let (_, result) = repeat(
            Span::from_secs(60),
            &stop,
            &mut |update| {
                if matches!(update, Update::Progress(Progress { waiting: Some(_), .. })) {
                    stop.stop();
                }
            },
            |_, _| (Report::default(), Err(lost())),
        );
        assert!(matches!(result, Err(MoveError::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
