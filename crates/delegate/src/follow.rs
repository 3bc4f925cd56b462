//! The client of a delegated transfer: it receives the progress and the report.

use std::time::{Duration, Instant};

use inhaul_session::api::error::{ErrorKind, MoveError};
use inhaul_session::api::options::{Stop, Update};
use inhaul_session::api::report::Report;
use inhaul_session::api::source::Server;
use inhaul_session::session::connect::Session;
use inhaul_session::session::control_stream::StreamError;
use inhaul_session::session::frame::{Frame, RefusalCode};
use inhaul_session::session::peer_json;

/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a server that was told to end may take to say what it has kept.
const CLOSING: Duration = Duration::from_secs(15);
/// A server that has not said a word for so long is not there: it says something every few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Largest report that is taken, in bytes of JSON: of half a million files.
const REPORT_BYTES_MAX: usize = 128 << 20;

/// Follows what was delegated over `session` to its end; when `stop` is set, has it ended.
pub(crate) fn follow(
    session: &mut Session,
    stop: &Stop,
    hear: &mut dyn FnMut(Update),
) -> (Report, Result<(), MoveError>) {
    match listen(session, stop, hear) {
        Ok(report) => {
            let result = outcome(&session.server, &report, stop);
            (report, result)
        }
        Err(error) => (Report::failed(&error), Err(error)),
    }
}

fn listen(session: &mut Session, stop: &Stop, hear: &mut dyn FnMut(Update)) -> Result<Report, MoveError> {
    let mut bytes = Vec::new();
    let mut until = None;
    let mut heard = Instant::now();
    loop {
        if stop.is_set() && until.is_none() {
            until = Some(Instant::now() + CLOSING);
            session.send(&Frame::Finish)?;
        }
        if until.is_some_and(|until| Instant::now() > until) {
            return Err(MoveError::Interrupted);
        }
        let frame = match session.stream.receive(Instant::now() + LOOK) {
            Err(StreamError::TimedOut) if heard.elapsed() < SILENCE_MAX => continue,
            Err(error) if stop.is_set() => {
                log::debug!("{}: {error}", session.server);
                return Err(MoveError::Interrupted);
            }
            frame => frame.map_err(|error| lost(&session.server, &error.to_string()))?,
        };
        heard = Instant::now();
        match frame {
            Frame::Update { update } => hear(parse(&session.server, &update)?),
            Frame::Report { bytes: piece, .. } if bytes.len() + piece.len() > REPORT_BYTES_MAX => {
                return Err(protocol(&session.server, "its report is too long"));
            }
            Frame::Report { last, bytes: piece } => {
                bytes.extend_from_slice(&piece);
                if last {
                    return parse(&session.server, &bytes).map(as_now);
                }
            }
            Frame::Refused { code: RefusalCode::NotFound, text } => {
                return Err(MoveError::PathNotFound { server: session.server.clone(), detail: text });
            }
            Frame::Refused { code: RefusalCode::Busy, text } => {
                return Err(MoveError::Busy { server: session.server.clone(), detail: text });
            }
            Frame::Refused { code: RefusalCode::NoRight, text } => {
                return Err(MoveError::NoRight { server: session.server.clone(), detail: text });
            }
            Frame::Refused { text, .. } => {
                return Err(MoveError::Refused { server: session.server.clone(), detail: text });
            }
            _ => return Err(protocol(&session.server, "it answered out of turn")),
        }
    }
}

/// A report as this release has it, from a server of whichever.
fn as_now(report: Report) -> Report {
    let delivered = report.sources.iter().map(|source| source.bytes).fold(0, u64::saturating_add);
    let came = report.bytes.saturating_sub(report.resumed_bytes).min(delivered);
    Report {
        // Earlier releases do not tell it.
        fetched_bytes: if report.fetched_bytes == 0 { came } else { report.fetched_bytes },
        // An index of less than two sources says nothing, and 0 says that there is none.
        jain_index: report.jain_index.filter(|index| *index > 0.0 && report.sources.len() >= 2),
        ..report
    }
}

fn parse<T: serde::de::DeserializeOwned>(server: &Server, json: &[u8]) -> Result<T, MoveError> {
    peer_json::parse(json).map_err(|error| protocol(server, &format!("what it reports makes no sense ({error})")))
}

fn lost(server: &Server, detail: &str) -> MoveError {
    MoveError::ServerLost { server: server.clone(), detail: detail.to_owned() }
}

fn protocol(server: &Server, detail: &str) -> MoveError {
    MoveError::Protocol { server: server.clone(), detail: detail.to_owned() }
}

