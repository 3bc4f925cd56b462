//! Control streams over connections of this host.

use super::*;
use crate::session::frame::{SMALL_FRAME, framed};
use std::net::TcpListener;

fn pair() -> (ControlStream, ControlStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    (ControlStream::new(client).unwrap(), ControlStream::new(server).unwrap())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[test]
fn peer_of_a_socket_for_both_families_is_plain_ipv4() {
    let Ok(listener) = TcpListener::bind("[::]:0") else {
        println!("skipped: there is no IPv6 here");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let server = ControlStream::new(listener.accept().unwrap().0).unwrap();
    assert_eq!(server.peer(), client.local_addr().unwrap());
    assert_eq!(server.local(), client.peer_addr().unwrap());
}

fn open(path: &str) -> Frame {
    Frame::Open { path: path.to_owned(), owner: false, attributes: false, early: 0 }
}

#[test]
fn few_control_messages_and_few_bytes_of_them_wait_for_their_flow() {
    let (mut client, _server) = pair();
    (0..KEPT_MAX).for_each(|n| client.keep(vec![n as u8]).unwrap());
    assert!(matches!(client.keep(Vec::new()), Err(StreamError::TooSoon)));
    assert!(client.take_kept().into_iter().eq((0..KEPT_MAX).map(|n| vec![n as u8])));
    client.keep(vec![0; KEPT_BYTES_MAX]).unwrap();
    assert!(matches!(client.keep(vec![0]), Err(StreamError::TooSoon)));
}

#[test]
fn what_was_taken_in_and_not_looked_at_is_known() {
    let (mut client, mut server) = pair();
    client.queue(&open("a")).unwrap();
    client.queue(&open("b")).unwrap();
    client.write_all(soon()).unwrap();
    assert!(!server.has_incoming());
    assert_eq!(server.receive(soon()).unwrap(), open("a"));
    assert!(server.has_incoming());
    assert_eq!(server.next_frame().unwrap(), Some(open("b")));
    assert!(!server.has_incoming());
}

#[test]
fn receive_gives_frames_in_order_and_then_says_closed() {
    let (mut client, mut server) = pair();
    for path in ["a", "b"] {
        client.send(&open(path), soon()).unwrap();
    }
    drop(client);
    assert_eq!(server.receive(soon()).unwrap(), open("a"));
    assert_eq!(server.receive(soon()).unwrap(), open("b"));
    assert!(matches!(server.receive(soon()), Err(StreamError::Closed)));
}

#[test]
fn receive_gives_up_at_its_deadline_though_bytes_trickle_in() {
    let (mut client, server) = pair();
    (&server.wire).write_all(&[0, 0, 0, 9, 4]).unwrap();
    let past = Instant::now();
    assert!(matches!(client.receive(past), Err(StreamError::TimedOut)));
}

#[test]
fn flush_reports_a_peer_that_does_not_read() {
    let (mut client, _server) = pair();
    client.set_polled().unwrap();
    let frame = Frame::DataSet { last: false, bytes: vec![7; MAX_FRAME / 2] };
    let refused = (0..1_000).find_map(|_| {
        client.queue(&frame).unwrap();
        client.flush().err()
    });
    assert!(matches!(refused, Some(StreamError::Stuck)), "{refused:?}");
}

#[test]
fn polled_streams_carry_large_frames_in_parts() {
    let (mut client, mut server) = pair();
    client.set_polled().unwrap();
    server.set_polled().unwrap();
    let frame = Frame::DataSet { last: true, bytes: (0..900_000u32).map(|n| n as u8).collect() };
    client.queue(&frame).unwrap();
    let deadline = soon();
    let received = loop {
        client.flush().unwrap();
        server.fill().unwrap();
        if let Some(frame) = server.next_frame().unwrap() {
            break frame;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(received, frame);
}

/// A client's end, and a server's into which these bytes go as they are.
fn with_bytes(bytes: &[u8]) -> (ControlStream, TcpStream) {
    let (client, server) = pair();
    let mut tcp = server.wire.try_clone().unwrap();
    let bytes = bytes.to_vec();
    // More than a connection's buffers hold. The reader may have had enough before the end.
    std::thread::spawn(move || drop(tcp.write_all(&bytes)));
    (client, server.wire)
}

#[test]
fn what_may_be_ignored_costs_no_stack_and_too_much_of_it_ends_the_stream() {
    let optional = framed(200, &[]);
    let few = Allowance::FRAMES as usize;
    for (count, expected) in [(few, Some(open("a"))), (few + 1, None), (80_000, None)] {
        let (mut client, _server) = with_bytes(&[optional.repeat(count), framed_open("a")].concat());
        let reader = std::thread::Builder::new().stack_size(64 * 1024).spawn(move || client.receive(soon())).unwrap();
        let received = reader.join().unwrap();
        match expected {
            Some(frame) => assert_eq!(received.unwrap(), frame),
            None => assert!(matches!(received, Err(StreamError::TooMuchOptional)), "{count}: {received:?}"),
        }
    }
}

#[test]
fn many_bytes_that_may_be_ignored_end_the_stream_too() {
    let optional = framed(255, &[7; 60_000]);
    let (mut client, _server) = with_bytes(&optional.repeat(20));
    assert!(matches!(client.receive(soon()), Err(StreamError::TooMuchOptional)));
}

fn framed_open(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    open(path).encode(&mut bytes);
    bytes
}

#[test]
fn frames_are_as_long_as_they_may_be_just_now() {
    let (mut client, mut server) = pair();
    server.limit_frames(SMALL_FRAME);
    let piece = |bytes| Frame::DataSet { last: false, bytes: vec![7; bytes] };
    client.send(&piece(10_000), soon()).unwrap();
    assert_eq!(server.receive(soon()).unwrap(), piece(10_000));
    client.send(&piece(20_000), soon()).unwrap();
    assert!(matches!(server.receive(soon()), Err(StreamError::Frame(FrameError::BadLength(20_006)))));
    server.limit_frames(MAX_FRAME);
    assert_eq!(server.receive(soon()).unwrap(), piece(20_000));
}
