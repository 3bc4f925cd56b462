//! A control stream's end, and the bytes that its peer sends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use inhaul_base::RandomStream;

use inhaul_session::session::control_stream::{ControlStream, StreamError};
use inhaul_session::session::frame::{Frame, GroupRun, MAX_FRAME, MIDDLE_FRAME, PartOf, SMALL_FRAME, framed};

/// Bytes that a connection brings at one go.
const PIECE: usize = 4096;

/// A connection whose peer has sent some bytes.
#[derive(Debug, Default)]
struct Wire {
    bytes: Vec<u8>,
    at: usize,
    /// The peer sends no more.
    is_closed: bool,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() && !self.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = rest.len().min(into.len()).min(PIECE);
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn end(bytes: Vec<u8>, is_closed: bool) -> ControlStream<Wire> {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    ControlStream::over(Wire { bytes, at: 0, is_closed }, nobody, nobody)
}

/// What a peer may send over a control stream, behind a byte that says how long frames may be. Frames come out of it
/// until it ends, breaks, or has said too much that means nothing. True if it came to its end.
pub fn session_stream(data: &[u8]) -> bool {
    let Some((&which, bytes)) = data.split_first() else { return false };
    let mut stream = end(bytes.to_vec(), true);
    stream.limit_frames([SMALL_FRAME, MIDDLE_FRAME, MAX_FRAME][usize::from(which % 3)]);
    let mut frames = 0;
    loop {
        let filled = stream.fill();
        loop {
            match stream.next_frame() {
                Ok(Some(frame)) => {
                    assert!(!matches!(frame, Frame::Optional { .. }), "they are for nobody");
                    frames += 1;
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        match filled {
            Ok(()) => {}
            Err(StreamError::Closed) => return frames > 0 && !stream.has_incoming(),
            Err(error) => panic!("nothing else is wrong with it: {error}"),
        }
    }
}

/// Samples for [`session_stream`].
pub fn session_streams() -> Vec<Vec<u8>> {
    let mut random = RandomStream::new(1, 0);
    let mut sample = |which: u8| {
        let mut bytes = vec![which];
        (0..12).for_each(|_| frame(&mut random).encode(&mut bytes));
        [bytes, framed(200, b"x"), framed(11, b"")].concat()
    };
    (0..3).map(&mut sample).collect()
}

/// What came of [`flood`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flood {
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that came out: all but those that may be ignored.
    pub taken: u64,
    /// The most bytes that the end held at a time.
    pub held_max: usize,
    /// The stream was ended for what may be ignored.
    pub is_ended: bool,
}

/// A session's end at which `frames` random frames arrive, all legal, of which one in `optional_every` may be ignored
/// (0: none).
///
/// # Panics
/// When a frame is lost, or one is not taken for what it is.
pub fn flood(seed: u64, frames: u64, optional_every: u64) -> Flood {
    let mut random = RandomStream::new(seed, 0);
    let mut stream = end(Vec::new(), false);
    let mut flood = Flood::default();
    let mut ignored = 0;
    while flood.sent < frames {
        let mut bytes = Vec::new();
        for _ in 0..(frames - flood.sent).min(1000) {
            flood.sent += 1;
            if optional_every > 0 && random.below(optional_every) == 0 {
                ignored += 1;
                let body = vec![7; random.below(64) as usize];
                bytes.extend_from_slice(&framed(150 + random.below(100) as u8, &body));
            } else {
                frame(&mut random).encode(&mut bytes);
            }
        }
        stream.replace_wire(Wire { bytes, at: 0, is_closed: false });
        if !take_all(&mut stream, &mut flood) {
            return Flood { is_ended: true, ..flood };
        }
    }
    assert_eq!(flood.taken + ignored, flood.sent, "no frame is lost");
    flood
}

/// Takes what the connection has brought; false if the stream has ended.
fn take_all(stream: &mut ControlStream<Wire>, flood: &mut Flood) -> bool {
    while stream.wire().at < stream.wire().bytes.len() {
        stream.fill().expect("nothing is wrong with the connection");
        flood.held_max = flood.held_max.max(stream.held_bytes());
        loop {
            match stream.next_frame() {
                Ok(Some(_)) => flood.taken += 1,
                Ok(None) => break,
                Err(StreamError::TooMuchOptional) => return false,
                Err(error) => panic!("all that came was legal: {error}"),
            }
        }
    }
    true
}

/// A legal frame that either side may send while data flows.
fn frame(random: &mut RandomStream) -> Frame {
    let number = |random: &mut RandomStream| [0, 1, 7, random.next_u64(), u64::MAX][random.below(5) as usize];
    match random.below(9) {
        0 => Frame::Protocol { message: vec![3; random.below(300) as usize] },
        1 => Frame::DigestsOf { runs: vec![GroupRun { first: number(random), count: number(random) }; 3] },
        2 => Frame::Digests { first_group: number(random), values: vec![[7; 32]; 1 + random.below(16) as usize] },
        3 => {
            let part = PartOf { group: number(random), first: 0, count: 1, levels: 3 };
            Frame::ProofsOf { parts: vec![part; 1 + random.below(4) as usize] }
        }
        4 => Frame::TryDatagrams,
        5 => Frame::AskTunnel,
        6 => Frame::Update { update: b"{}".to_vec() },
        7 => Frame::DataSet { last: false, bytes: vec![1; random.below(2000) as usize] },
        _ => Frame::Finish,
    }
}
