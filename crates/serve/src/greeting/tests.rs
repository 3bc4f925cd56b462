//! Clients of all kinds are greeted.

use super::*;
use crate::budget::Budget;
use crate::carriers::Carriers;
use crate::gate::Gate;
use crate::half_open::HalfOpen;
use inhaul_identity::Rights;
use inhaul_session::api::options::NetOptions;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::{ServerIdentity, Trust, UnknownServer};
use inhaul_session::session::slots::{Limits, Slots};
use inhaul_session::session::tls::ClientSide;
use std::net::TcpListener;

/// What the server answers to `frames`, and what it makes of the client.
fn talk(service: Service, frames: &[Frame]) -> (Vec<Frame>, Result<Option<Arrival>, GreetingError>) {
    talk_to(service, NetOptions::default(), frames)
}

fn talk_to(
    service: Service,
    net: NetOptions,
    frames: &[Frame],
) -> (Vec<Frame>, Result<Option<Arrival>, GreetingError>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = std::thread::spawn(move || {
        let (tcp, from) = listener.accept().unwrap();
        let waiting = HalfOpen::new(1).take(&tcp, from.ip()).unwrap();
        let identity = ServerIdentity::passing(Rights::ALL).unwrap();
        let house = House {
            service,
            gate: Arc::new(Gate::new(&identity, Arc::default()).unwrap()),
            net: Arc::new(net),
            udp_port: 77,
            desk: Arc::default(),
            slots: Slots::new(Limits { sessions: 1, per_origin: 1, per_client: 1 }),
            passes: Arc::default(),
            counters: Arc::default(),
            tunnels: Carriers::default(),
            orders_being_read: Budget::new(MAX_FRAME),
        };
        greet(tcp, waiting, &house)
    });
    let mut client = ControlStream::new(tcp).unwrap();
    let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
    client.connect_tls(ClientSide::new(&Server::new("a", 1), &trust).unwrap(), Instant::now() + STEP).unwrap();
    let soon = Instant::now() + STEP;
    for frame in frames {
        client.send(frame, soon).unwrap();
    }
    let arrival = server.join().unwrap();
    let mut answers = Vec::new();
    if matches!(arrival, Ok(Some(_))) {
        // The stream stays open: the last answer tells.
        let wants_content = frames.iter().any(|frame| matches!(frame, Frame::Open { early: 1.., .. }));
        let is_last = |frame: &Frame| match frame {
            Frame::DataSet { last, .. } => *last && !wants_content,
            frame => matches!(frame, Frame::Content { .. }),
        };
        while !answers.last().is_some_and(is_last) {
            answers.push(client.receive(soon).unwrap());
        }
    } else {
        while let Ok(frame) = client.receive(soon) {
            answers.push(frame);
        }
    }
    (answers, arrival)
}

fn files() -> (tempfile::TempDir, Service) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"data").unwrap();
    let offered = inhaul_store::Offered::new(&[dir.path().to_path_buf()]).unwrap();
    (dir, Service::Files(Arc::new(Catalogue::unbounded(offered)), None))
}

fn open(path: &str) -> Frame {
    Frame::Open { path: path.to_owned(), owner: false, attributes: false, early: 0 }
}

fn hello(role: SessionRole) -> Frame {
    Frame::Hello { version: VERSION, role, transport: "gtp".to_owned(), parameters: Vec::new() }
}

