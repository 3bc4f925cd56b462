//! Frames there and back, and bytes that are none.

use proptest::prelude::*;

use super::codec::{MAX_TEXT, kind};
use super::*;

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn stats() -> impl Strategy<Value = BenchStats> {
    any::<[u64; 6]>().prop_map(|[placed, received, lost, again, rtt, cpu]| BenchStats {
        placed_bytes: placed,
        received_packets: received,
        lost_packets: lost,
        retransmitted_bytes: again,
        rtt: Span::from_nanos(rtt),
        cpu: Span::from_nanos(cpu),
    })
}

fn part() -> impl Strategy<Value = PartOf> {
    (any::<u64>(), any::<u16>(), 1..=u16::MAX, 0..=44u8).prop_map(|(group, first, count, levels)| PartOf {
        group,
        first,
        count,
        levels,
    })
}

fn digests(max: usize) -> impl Strategy<Value = Vec<GroupDigest>> {
    prop::collection::vec(any::<GroupDigest>(), 0..=max)
}

fn frame() -> impl Strategy<Value = Frame> {
    let role = prop::sample::select(SessionRole::ALL.to_vec());
    let code = prop::sample::select(RefusalCode::ALL.to_vec());
    let memory = prop::sample::select(vec![Memory::Hot, Memory::Cold]);
    prop_oneof![
        (role, "[a-z0-9]{0,32}", prop::collection::vec(("[a-z]{1,64}", "[a-z0-9. ]{0,64}"), 0..=MAX_PARAMETERS))
            .prop_map(|(role, transport, parameters)| Frame::Hello { version: VERSION, role, transport, parameters }),
        (any::<u16>(), 1..=u16::MAX, any::<Option<[u8; 32]>>()).prop_map(|(version, udp_port, key)| Frame::Welcome {
            version,
            udp_port,
            key
        }),
        (code, "[a-z' \u{e9}\u{4e2d}]{0,200}").prop_map(|(code, text)| Frame::Refused { code, text }),
        (prop::collection::vec(any::<char>(), 0..200), any::<bool>(), any::<bool>(), any::<u32>()).prop_map(
            |(path, owner, attributes, early)| Frame::Open {
                path: path.into_iter().collect(),
                owner,
                attributes,
                early
            }
        ),
        (any::<u64>(), memory).prop_map(|(size, memory)| Frame::Bench { size, memory }),
        (any::<bool>(), bytes(300)).prop_map(|(last, bytes)| Frame::DataSet { last, bytes }),
        bytes(300).prop_map(|bytes| Frame::Content { bytes }),
        bytes(300).prop_map(|token| Frame::Authorize { token }),
        bytes(300).prop_map(|token| Frame::TokenGrant { token }),
        (any::<[u8; 32]>(), "[a-z/]{0,20}").prop_map(|(holder, path)| Frame::AskToken { holder, path }),
        bytes(300).prop_map(|message| Frame::Protocol { message }),
        prop::collection::vec(any::<(u64, u64)>(), 1..9).prop_map(|runs| Frame::DigestsOf {
            runs: runs.into_iter().map(|(first, count)| GroupRun { first, count }).collect()
        }),
        (any::<u64>(), prop::collection::vec(any::<GroupDigest>(), 1..20))
            .prop_map(|(first_group, values)| Frame::Digests { first_group, values }),
        prop::collection::vec(part(), 1..9).prop_map(|parts| Frame::ProofsOf { parts }),
        (part(), any::<GroupDigest>(), digests(20), digests(44))
            .prop_map(|(part, digest, inside, path)| Frame::Proof { part, digest, inside, path }),
        stats().prop_map(Frame::Stats),
        (any::<bool>(), "[a-z/]{0,20}").prop_map(|(recursive, path)| Frame::List { recursive, path }),
        (any::<bool>(), bytes(300)).prop_map(|(last, bytes)| Frame::Listing { last, bytes }),
        Just(Frame::Probe),
        any::<u64>().prop_map(|token| Frame::ProbeGrant { token }),
        bytes(300).prop_map(|order| Frame::Delegate { order }),
        bytes(300).prop_map(|update| Frame::Update { update }),
        (any::<bool>(), bytes(300)).prop_map(|(last, bytes)| Frame::Report { last, bytes }),
        (any::<u64>(), any::<u16>()).prop_map(|(token, source)| Frame::Attach { token, source }),
        (any::<u64>(), prop::sample::select(FileProblem::ALL.to_vec()))
            .prop_map(|(file, problem)| Frame::FileFailed { file, problem }),
        Just(Frame::AskTunnel),
        Just(Frame::TryDatagrams),
        Just(Frame::AskVersion),
        any::<[u8; 32]>().prop_map(|version| Frame::FilesVersion { version }),
        any::<u128>().prop_map(|token| Frame::AttachTunnel { token }),
        (5..=u16::MAX, prop::collection::vec(any::<u8>(), 1..320))
            .prop_map(|(segment, bytes)| Frame::Datagrams { segment, bytes }),
        Just(Frame::Finish),
        Just(Frame::Bye),
    ]
}

