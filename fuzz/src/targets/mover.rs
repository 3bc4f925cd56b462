//! Sessions: frames from the peer, sources from the command line, and lists of files to fetch.

use inhaul_mover::frame::{BenchStats, Frame, GroupRun, Memory, PartOf, RefusalCode, SessionRole, VERSION, framed};
use inhaul_mover::{
    FetchListFormat, FileReport, Order, Part, Progress, Report, Source, SourceProgress, Update, fuzzing,
    read_fetch_list,
};

use super::{identity, samples, store};

/// A session's frame: the first byte is its kind, the others its body. Length and checksum are added, because the
/// fuzzer would not get past them.
pub fn session_frame(data: &[u8]) -> bool {
    let _ = Frame::parse(data);
    let Some((kind, body)) = data.split_first() else { return false };
    let bytes = framed(*kind, body);
    let Ok(Some((frame, used))) = Frame::parse(&bytes) else { return false };
    let mut again = Vec::new();
    frame.encode(&mut again);
    match &frame {
        // Text for people is made safe when it is parsed, and does not change after that.
        Frame::Refused { text, .. } | Frame::Hello { transport: text, .. } => {
            assert_eq!(*text, inhaul_mover::printable(text.as_bytes()), "{frame:?}");
            assert_eq!(Frame::parse(&again), Ok(Some((frame, again.len()))));
        }
        // Fields of later releases are left out.
        Frame::Welcome { .. } | Frame::Optional { .. } => {
            assert_eq!(Frame::parse(&again), Ok(Some((frame, again.len()))));
        }
        frame => assert_eq!(Some(again.as_slice()), bytes.get(..used), "a frame has one form on the wire: {frame:?}"),
    }
    true
}

pub(super) fn frames() -> Vec<Vec<u8>> {
    [
        Frame::Hello {
            version: VERSION,
            role: SessionRole::Fetch,
            transport: "gtp".to_owned(),
            parameters: vec![("control".to_owned(), "paper".to_owned())],
        },
        Frame::Welcome { version: VERSION, udp_port: 4321, key: None },
        Frame::Refused { code: RefusalCode::NotFound, text: "there is nothing at run7".to_owned() },
        Frame::Open { path: "run7/events.h5".to_owned(), owner: false, attributes: true, early: 40_000 },
        Frame::Content { bytes: vec![3; 40] },
        Frame::Bench { size: 1 << 40, memory: Memory::Cold },
        Frame::DataSet { last: true, bytes: vec![1; 40] },
        Frame::Protocol { message: vec![7] },
        Frame::DigestsOf { runs: vec![GroupRun { first: 3, count: 100 }, GroupRun { first: 200, count: 1 }] },
        Frame::Digests { first_group: 3, values: vec![[9; 32]; 2] },
        Frame::ProofsOf { parts: vec![PartOf { group: 3, first: 5, count: 4, levels: 2 }; 2] },
        Frame::Proof {
            part: PartOf { group: 3, first: 5, count: 4, levels: 2 },
            digest: [9; 32],
            inside: vec![[8; 32]; 3],
            path: vec![[7; 32]; 2],
        },
        Frame::Stats(BenchStats { placed_bytes: 1 << 30, received_packets: 745_655, ..BenchStats::default() }),
        Frame::List { recursive: true, path: "/run7".to_owned() },
        Frame::Listing { last: true, bytes: vec![2; 50] },
        Frame::Probe,
        Frame::ProbeGrant { token: 7 },
        Frame::Delegate { order: orders().swap_remove(0) },
        Frame::Update { update: br#"{"warning":"slow"}"#.to_vec() },
        Frame::Report { last: true, bytes: vec![3; 20] },
        Frame::Attach { token: 7, source: 1 },
        Frame::Authorize { token: identity::tokens().swap_remove(0) },
        Frame::AskToken { holder: [9; 32], path: "/run7".to_owned() },
        Frame::TokenGrant { token: vec![1; 57] },
        Frame::Finish,
        Frame::Bye,
    ]
    .iter()
    .map(|frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        // Kind and body, without length and checksum.
        let checksum_len = framed(bytes[4], &[]).len() - 5;
        bytes[4..bytes.len() - checksum_len].to_vec()
    })
    .collect()
}