#[test]
fn parameters_are_the_client_s_unless_the_server_keeps_them() {
    let fhstcp = Protocols::ALL.find("fhstcp").unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let own = [pair("c", "5"), pair("control", "paper")];
    let settled = |asked: &[(String, String)]| {
        settle_parameters(Protocols::ALL, fhstcp, &own, asked.to_vec(), SessionRole::Fetch)
    };
    // What another transport has is none of this one's.
    assert_eq!(settled(&[]).unwrap(), [pair("c", "5")]);
    assert_eq!(settled(&[pair("pacing", "off"), pair("c", "5")]).unwrap(), [pair("c", "5"), pair("pacing", "off")]);
    for (asked, words) in [
        (pair("c", "999"), "keeps 'c' of fhstcp at '5'"),
        (pair("pacing", "perhaps"), "'perhaps' is no value for fhstcp's parameter 'pacing'"),
        (pair("hystart", "off"), "fhstcp has no parameter 'hystart'"),
    ] {
        let error = settled(&[asked]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_takes_more_than_its_share_is_refused_if_the_server_says_so() {
    let asks = |net: &NetOptions, transport: &str, parameter: Option<(&str, &str)>| {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let parameters = parameter.map(own).into_iter().collect();
        let transport = transport.to_owned();
        let hello = Frame::Hello { version: VERSION, role: SessionRole::Fetch, transport, parameters };
        let (_dir, service) = files();
        let (answers, arrival) = talk_to(service, net.clone(), &[hello, open("f")]);
        match answers.last() {
            Some(Frame::Refused { code: RefusalCode::NotAllowed, text }) => Err(text.clone()),
            last => arrival.map(drop).map_err(|error| format!("{error}: {last:?}")),
        }
    };
    let fair_only = NetOptions { fair_only: true, ..NetOptions::default() };
    let fixed = Some(("policy", "fixed"));
    let gtp = [None, Some(("policy", "fair")), Some(("policy", "low"))];
    for (transport, parameter) in gtp.map(|parameter| ("gtp", parameter)).into_iter().chain([("cubic", None)]) {
        assert_eq!(asks(&fair_only, transport, parameter), Ok(()), "{transport} {parameter:?}");
    }
    for (transport, parameter, what) in [
        ("gtp", fixed, "leave out policy=fixed"),
        ("gtp", Some(("policy", "high")), "leave out policy=high"),
        ("gtp", Some(("control", "paper")), "leave out control=paper"),
        ("rbudp", None, "leave out rbudp"),
    ] {
        let text = asks(&fair_only, transport, parameter).unwrap_err();
        assert!(text.contains(what) && text.contains("--fair-only"), "{text}");
    }
    // Without that all are let in.
    assert_eq!(asks(&NetOptions::default(), "gtp", fixed), Ok(()));
}

#[test]
fn a_receiver_is_to_know_what_the_server_keeps_of_it() {
    let gtp = Protocols::ALL.find("gtp").unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settled = |own: &str, asked: &[(String, String)], role| {
        settle_parameters(Protocols::ALL, gtp, &[pair("policy", own)], asked.to_vec(), role)
    };
    let error = settled("low", &[], SessionRole::Fetch).unwrap_err().to_string();
    assert!(error.contains("keeps 'policy' of gtp at 'low': add --policy low"), "{error}");
    let low = [pair("policy", "low")];
    assert_eq!(settled("low", &low, SessionRole::Fetch).unwrap(), low);
    // What is kept anyway need not be said, and who receives itself does not need to be told.
    assert_eq!(settled("fair", &[], SessionRole::Fetch).unwrap(), [pair("policy", "fair")]);
    assert_eq!(settled("low", &[], SessionRole::Delegate).unwrap(), low);
    // The paper's control knows no policies.
    let error = settled("fair", &[pair("control", "paper")], SessionRole::Fetch).unwrap_err().to_string();
    assert!(error.contains("control"), "{error}");
}

#[test]
fn greet_sends_the_manifest_of_what_is_asked_for() {
    let (_dir, service) = files();
    let (answers, arrival) = talk(service, &[hello(SessionRole::Fetch), open("f")]);
    assert!(matches!(answers[0], Frame::Welcome { version: VERSION, udp_port: 77, key: Some(_) }), "{answers:?}");
    let Frame::DataSet { last: true, bytes } = &answers[1] else { panic!("{answers:?}") };
    let manifest = inhaul_store::Manifest::decode(bytes).unwrap();
    let Arrival::Fetcher(fetcher) = arrival.unwrap().unwrap() else { panic!("no data set") };
    assert_eq!(manifest, **fetcher.described.data_set.data_set().manifest());
}

#[test]
fn greet_says_the_files_version_to_who_asks_for_it() {
    let (dir, service) = files();
    let path = dir.path().join("f");
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    let (answers, _) = talk(service, &[hello(SessionRole::Fetch), Frame::AskVersion, open("f")]);
    let [_, Frame::FilesVersion { .. }, Frame::DataSet { last: true, .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
}

#[test]
fn greet_sends_content_with_the_description_and_digests_if_it_is_all() {
    for (early, expected) in [(4, &b"data"[..]), (3, b"dat")] {
        let (_dir, service) = files();
        let open = Frame::Open { path: "f".to_owned(), owner: false, attributes: false, early };
        let (mut answers, arrival) = talk(service, &[hello(SessionRole::Fetch), open]);
        let Arrival::Fetcher(fetcher) = arrival.unwrap().unwrap() else { panic!("no data set") };
        assert_eq!(fetcher.described.early_bytes, expected.len());
        assert_eq!(answers.pop(), Some(Frame::Content { bytes: expected.to_vec() }));
        assert_eq!(answers.len(), if expected.len() < 4 { 2 } else { 3 }, "{answers:?}");
    }
}

#[test]
fn greet_lists_what_there_is_and_has_nothing_more_to_do() {
    let (_dir, service) = files();
    let list = Frame::List { recursive: false, path: "/".to_owned() };
    let (answers, arrival) = talk(service, &[hello(SessionRole::Fetch), list]);
    let Frame::Listing { last: true, bytes } = &answers[1] else { panic!("{answers:?}") };
    let items = inhaul_store::Listed::decode_all(bytes).unwrap();
    assert_eq!(items.iter().map(|item| (&item.path[..], item.size)).collect::<Vec<_>>(), [(&b"f"[..], 4)]);
    assert!(matches!(arrival, Ok(None)));
}

#[test]
fn greet_admits_probes_until_the_client_has_finished() {
    let (_dir, service) = files();
    let (answers, arrival) = talk(service, &[hello(SessionRole::Fetch), Frame::Probe, Frame::Finish]);
    assert!(matches!(answers[1..], [Frame::ProbeGrant { .. }, Frame::Bye]), "{answers:?}");
    assert!(matches!(arrival, Ok(None)));
}

#[test]
fn greet_refuses_and_says_why() {
    let list = |path: &str| Frame::List { recursive: true, path: path.to_owned() };
    let hello_of = |version, transport: &str| Frame::Hello {
        version,
        role: SessionRole::Fetch,
        transport: transport.to_owned(),
        parameters: Vec::new(),
    };
    let old = hello_of(VERSION + 1, "");
    let odd = hello_of(VERSION, "carrier-pigeon");
    for (frames, code) in [
        (vec![odd], RefusalCode::UnknownTransport),
        (vec![hello(SessionRole::Fetch), open("missing")], RefusalCode::NotFound),
        (vec![hello(SessionRole::Fetch), open("../secret")], RefusalCode::Outside),
        (vec![hello(SessionRole::Fetch), list("missing")], RefusalCode::NotFound),
        (vec![hello(SessionRole::Fetch), list("..")], RefusalCode::Outside),
        (vec![hello(SessionRole::Fetch), Frame::Finish], RefusalCode::Malformed),
        (vec![hello(SessionRole::BenchFetch)], RefusalCode::WrongService),
        (vec![hello(SessionRole::Delegate)], RefusalCode::NotAllowed),
        (vec![hello(SessionRole::Attach)], RefusalCode::NotAllowed),
        (vec![old], RefusalCode::Version),
        (vec![Frame::Finish], RefusalCode::Malformed),
    ] {
        let (_dir, service) = files();
        let (answers, arrival) = talk(service, &frames);
        assert!(matches!(answers.last(), Some(Frame::Refused { code: c, .. }) if *c == code), "{answers:?}");
        assert!(arrival.is_err());
    }
}

#[test]
fn greet_takes_bench_clients_when_it_is_a_bench() {
    let bench = Frame::Bench { size: 9, memory: Memory::Cold };
    let (_, arrival) = talk(Service::Bench, &[hello(SessionRole::BenchPush), bench]);
    let Arrival::Bencher(bencher) = arrival.unwrap().unwrap() else { panic!("no bench") };
    assert_eq!((bencher.role, bencher.size, bencher.memory), (SessionRole::BenchPush, 9, Memory::Cold));
    let (answers, _) = talk(Service::Bench, &[hello(SessionRole::Fetch)]);
    assert!(matches!(answers.last(), Some(Frame::Refused { code: RefusalCode::WrongService, .. })), "{answers:?}");
}
