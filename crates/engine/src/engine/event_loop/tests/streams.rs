//! Control streams that end, stall, and are closed.

use std::cell::RefCell;
use std::rc::Rc;

use inhaul_transport::{OfferFlow, PathSpec};

use super::*;
use crate::engine::event_loop::fake::World;
use crate::engine::event_loop::streams::FRAMES_A_TURN;
use inhaul_session::session::frame::{MAX_MESSAGE, MIDDLE_FRAME, RefusalCode, framed};

#[test]
fn what_came_before_a_peer_closed_still_counts_and_only_its_flow_ends() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (one, theirs) = bench.flow(id, port);
    let (other, _other_theirs) = bench.flow(id, port);
    let last = theirs.number();
    bench.fake.world().at(millis(10), move |world| {
        world.write(last, &encoded(&Frame::Protocol { message: b"last words".to_vec() }));
        world.write(last, &encoded(&Frame::Finish));
        world.close(last);
        None
    });
    let run = bench.run(Run::until(millis(20)));
    assert_eq!(endpoint.script().heard, [(one, b"last words".to_vec())]);
    assert_eq!(run.frames, [(one, Frame::Finish)]);
    let ends: Vec<_> = run.ends.iter().map(|(_, flow, cause)| (*flow, cause.as_str())).collect();
    assert_eq!(ends, [(one, "the connection was closed")]);
    assert_eq!(endpoint.script().left, [one]);
    assert_eq!(bench.engine.streams(), 1);
    bench.engine.close(other);
    assert!(bench.fake.world().waits() < 20, "nothing keeps it awake");
}

/// A frame of about so many bytes.
fn piece(bytes: usize) -> Frame {
    Frame::DataSet { last: false, bytes: vec![7; bytes] }
}

#[test]
fn a_stream_full_of_frames_lets_others_have_their_turn() {
    let mut bench = Bench::new();
    let (id, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flood, theirs) = bench.flow(id, port);
    let (calm, others) = bench.flow(id, port);
    let many = 20 * FRAMES_A_TURN;
    for _ in 0..many {
        bench.fake.world().write(theirs.number(), &encoded(&Frame::Finish));
    }
    bench.fake.world().write(others.number(), &encoded(&Frame::Bye));
    let run = bench.run(Run::until(millis(1)));
    assert_eq!(run.frames.len(), many + 1, "nothing is lost");
    assert_eq!(run.frames.iter().filter(|(flow, _)| *flow == flood).count(), many);
    let before = run.frames.iter().position(|(flow, _)| *flow == calm).unwrap();
    assert!(before <= FRAMES_A_TURN, "{before} frames came first");
}

#[test]
fn frames_that_came_before_the_end_count_however_many_they_are() {
    let mut bench = Bench::new();
    let (id, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    for _ in 0..5 * FRAMES_A_TURN {
        bench.fake.world().write(theirs.number(), &encoded(&Frame::Finish));
    }
    bench.fake.world().close(theirs.number());
    let run = bench.run(Run::until(millis(1)));
    assert_eq!(run.frames.len(), 5 * FRAMES_A_TURN);
    assert_eq!(
        run.ends.iter().map(|end| (end.1, end.2.as_str())).collect::<Vec<_>>(),
        [(flow, "the connection was closed")]
    );
}

#[test]
fn a_peer_that_says_nothing_but_what_may_be_ignored_is_given_up_and_nobody_else() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    let (_other, _others) = bench.flow(id, port);
    let flood = framed(200, &[]).repeat(20_000);
    bench.fake.world().write(theirs.number(), &flood);
    let run = bench.run(Run::until(millis(20)));
    assert_eq!((run.ends.len(), run.ends[0].1), (1, flow));
    assert!(run.ends[0].2.contains("too many messages that mean nothing here"), "{}", run.ends[0].2);
    assert_eq!(endpoint.script().left, [flow]);
    assert_eq!(bench.engine.streams(), 1);
}

#[test]
fn a_flow_that_its_endpoint_does_not_take_ends_and_nothing_else() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, _theirs) = bench.new_flow(id, port);
    let (_other, _others) = bench.flow(id, port);
    endpoint.script().refuses = Some(flow);
    bench.engine.command(id, offer(flow));
    let run = bench.run(Run::until(millis(1)));
    assert_eq!(
        run.ends.iter().map(|end| (end.1, end.2.as_str())).collect::<Vec<_>>(),
        [(flow, "an object of 9 bytes is larger than this protocol can carry")]
    );
    assert_eq!(bench.engine.streams(), 1);
}

fn offer(flow: FlowId) -> Command {
    let path = PathSpec::clear(1500, std::net::Ipv4Addr::LOCALHOST.into());
    let (connection, parameters) = (ConnectionId(flow.0), [].into());
    let offer =
        OfferFlow { flow, size: 9, peer: None, only_from: None, path, connection, token: 1, client: None, parameters };
    Command::Offer(offer)
}