/// A source: `inhaul://a:1,b/path`.
pub fn source(data: &[u8]) -> bool {
    let Some(source) = str::from_utf8(data).ok().and_then(|text| text.parse::<Source>().ok()) else { return false };
    assert!(!source.mirrors.is_empty());
    assert_eq!(source.path.trim_matches('/'), source.path);
    for server in &source.mirrors {
        assert_eq!(server.to_string().parse().as_ref(), Ok(server));
    }
    assert_eq!(source.to_string().parse(), Ok(source));
    true
}

pub(super) fn sources() -> Vec<Vec<u8>> {
    samples::of_texts(&[
        "inhaul://dtn1/run7/events.h5",
        "inhaul://a:1,b:2,c/path",
        "inhaul://[::1]:4321,[fe80::1%eth0]/100%25",
        "inhaul://10.0.0.1:65535",
        "inhaul://a/%2Fetc/%252F/",
    ])
}

/// A Metalink 4.
pub fn metalink(data: &[u8]) -> bool {
    fetch_list(FetchListFormat::Metalink, data)
}

pub(super) fn metalinks() -> Vec<Vec<u8>> {
    let file = |name: &str, path: &str| {
        format!(
            "<file name=\"{name}\">\n<size>7</size><hash type=\"sha-256\">{}</hash>\n\
             <url priority=\"1\">inhaul://a,b:5/{path}</url><url>http://c/{path}</url></file>\n",
            "0a".repeat(32)
        )
    };
    let document = |files: &str| format!("<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n{files}</metalink>\n");
    let many: String = (0..9).map(|k| file(&format!("sub/{k}"), &format!("run7/sub/{k}"))).collect();
    vec![document(&file("a &amp; b", "x/y")).into_bytes(), document(&many).into_bytes()]
}

/// An input file of aria2.
pub fn input_file(data: &[u8]) -> bool {
    fetch_list(FetchListFormat::InputFile, data)
}

pub(super) fn input_files() -> Vec<Vec<u8>> {
    samples::of_texts(&[
        "inhaul://a/x\tinhaul://b:5/y\n  out=z\n  dir=sub/deep\n# comment\ninhaul://a/run7\n",
        "inhaul://a/d/1\ninhaul://a/d/2\ninhaul://a/d/3\ninhaul://a/d/4\n\
         inhaul://a/d/5\ninhaul://a/d/6\ninhaul://a/d/7\ninhaul://a/d/8\n dir=e\n",
    ])
}

/// Parsed requests land beneath the destination, and never twice in one place.
fn fetch_list(format: FetchListFormat, data: &[u8]) -> bool {
    let Ok(requests) = read_fetch_list(format, data) else { return false };
    assert!(!requests.is_empty());
    let stays = |path: &str| path.split('/').all(|name| !matches!(name, "" | "." | ".."));
    let mut places = Vec::new();
    for request in &requests {
        assert!(!request.mirrors.is_empty());
        let place = str::from_utf8(request.place.as_deref().unwrap_or(b"..")).unwrap_or("..");
        assert!(stays(place) || place.is_empty() && matches!(request.part, Part::Listed(_)), "{request:?}");
        if let Part::Listed(files) = &request.part {
            let is_path = |path: &Vec<u8>| str::from_utf8(path).is_ok_and(stays);
            assert!(!files.is_empty() && files.keys().all(is_path), "{request:?}");
        }
        places.push(place);
    }
    places.sort_unstable();
    let count = places.len();
    places.dedup();
    assert_eq!(places.len(), count, "{requests:?}");
    true
}