proptest! {
    #[test]
    fn parse_gives_back_what_encode_wrote(first in frame(), second in frame()) {
        let mut bytes = Vec::new();
        first.encode(&mut bytes);
        let end = bytes.len();
        second.encode(&mut bytes);
        prop_assert_eq!(Frame::parse(&bytes), Ok(Some((first, end))));
        let rest = bytes.len() - end;
        prop_assert_eq!(Frame::parse(&bytes[end..]), Ok(Some((second, rest))));
    }

    #[test]
    fn parse_of_a_part_waits_for_the_rest(frame in frame(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let cut = cut.index(bytes.len());
        prop_assert_eq!(Frame::parse(&bytes[..cut]), Ok(None));
    }

    #[test]
    fn parse_takes_any_bytes_and_what_it_accepts_stays_as_it_is(kind in prop_oneof![0u8..30, 128u8..132], body in bytes(200)) {
        let bytes = framed(kind, &body);
        if let Ok(Some((frame, used))) = Frame::parse(&bytes) {
            prop_assert_eq!(used, bytes.len());
            let mut again = Vec::new();
            frame.encode(&mut again);
            // Text for people is made safe on its way in; all else is as it was.
            let greets = matches!(frame, Frame::Refused { .. } | Frame::Hello { .. } | Frame::Welcome { .. });
            if !greets && !matches!(frame, Frame::Optional { .. }) {
                prop_assert_eq!(&again, &bytes);
            }
            prop_assert_eq!(Frame::parse(&again), Ok(Some((frame, again.len()))));
        }
    }
}

proptest! {
    #[test]
    fn parse_knows_a_frame_that_was_damaged(
        frame in frame(),
        at in any::<prop::sample::Index>(),
        change in 1u8..=255,
    ) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let has_checksum = !matches!(frame, Frame::Hello { .. } | Frame::Welcome { .. } | Frame::Refused { .. });
        // The length is left alone: of another one it is not known where the frame ends. So is what would change a
        // frame into a greeting.
        let at = 4 + at.index(bytes.len() - 4);
        bytes[at] ^= change;
        let greeting = (kind::HELLO..=kind::REFUSED).contains(&bytes[4]);
        if has_checksum && !greeting {
            prop_assert_eq!(Frame::parse(&bytes), Err(FrameError::Damaged));
        }
    }
}

#[test]
fn what_a_later_release_adds_is_ignored() {
    let hello = Frame::Hello {
        version: VERSION,
        role: SessionRole::Fetch,
        transport: "cubic".to_owned(),
        parameters: vec![("window-max".to_owned(), "44".to_owned())],
    };
    let welcome = |key| Frame::Welcome { version: VERSION, udp_port: 7, key };
    for frame in [hello, welcome(None), welcome(Some([3; 32]))] {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let longer = framed(bytes[4], &[&bytes[5..], b"more"].concat());
        assert_eq!(Frame::parse(&longer), Ok(Some((frame, longer.len()))));
    }
    // Of a greeting of another version only that is read.
    let other = framed(kind::HELLO, &[&b"inhaul\r\n"[..], &(VERSION + 1).to_be_bytes(), &[1, 9, 9, 9]].concat());
    let expected = Frame::Hello {
        version: VERSION + 1,
        role: SessionRole::Fetch,
        transport: String::new(),
        parameters: Vec::new(),
    };
    assert_eq!(Frame::parse(&other), Ok(Some((expected, other.len()))));
    let optional = framed(200, b"whatever");
    assert_eq!(Frame::parse(&optional), Ok(Some((Frame::Optional { kind: 200 }, optional.len()))));
}

#[test]
fn framed_gives_the_checksum_of_rfc_3720() {
    // CRC-32C of 00 00 00 05 0b.
    let finish = framed(kind::FINISH, &[]);
    assert_eq!(finish[..5], [0, 0, 0, 5, kind::FINISH]);
    assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xE306_9283);
    assert_eq!(finish[5..], crc_fast::crc32_iscsi(&finish[..5]).to_be_bytes());
    let greeting = framed(kind::WELCOME, &[0, 5, 0, 9]);
    assert_eq!(greeting, [0, 0, 0, 5, kind::WELCOME, 0, 5, 0, 9], "as in every version");
}