#[test]
fn what_a_peer_s_transport_says_before_the_flow_begins_is_heard_when_it_does() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.new_flow(id, port);
    let number = theirs.number();
    let say = move |words: &'static [u8]| {
        move |world: &mut World| {
            world.write(number, &encoded(&Frame::Protocol { message: words.to_vec() }));
            world.write(number, &encoded(&Frame::Finish));
            None
        }
    };
    for (at, words) in [(1, &b"one"[..]), (2, b"two"), (20, b"three")] {
        bench.fake.world().at(millis(at), say(words));
    }
    let run = bench.run(Run::until(millis(10)));
    assert_eq!((run.frames.len(), endpoint.script().heard.len()), (2, 0));
    bench.engine.command(id, offer(flow));
    bench.run(Run::until(millis(30)));
    let heard = [&b"one"[..], b"two", b"three"].map(|words| (flow, words.to_vec()));
    assert_eq!(endpoint.script().heard, heard);
}

#[test]
fn a_peer_whose_transport_says_too_much_before_the_flow_begins_is_given_up() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.new_flow(id, port);
    for _ in 0..1000 {
        bench.fake.world().write(theirs.number(), &encoded(&Frame::Protocol { message: b"hear me".to_vec() }));
    }
    let run = bench.run(Run::until(millis(20)));
    let ends: Vec<_> = run.ends.iter().map(|(_, flow, cause)| (*flow, cause.as_str())).collect();
    assert_eq!(ends, [(flow, "it sends control messages for a flow that has not begun")]);
    assert_eq!(endpoint.script().heard.len(), 0);
}

#[test]
fn what_a_stream_had_taken_in_before_the_engine_had_it_is_heard_at_once() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (mut stream, theirs) = bench.fake.connection();
    for frame in [Frame::Protocol { message: b"early".to_vec() }, Frame::Finish] {
        bench.fake.world().write(theirs.number(), &encoded(&frame));
    }
    stream.fill().unwrap();
    let flow = bench.engine.new_flow();
    bench.engine.add_flow(flow, id, port, stream).unwrap();
    bench.engine.command(id, offer(flow));
    let run = bench.run(Run::until(millis(1)));
    assert_eq!(endpoint.script().heard, [(flow, b"early".to_vec())]);
    assert_eq!(run.frames, [(flow, Frame::Finish)]);
}

#[test]
fn a_frame_that_was_damaged_ends_its_flow() {
    let mut bench = Bench::new();
    let (id, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    let mut bytes = encoded(&Frame::Finish);
    *bytes.last_mut().unwrap() ^= 1;
    bench.fake.world().write(theirs.number(), &bytes);
    let run = bench.run(Run::until(millis(20)));
    let ends: Vec<_> = run.ends.iter().map(|(_, flow, cause)| (*flow, cause.as_str())).collect();
    assert_eq!(ends, [(flow, "a frame was damaged on its way: try again")]);
}

#[test]
fn a_farewell_is_sent_before_the_stream_is_closed_and_waited_for_no_longer_than_said() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let ((reads, reader), (stuck, deaf)) = (bench.flow(id, port), bench.flow(id, port));
    // The one's stream is full when it is dismissed.
    bench.engine.send(stuck, &piece(200_000));
    let close_reason = Frame::Refused { code: RefusalCode::Busy, text: "later".to_owned() };
    bench.engine.close_with(reads, &close_reason);
    bench.engine.close_with(stuck, &close_reason);
    let [ours, theirs] = [reader.number() ^ 1, deaf.number() ^ 1];
    bench.run(Run::until(millis(1)));
    assert!(bench.fake.world().is_closed(ours) && !bench.fake.world().is_closed(theirs));
    assert_eq!(bench.fake.world().read(reader.number(), usize::MAX), encoded(&close_reason));
    // Its application looks now and then.
    bench.fake.world().at(millis(4_900), |_| None);
    bench.run(Run::until(millis(4_990)));
    assert!(!bench.fake.world().is_closed(theirs));
    bench.run(Run::until(millis(5_010)));
    bench.run(Run::until(millis(5_020)));
    assert!(bench.fake.world().is_closed(theirs));
    assert_eq!(endpoint.script().left, [reads, stuck]);
}

/// What a bitmap of a terabyte takes: a bit for each block of 1372 bytes.
const BITMAP: usize = 91_000_000;
const PIECE: usize = 32 * 1024;

