//! Control streams that end, stall, and are closed.

use super::*;
use crate::frame::RefusalCode;

#[test]
fn what_came_before_a_peer_closed_still_counts_and_only_its_flow_ends() {
    let mut bench = Bench::new();
    let (side, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (one, theirs) = bench.flow(side, port);
    let (other, _other_theirs) = bench.flow(side, port);
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

#[test]
fn a_frame_that_was_damaged_ends_its_flow() {
    let mut bench = Bench::new();
    let (side, _endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let (flow, theirs) = bench.flow(side, port);
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
    let (side, endpoint) = bench.endpoint(Role::Sender);
    let (port, _) = bench.port(HERE, None);
    let ((reads, reader), (stuck, deaf)) = (bench.flow(side, port), bench.flow(side, port));
    // The one's stream is full when it is dismissed.
    let message = vec![7; 200_000];
    bench.engine.send(stuck, &Frame::Protocol { message });
    let farewell = Frame::Refused { code: RefusalCode::Busy, text: "later".to_owned() };
    bench.engine.dismiss(reads, &farewell);
    bench.engine.dismiss(stuck, &farewell);
    let [ours, theirs] = [reader.number() ^ 1, deaf.number() ^ 1];
    bench.run(Run::until(millis(1)));
    assert!(bench.fake.world().is_closed(ours) && !bench.fake.world().is_closed(theirs));
    assert_eq!(bench.fake.world().read(reader.number(), usize::MAX), encoded(&farewell));
    // Its application looks now and then.
    bench.fake.world().at(millis(4_900), |_| None);
    bench.run(Run::until(millis(4_990)));
    assert!(!bench.fake.world().is_closed(theirs));
    bench.run(Run::until(millis(5_010)));
    bench.run(Run::until(millis(5_020)));
    assert!(bench.fake.world().is_closed(theirs));
    assert_eq!(endpoint.script().left, [reads, stuck]);
}