#[test]
fn parse_makes_text_safe_for_a_terminal() {
    let mut bytes = Vec::new();
    let text = "\u{1b}]0;pwned\u{7}\r\nfake line \u{202e}gpj".to_owned();
    Frame::Refused { code: RefusalCode::Busy, text }.encode(&mut bytes);
    let invalid = [0, 0, 0, 4, kind::REFUSED, 4, 0xff, 0x9b];
    for (bytes, expected) in
        [(&bytes[..], "\\u{1b}]0;pwned\\u{7}\\r\\nfake line \\u{202e}gpj"), (&invalid[..], "\\xff\\x9b")]
    {
        let Ok(Some((Frame::Refused { text, .. }, _))) = Frame::parse(bytes) else { panic!("no refusal") };
        assert_eq!(text, expected);
    }
    let mut long = Vec::new();
    Frame::Refused { code: RefusalCode::Busy, text: "\u{7}".repeat(MAX_TEXT) }.encode(&mut long);
    let Ok(Some((Frame::Refused { text, .. }, _))) = Frame::parse(&long) else { panic!("no refusal") };
    assert!(text.starts_with("\\u{7}\\u{7}") && text.len() <= MAX_TEXT);
}

#[test]
fn parse_refuses_what_can_never_be_a_frame() {
    assert_eq!(Frame::parse(b"GET / HTTP/1.1\r\n"), Err(FrameError::BadLength(u32::from_be_bytes(*b"GET "))));
    assert_eq!(Frame::parse(&[0, 0, 0, 0]), Err(FrameError::BadLength(0)));
    assert_eq!(Frame::parse(&[0, 0, 0, 1, 99]), Err(FrameError::Malformed(99)), "it has no checksum");
    assert_eq!(Frame::parse(&framed(99, &[])), Err(FrameError::UnknownKind(99)));
    assert_eq!(Frame::parse(&[0, 0, 0, 3, 1, 7, 7]), Err(FrameError::NotInhaul));
    assert_eq!(Frame::parse(&framed(kind::FINISH, &[0])), Err(FrameError::Malformed(kind::FINISH)));
    assert_eq!(Frame::parse(&framed(kind::OPEN, &[0xFF])), Err(FrameError::Malformed(kind::OPEN)));
}

#[test]
fn encode_cuts_a_long_text_between_characters() {
    let mut bytes = Vec::new();
    Frame::Refused { code: RefusalCode::Busy, text: "ü".repeat(MAX_TEXT) }.encode(&mut bytes);
    let parsed = Frame::parse(&bytes).unwrap().unwrap().0;
    assert_eq!(parsed, Frame::Refused { code: RefusalCode::Busy, text: "ü".repeat(MAX_TEXT / 2) });
}

#[test]
fn only_frames_that_carry_much_may_be_long() {
    // What stands in front says it already: nothing is waited for.
    let begun = |kind: u8, len: usize| Frame::parse(&[&(len as u32).to_be_bytes()[..], &[kind]].concat());
    let bad = |len: usize| Err(FrameError::BadLength(len as u32));
    for kind in
        [kind::DATA_SET, kind::LISTING, kind::CONTENT, kind::DIGESTS, kind::DELEGATE, kind::UPDATE, kind::REPORT]
    {
        assert_eq!((begun(kind, MAX_FRAME), begun(kind, MAX_FRAME + 1)), (Ok(None), bad(MAX_FRAME + 1)));
    }
    for kind in [kind::PROTOCOL, kind::DIGESTS_OF, kind::PROOFS_OF, kind::DATAGRAMS, kind::ASK_TUNNEL, 200, 255] {
        assert_eq!((begun(kind, MIDDLE_FRAME), begun(kind, MIDDLE_FRAME + 1)), (Ok(None), bad(MIDDLE_FRAME + 1)));
    }
    for kind in [kind::HELLO, kind::OPEN, kind::AUTHORIZE, kind::FINISH, kind::PROOF, 77] {
        assert_eq!((begun(kind, SMALL_FRAME), begun(kind, SMALL_FRAME + 1)), (Ok(None), bad(SMALL_FRAME + 1)));
    }
}

#[test]
fn the_longest_frames_of_each_kind_are_legal() {
    let part = PartOf { group: 0, first: 0, count: 1, levels: 0 };
    let most = [
        Frame::DataSet { last: true, bytes: vec![0; MAX_PIECE] },
        Frame::Delegate { order: vec![0; MAX_PIECE] },
        Frame::Protocol { message: vec![0; MAX_MESSAGE] },
        Frame::DigestsOf { runs: vec![GroupRun { first: 0, count: 1 }; MAX_RUNS] },
        Frame::Digests { first_group: 0, values: vec![[0; 32]; MAX_DIGESTS] },
        Frame::ProofsOf { parts: vec![part; MAX_PARTS] },
        Frame::Datagrams { segment: 1500, bytes: vec![0; 65_507] },
        Frame::Open { path: "x".repeat(4096), owner: true, attributes: true, early: 1 },
        Frame::Authorize { token: vec![0; inhaul_identity::TOKEN_BYTES_MAX] },
    ];
    for frame in most {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert!(bytes.len() - 4 <= frame.len_max());
        assert_eq!(Frame::parse(&bytes), Ok(Some((frame, bytes.len()))));
    }
}