/// How it ended, by the server's report.
fn outcome(server: &Server, report: &Report, stop: &Stop) -> Result<(), MoveError> {
    let Some(error) = report.error.as_ref() else { return Ok(()) };
    match ErrorKind::named(&error.code).unwrap_or(ErrorKind::Internal) {
        ErrorKind::Interrupted if stop.is_set() => Err(MoveError::Interrupted),
        ErrorKind::Interrupted => Err(lost(server, "it was told to stop")),
        kind => Err(MoveError::Delegated { server: server.clone(), kind, detail: error.message.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::api::report::{ErrorReport, SourceReport, Status};
    use inhaul_session::session::control_stream::ControlStream;
    use std::net::{TcpListener, TcpStream};

    /// What a client makes of a server that says this.
    fn hear(frames: &[Frame]) -> (Vec<Update>, Report, Result<(), MoveError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut theirs = ControlStream::new(listener.accept().unwrap().0).unwrap();
        for frame in frames {
            theirs.send(frame, Instant::now() + CLOSING).unwrap();
        }
        drop(theirs);
        let server = Server::new("b", 1);
        let stream = ControlStream::new(tcp).unwrap();
        let mut session = Session::over(server, stream);
        let mut heard = Vec::new();
        let (report, result) = follow(&mut session, &Stop::new(), &mut |update| heard.push(update));
        (heard, report, result)
    }

    fn report(report: &Report) -> [Frame; 2] {
        let json = serde_json::to_vec(report).unwrap();
        let (front, back) = json.split_at(json.len() / 2);
        [Frame::Report { last: false, bytes: front.to_vec() }, Frame::Report { last: true, bytes: back.to_vec() }]
    }

    #[test]
    fn follow_hears_updates_and_takes_the_report_as_its_own() {
        let warning = Update::Warning("slow".to_owned());
        let [first, last] = report(&Report { bytes: 7, jain_index: Some(0.0), ..Report::default() });
        let update = Frame::Update { update: serde_json::to_vec(&warning).unwrap() };
        let (heard, report, result) = hear(&[update, first, last]);
        assert_eq!((heard, report.bytes, report.jain_index), (vec![warning], 7, None));
        result.unwrap();
    }

    #[test]
    fn follow_reads_the_report_of_an_earlier_release() {
        let source = SourceReport { bytes: 30, ..SourceReport::default() };
        let sources = vec![source];
        let told = Report { bytes: 50, resumed_bytes: 20, sources, jain_index: Some(1.0), ..Report::default() };
        let mut json = serde_json::to_value(told).unwrap();
        json.as_object_mut().unwrap().remove("fetched_bytes").unwrap();
        json["sources"][0].as_object_mut().unwrap().remove("active_seconds").unwrap();
        let frame = Frame::Report { last: true, bytes: serde_json::to_vec(&json).unwrap() };
        let (_, report, result) = hear(&[frame]);
        result.unwrap();
        // One source has nobody to share with.
        assert_eq!((report.fetched_bytes, report.jain_index), (30, None));
    }

    #[test]
    fn follow_fails_in_the_way_in_which_it_failed_there() {
        let failed = |code: &str| {
            let error = ErrorReport { code: code.to_owned(), message: "because".to_owned() };
            hear(&report(&Report { status: Status::Failed, error: Some(error), ..Report::default() })).2.unwrap_err()
        };
        for kind in [ErrorKind::NoSpace, ErrorKind::Integrity, ErrorKind::Partial] {
            assert_eq!(failed(kind.code()).kind(), kind);
        }
        assert_eq!(failed("something of a later release").kind(), ErrorKind::Internal);
        assert!(matches!(failed("interrupted"), MoveError::ServerLost { .. }));
    }

    #[test]
    fn follow_says_when_the_server_is_lost_or_makes_no_sense() {
        assert!(matches!(hear(&[]).2, Err(MoveError::ServerLost { .. })));
        assert!(matches!(hear(&[Frame::Bye]).2, Err(MoveError::Protocol { .. })));
        assert!(matches!(hear(&[Frame::Update { update: b"{".to_vec() }]).2, Err(MoveError::Protocol { .. })));
        let refuse = |code| hear(&[Frame::Refused { code, text: "full".to_owned() }]).2;
        assert!(matches!(refuse(RefusalCode::Busy), Err(MoveError::Busy { .. })));
        assert!(matches!(refuse(RefusalCode::NotAllowed), Err(MoveError::Refused { .. })));
    }
}