#[test]
fn something_large_goes_in_pieces_as_room_appears_and_nothing_waits_long_behind_it() {
    let mut bench = Bench::new();
    let (id, endpoint) = bench.endpoint(Role::Receiver);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    // Its peer reads 20 MB a second.
    let (reader, received) = (theirs.number(), Rc::new(RefCell::new((Vec::new(), Vec::new()))));
    let frames = Rc::clone(&received);
    bench.fake.world().at(Time::ZERO, move |world| {
        let (bytes, frames) = &mut *frames.borrow_mut();
        bytes.extend(world.read(reader, 20_000));
        while let Some((frame, used)) = Frame::parse(bytes).unwrap() {
            bytes.drain(..used);
            frames.push((world.now(), frame));
        }
        Some(world.now() + Span::from_millis(1))
    });
    let mut at = 0;
    let script = endpoint.clone();
    let run = bench.run(Run::until(millis(6_000)).each_turn(move |engine| {
        while at < BITMAP && engine.room(flow) > 0 {
            let piece = (at..BITMAP.min(at + PIECE)).map(|at| (at / 7) as u8).collect::<Vec<_>>();
            at += piece.len();
            engine.send(flow, &Frame::DataSet { last: at == BITMAP, bytes: piece });
        }
        // What the endpoint has to say goes its own way.
        if engine.now() >= millis(2_000) && script.script().heard.is_empty() {
            script.script().heard.push((flow, Vec::new()));
            script.script().events.push_back(Event::Control { flow, message: b"urgent".to_vec() });
            engine.command(id, Command::LimitReceive(None));
        }
        true
    }));
    assert_eq!(run.ends, []);
    let (rest, frames) = received.take();
    assert!(rest.is_empty());
    let urgent = frames.iter().find(|(_, frame)| matches!(frame, Frame::Protocol { .. })).unwrap();
    // What waits here and what the connection holds.
    assert!(urgent.0 < millis(2_010), "{:?}", urgent.0);
    let mut at = 0;
    for (_, frame) in &frames {
        if let Frame::DataSet { bytes, .. } = frame {
            assert!(bytes.iter().zip(at..).all(|(&byte, at)| byte == (at / 7) as u8));
            at += bytes.len();
        }
    }
    assert_eq!(at, BITMAP);
}

/// A flow, and so many bytes that its peer has not read when the run begins.
fn with_unread(bytes: usize) -> (Bench, FlowId, FakeWire) {
    let mut bench = Bench::new();
    let (id, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    bench.engine.send(flow, &piece(bytes));
    (bench, flow, theirs)
}

#[test]
fn a_peer_that_reads_nothing_is_given_up_after_a_while_and_no_sooner() {
    let (mut bench, flow, theirs) = with_unread(100_000);
    // It had begun.
    let reader = theirs.number();
    bench.fake.world().at(millis(5_000), move |world| {
        world.read(reader, 1000);
        None
    });
    let run = bench.run(Run::until(millis(200_000)));
    let ends: Vec<_> = run.ends.iter().map(|(_, flow, cause)| (*flow, cause.as_str())).collect();
    assert_eq!(ends, [(flow, "the peer does not read its control stream")]);
    assert!((millis(35_000)..millis(35_001)).contains(&run.ends[0].0), "{:?}", run.ends[0].0);
    let turns = bench.fake.world().waits();
    assert!(turns < 20, "{turns} turns");
}

#[test]
fn a_peer_that_reads_slowly_is_waited_for() {
    let (mut bench, _flow, theirs) = with_unread(200_000);
    let reader = theirs.number();
    bench.fake.world().at(millis(20_000), move |world| {
        world.read(reader, 1000);
        Some(world.now() + Span::from_secs(20))
    });
    let run = bench.run(Run::until(millis(1_000_000)));
    assert_eq!(run.ends, []);
}

#[test]
fn a_peer_for_whom_more_waits_than_is_allowed_is_given_up_at_once() {
    let (mut bench, flow, _theirs) = with_unread(1_000_000);
    for _ in 0..3 {
        bench.engine.send(flow, &piece(1_000_000));
    }
    let run = bench.run(Run::until(millis(1)));
    assert_eq!(run.ends, [], "so much may wait");
    assert_eq!(bench.engine.room(flow), 0, "though nobody who asks adds to it");
    bench.engine.send(flow, &piece(1_000_000));
    let run = bench.run(Run::until(millis(2)));
    assert_eq!(run.ends[0].2, "the peer does not read its control stream");
}

#[test]
fn a_message_that_no_frame_can_carry_ends_its_flow_here_and_not_at_the_peer() {
    let mut bench = Bench::new();
    let (id, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(id, port);
    bench.engine.send(flow, &Frame::Protocol { message: vec![7; MAX_MESSAGE] });
    let reader = theirs.number();
    bench.fake.world().at(Time::ZERO, move |world| {
        world.read(reader, usize::MAX);
        Some(world.now() + Span::from_millis(1))
    });
    assert_eq!(bench.run(Run::until(millis(100))).ends, []);
    bench.engine.send(flow, &Frame::Protocol { message: vec![7; MIDDLE_FRAME] });
    let run = bench.run(Run::until(millis(101)));
    assert_eq!(run.ends[0].2, "a message of 81925 bytes is longer than a control stream carries");
}
