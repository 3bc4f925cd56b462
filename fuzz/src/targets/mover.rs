//! Sessions: frames from the peer, sources from the command line.

use inhaul_mover::Source;
use inhaul_mover::frame::{BenchStats, Frame, GroupRun, Memory, RefusalCode, SessionRole, VERSION};

use super::samples;

/// A session's frame.
pub fn session_frame(data: &[u8]) -> bool {
    let Ok(Some((frame, used))) = Frame::parse(data) else { return false };
    let mut again = Vec::new();
    frame.encode(&mut again);
    assert_eq!(Some(again.as_slice()), data.get(..used), "a frame has one form on the wire: {frame:?}");
    true
}

pub(super) fn frames() -> Vec<Vec<u8>> {
    [
        Frame::Hello { version: VERSION, role: SessionRole::Fetch, transport: "gtp".to_owned() },
        Frame::Welcome { version: VERSION, udp_port: 4321 },
        Frame::Refused { code: RefusalCode::NotFound, text: "there is nothing at run7".to_owned() },
        Frame::Open { path: "run7/events.h5".to_owned(), owner: false, attributes: true },
        Frame::Bench { size: 1 << 40, memory: Memory::Cold },
        Frame::DataSet { last: true, bytes: vec![1; 40] },
        Frame::Protocol { message: vec![7] },
        Frame::DigestsOf { runs: vec![GroupRun { first: 3, count: 100 }, GroupRun { first: 200, count: 1 }] },
        Frame::Digests { first_group: 3, values: vec![[9; 32]; 2] },
        Frame::Stats(BenchStats { placed_bytes: 1 << 30, received_packets: 745_655, ..BenchStats::default() }),
        Frame::List { recursive: true, path: "/run7".to_owned() },
        Frame::Listing { last: true, bytes: vec![2; 50] },
        Frame::Probe,
        Frame::ProbeGrant { token: 7 },
        Frame::Finish,
        Frame::Bye,
    ]
    .iter()
    .map(|frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
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
    samples(&[
        "inhaul://dtn1/run7/events.h5",
        "inhaul://a:1,b:2,c/path",
        "inhaul://[::1]:4321,[fe80::1%eth0]/100%25",
        "inhaul://10.0.0.1:65535",
        "inhaul://a/%2Fetc/%252F/",
    ])
}