/// An order: files that a server fetches for a client.
pub fn order(data: &[u8]) -> bool {
    let Ok(order) = Order::parse(data) else { return false };
    let again = order.to_json().unwrap_or_default();
    assert_eq!(Order::parse(&again).ok(), Some(order));
    true
}

/// The same, and the filter of its rules.
pub fn order_filter(data: &[u8]) -> bool {
    fuzzing::order_filter(data)
}

/// A control stream, frame by frame.
pub fn session_stream(data: &[u8]) -> bool {
    fuzzing::session_stream(data)
}

pub(super) fn streams() -> Vec<Vec<u8>> {
    fuzzing::session_streams()
}

pub(super) fn orders() -> Vec<Vec<u8>> {
    let rest = r#""transfer":7,"destination":"d/e","rules":[{"exclude":"*.tmp"},{"line":"!x"}],"existing":"keep","checksum":false,
        "attributes":true,"fresh":false,"dry_run":true,"retry_seconds":60,"rate_bps":"#;
    samples::of_texts(&[
        &format!(r#"{{"origin":{{"client":{{"sources":3}}}},"fallback":"always",{rest}null}}"#),
        &format!(r#"{{"origin":{{"servers":{{"sources":["inhaul://a,b:7/c"]}}}},{rest}1000000}}"#),
    ])
}

/// A server's reports on a transfer for a client: while it runs, and at its end.
pub fn update(data: &[u8]) -> bool {
    if let Ok(update) = serde_json::from_slice::<Update>(data) {
        return reads_back(&update);
    }
    serde_json::from_slice::<Report>(data).is_ok_and(|report| reads_back(&report))
}

fn reads_back<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> bool {
    let text = serde_json::to_vec(value).expect("what was read can be written");
    let again: T = serde_json::from_slice(&text).expect("what was written can be read");
    assert_eq!(again, *value);
    true
}

pub(super) fn updates() -> Vec<Vec<u8>> {
    let source =
        SourceProgress { address: "a:4321".to_owned(), bytes: 7, loss_ratio: 0.01, ..SourceProgress::default() };
    let progress = Progress { seconds: 1.5, total_bytes: 1 << 40, sources: vec![source], ..Progress::default() };
    let file = FileReport { path: "d/e".to_owned(), blake3: Some("0a".repeat(32)), ..FileReport::default() };
    let report = Report { files: vec![file], warnings: vec!["slow".to_owned()], ..Report::default() };
    let json = |value: serde_json::Result<Vec<u8>>| value.expect("a sample can be written");
    vec![
        json(serde_json::to_vec(&Update::Progress(progress))),
        json(serde_json::to_vec(&Update::Warning("a \u{1b}[31m word".to_owned()))),
        json(serde_json::to_vec(&report)),
    ]
}

/// A datagram of the doctor, or of a client that shows where its datagrams come from.
pub fn probe(data: &[u8]) -> bool {
    fuzzing::probe(data)
}

/// A proxy's answer.
pub fn proxy(data: &[u8]) -> bool {
    fuzzing::proxy(data)
}

pub(super) fn proxies() -> Vec<Vec<u8>> {
    fuzzing::proxies()
}

pub(super) fn probes() -> Vec<Vec<u8>> {
    fuzzing::probes()
}

/// A receiver's account of a data set: see [`fuzzing::bookkeeping`].
pub fn bookkeeping(data: &[u8]) -> bool {
    fuzzing::bookkeeping(data)
}

pub(super) fn data_sets() -> Vec<Vec<u8>> {
    let with_pieces = |manifest: Vec<u8>| {
        let len = (manifest.len() as u16).to_be_bytes();
        let piece = |offset: u64, len: u16| [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat();
        let pieces = [piece(0, 1440), piece(1440, 60_000), piece(1 << 20, 1), piece(u64::MAX, 9000)].concat();
        [&len[..], &manifest, &pieces].concat()
    };
    store::manifests().into_iter().chain(store::sparse_manifests()).map(with_pieces).collect()
}
