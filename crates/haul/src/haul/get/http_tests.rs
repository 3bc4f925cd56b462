//! `get` from HTTP servers, as odd as real ones are: what each does, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use inhaul_base::Span;

use super::get;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::options::{GetOptions, Stop, Update};
use inhaul_session::api::report::Report;
use inhaul_session::api::request::Request;
use inhaul_session::api::source::Source;
use inhaul_sources::http::odd::{Asked, OddServer, Reply};

use Outcome::{Fails, Lands};

/// What comes of a transfer from one server that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The file lands, right.
    Lands,
    /// The server is refused, for a reason that the error gives in these words.
    Fails(&'static str),
}

fn data() -> Arc<Vec<u8>> {
    data_of((5 << 20) + 11)
}

fn data_of(bytes: u64) -> Arc<Vec<u8>> {
    Arc::new((0..bytes).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect())
}

fn fetch(urls: &str) -> (Option<Vec<u8>>, Report, Result<(), MoveError>) {
    let into = tempfile::tempdir().unwrap();
    let source: Source = urls.parse().unwrap();
    let mut options = GetOptions::new(vec![Request::from(source)], into.path().join("file"));
    options.retry_for = Span::from_secs(5);
    let (report, result) = get(&options, &Stop::new(), &mut |_| {});
    (std::fs::read(into.path().join("file")).ok(), report, result)
}

type Row = (&'static str, Outcome, Manner);
type Manner = Box<dyn Fn(&[u8], &Asked) -> Reply + Send + Sync>;

/// What servers do, and what comes of it if it is the only one.
fn manners() -> Vec<Row> {
    [as_they_should(), of_ranges(), of_versions(), refusals(), busy(), of_connections(), redirects()]
        .into_iter()
        .flatten()
        .collect()
}

fn manner(does: impl Fn(&[u8], &Asked) -> Reply + Send + Sync + 'static) -> Manner {
    Box::new(does)
}

fn later(asked: &Asked) -> bool {
    asked.before > 0
}

fn as_they_should() -> Vec<Row> {
    vec![
        ("ranges and a strong ETag", Lands, manner(|data, asked| Reply::part(data, asked).with("etag", "\"1\""))),
        ("ranges and no validator", Lands, manner(Reply::part)),
        ("a weak ETag", Lands, manner(|data, asked| Reply::part(data, asked).with("etag", "W/\"1\""))),
        (
            "412 to any condition but its own ETag",
            Lands,
            manner(|data, asked| match asked.if_match.as_deref() {
                Some(etag) if etag != "\"1\"" => Reply::status("412 Precondition Failed"),
                _ => Reply::part(data, asked).with("etag", "\"1\""),
            }),
        ),
        ("no ranges", Lands, manner(|data, _| Reply::whole(data))),
        ("no ranges, though it says so", Lands, manner(|data, _| Reply::whole(data).with("accept-ranges", "bytes"))),
    ]
}

fn of_ranges() -> Vec<Row> {
    vec![
        (
            "ranges at first, then the whole file",
            Fails("whole file"),
            manner(move |data, asked| if later(asked) { Reply::whole(data) } else { Reply::part(data, asked) }),
        ),
        (
            "another range than was asked for",
            Fails("another part"),
            manner(move |data, asked| match asked.range {
                Some((first, last)) if later(asked) => {
                    Reply::part(data, &Asked { range: Some((first + 4, last + 4)), ..asked.clone() })
                }
                _ => Reply::part(data, asked),
            }),
        ),
        (
            "shorter ranges than were asked for",
            Lands,
            manner(|data, asked| {
                let range = asked.range.map(|(first, last)| (first, last.min(first + 99_999)));
                Reply::part(data, &Asked { range, ..asked.clone() })
            }),
        ),
        (
            "no Content-Range",
            Fails("another part"),
            manner(|data, asked| Reply { headers: Vec::new(), ..Reply::part(data, asked) }),
        ),
        (
            "an unknown length",
            Fails("how long"),
            manner(|data, asked| {
                let part = Reply::part(data, asked);
                Reply { headers: vec![("content-range", "bytes 0-0/*".to_owned())], ..part }
            }),
        ),
        (
            "a body that is compressed",
            Fails("gzip"),
            manner(|data, _| Reply::whole(data).with("content-encoding", "gzip")),
        ),
    ]
}

fn of_versions() -> Vec<Row> {
    vec![
        (
            "another version after a while",
            Fails("changed"),
            manner(move |data, asked| {
                Reply::part(data, asked).with("etag", if asked.before > 2 { "\"2\"" } else { "\"1\"" })
            }),
        ),
        (
            "another size after a while",
            Fails("changed"),
            manner(move |data, asked| {
                let data = if asked.before > 2 { &data[1..] } else { data };
                Reply::part(data, asked)
            }),
        ),
        (
            "412 after a while",
            Fails("changed"),
            manner(move |data, asked| match asked.before {
                0..=2 => Reply::part(data, asked).with("etag", "\"1\""),
                _ => Reply::status("412 Precondition Failed"),
            }),
        ),
    ]
}

fn refusals() -> Vec<Row> {
    vec![
        ("404", Fails("404"), manner(|_, _| Reply::status("404 Not Found"))),
        ("410", Fails("410"), manner(|_, _| Reply::status("410 Gone"))),
        ("403", Fails("403"), manner(|_, _| Reply::status("403 Forbidden"))),
        ("401", Fails("401"), manner(|_, _| Reply::status("401 Unauthorized"))),
        ("a status of its own", Fails("418"), manner(|_, _| Reply::status("418 I'm a teapot"))),
    ]
}

fn busy() -> Vec<Row> {
    vec![
        (
            "429 every third time, with Retry-After in seconds",
            Lands,
            manner(|data, asked| match asked.before % 3 {
                2 => Reply::status("429 Too Many Requests").with("retry-after", "0"),
                _ => Reply::part(data, asked),
            }),
        ),
        (
            "503 every third time, with a date",
            Lands,
            manner(|data, asked| match asked.before % 3 {
                2 => Reply::status("503 Service Unavailable").with("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
                _ => Reply::part(data, asked),
            }),
        ),
        (
            "500 every fourth time",
            Lands,
            manner(|data, asked| match asked.before % 4 {
                3 => Reply::status("500 Internal Server Error"),
                _ => Reply::part(data, asked),
            }),
        ),
    ]
}

fn of_connections() -> Vec<Row> {
    vec![
        (
            "connections that close in mid-body",
            Lands,
            manner(|data, asked| Reply { closes_after: Some(300_000), ..Reply::part(data, asked) }),
        ),
        (
            "connections that close before the head",
            Lands,
            manner(|data, asked| match asked.before % 5 {
                4 => Reply { closes_after: Some(0), ..Reply::part(data, asked) },
                _ => Reply::part(data, asked),
            }),
        ),
        (
            "a longer body than it says",
            Lands,
            manner(|data, asked| {
                let part = Reply::part(data, asked);
                let length = Some(part.body.len() as u64);
                let mut body = part.body.clone();
                body.extend_from_slice(b"and more");
                Reply { body, length, closes_after: Some(usize::MAX), ..part }
            }),
        ),
        (
            "a length that is not that of its range",
            Fails("another part"),
            manner(move |data, asked| match later(asked) {
                true => Reply { length: Some(7), ..Reply::part(data, asked) },
                false => Reply::part(data, asked),
            }),
        ),
    ]
}

fn redirects() -> Vec<Row> {
    vec![
        (
            "a redirect",
            Lands,
            manner(|data, asked| match asked.path.as_str() {
                "/file" => Reply::status("302 Found").with("location", "/signed?until=1"),
                _ => Reply::part(data, asked),
            }),
        ),
        (
            "redirects to URLs that are valid for a while",
            Lands,
            manner(|data, asked| match asked.path.strip_prefix("/signed?") {
                None => Reply::status("307 Temporary Redirect").with("location", format!("signed?{}", asked.before)),
                Some(since) if asked.before > since.parse::<u64>().unwrap() + 9 => Reply::status("403 Forbidden"),
                Some(_) => Reply::part(data, asked),
            }),
        ),
        (
            "redirects in a circle",
            Fails("redirects more than"),
            manner(|_, _| Reply::status("301 Moved Permanently").with("location", "/file")),
        ),
        (
            "a redirect to a local file",
            Fails("no URL of HTTP"),
            manner(|_, _| Reply::status("302 Found").with("location", "file:///etc/passwd")),
        ),
        ("a redirect to nowhere", Fails("nowhere"), manner(|_, _| Reply::status("302 Found"))),
        (
            "a head without end",
            Fails("127.0.0.1"),
            manner(|data, asked| {
                (0..3000).fold(Reply::part(data, asked), |reply, _| reply.with("x-bomb", "b".repeat(100)))
            }),
        ),
    ]
}

#[test]
fn servers_as_they_are() {
    let data = data();
    for (does, expected, manner) in manners() {
        let content = Arc::clone(&data);
        let server = OddServer::start(move |asked| manner(&content, asked));
        let (landed, report, result) = fetch(&server.url("/file"));
        match (expected, result) {
            (Lands, Ok(())) => {
                assert!(landed.as_ref() == Some(&data), "{does}: other bytes have landed");
                assert!(!report.files[0].verified, "{does}");
            }
            (Fails(words), Err(error)) => {
                assert!(error.to_string().contains(words), "{does}: {error}");
                assert_eq!(landed, None, "{does}");
            }
            (_, result) => panic!("{does}: {result:?}, and should be {expected:?}"),
        }
    }
}

#[test]
fn an_empty_file_and_one_byte_land() {
    for len in [0, 1] {
        let server = OddServer::start(move |asked| Reply::part(&data()[..len], asked));
        let (landed, _, result) = fetch(&server.url("/file"));
        result.unwrap();
        assert_eq!(landed, Some(data()[..len].to_vec()));
    }
}

#[test]
fn mirrors_share_the_work_and_one_that_changes_is_left() {
    // More than the first two are asked for at once.
    let content = data_of(40 << 20);
    let serve = |content: &Arc<Vec<u8>>| {
        let content = Arc::clone(content);
        OddServer::start(move |asked| {
            Reply { drips: Duration::from_millis(5), ..Reply::part(&content, asked) }.with("etag", "\"1\"")
        })
    };
    let (a, b) = (serve(&content), serve(&content));
    let changing = {
        let content = Arc::clone(&content);
        OddServer::start(move |asked| {
            Reply::part(&content, asked).with("etag", if asked.before > 1 { "\"2\"" } else { "\"1\"" })
        })
    };
    let urls = [&a, &b, &changing].map(|server| server.url("/file")).join(",");
    let (landed, report, result) = fetch(&urls);
    result.unwrap();
    assert!(landed.as_ref() == Some(&content));
    assert!(a.sent_bytes() > 0 && b.sent_bytes() > 0);
    assert!(a.sent_bytes() + b.sent_bytes() < content.len() as u64 + (8 << 20), "nothing good comes twice");
    assert!(report.warnings.iter().any(|warning| warning.contains("changed")), "{:?}", report.warnings);
}

#[test]
fn secrets_are_for_the_host_that_the_user_has_named() {
    let content = data();
    let other = {
        let content = Arc::clone(&content);
        OddServer::start(move |asked| Reply::part(&content, asked))
    };
    let elsewhere = other.url("/file");
    let origin = OddServer::start(move |_| Reply::status("302 Found").with("location", elsewhere.clone()));
    let url = origin.url("/file").replace("http://", "http://me:secret@");
    let (landed, report, result) = fetch(&url);
    result.unwrap();
    assert!(landed.as_ref() == Some(&content));
    let at_origin = origin.asked.lock().unwrap()[0].authorization.clone();
    assert_eq!(at_origin.as_deref(), Some("Basic bWU6c2VjcmV0"));
    assert!(other.asked.lock().unwrap().iter().all(|asked| asked.authorization.is_none()));
    assert!(!format!("{report:?}").contains("secret"), "{report:?}");
}

#[test]
fn a_transfer_that_is_continued_does_not_mix_two_versions() {
    let (first, second) = (data_of(30 << 20), data());
    let second: Arc<Vec<u8>> =
        Arc::new(second.iter().copied().cycle().take(first.len()).map(|byte| byte ^ 0x55).collect());
    for etags in [[Some("\"1\""), Some("\"2\"")], [Some("\"1\""), Some("\"1\"")], [None, None]] {
        let is_changed = etags[0] != etags[1] || etags[0].is_none();
        let into = tempfile::tempdir().unwrap();
        let versions = [Arc::clone(&first), if is_changed { Arc::clone(&second) } else { Arc::clone(&first) }];
        let now = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (content, version) = (versions.clone(), Arc::clone(&now));
        let server = OddServer::start(move |asked| {
            let at = version.load(std::sync::atomic::Ordering::Relaxed);
            let drips = Duration::from_millis(if at == 0 { 4 } else { 0 });
            let reply = Reply { drips, ..Reply::part(&content[at], asked) };
            if let Some(etag) = etags[at] { reply.with("etag", etag) } else { reply }
        });
        let source: Source = server.url("/file").parse().unwrap();
        let mut options = GetOptions::new(vec![Request::from(source)], into.path().join("file"));
        options.retry_for = Span::from_secs(5);
        let stop = Stop::new();
        let (_, result) = get(&options, &stop.clone(), &mut |update| {
            if matches!(&update, Update::Progress(progress) if progress.bytes > 4 << 20) {
                stop.stop();
            }
        });
        assert!(matches!(result, Err(MoveError::Interrupted)), "{result:?}");
        let before = server.sent_bytes();
        now.store(1, std::sync::atomic::Ordering::Relaxed);
        let (report, result) = get(&options, &Stop::new(), &mut |_| {});
        result.unwrap();
        let landed = std::fs::read(into.path().join("file")).unwrap();
        assert!(landed == *versions[1], "two versions were mixed: {etags:?}");
        assert_eq!(report.resumed_bytes > 0, !is_changed, "{etags:?}: {report:?}");
        assert!(is_changed || server.sent_bytes() - before < 27 << 20, "the data of the first transfer comes again");
    }
}

#[test]
fn a_server_without_ranges_sends_its_file_once() {
    let (content, served) = (data(), data());
    let whole = OddServer::start(move |_| Reply::whole(&served));
    let (landed, _, result) = fetch(&whole.url("/file"));
    result.unwrap();
    assert!(landed.as_ref() == Some(&content));
    assert!(whole.sent_bytes() <= content.len() as u64, "{}", whole.sent_bytes());
    let served = data();
    let ranges = OddServer::start(move |asked| Reply::part(&served, asked));
    let (landed, _, result) = fetch(&format!("{},{}", whole.url("/file"), ranges.url("/file")));
    result.unwrap();
    assert!(landed.as_ref() == Some(&content));
}
