//! Connections of which some stay without an answer.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use inhaul_identity::Rights;

use super::*;
use crate::api::trust::{ServerIdentity, UnknownServer};

const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(30);
const TRIES: [(Duration, u16); 2] = [(MOMENT, 1280), (Duration::from_millis(60), 576)];

/// What came of connecting to a server that answers the `answered`th connection alone (from 0): the packets that the
/// connections might have, and what was said.
fn tried(answered: usize, asked: Option<u16>) -> (Vec<Option<u16>>, Result<Option<u16>, Failure>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
    let identity = ServerIdentity::passing(Rights::NONE).unwrap();
    let count = AtomicUsize::new(0);
    let packets = Mutex::new(Vec::new());
    let result = std::thread::scope(|scope| {
        let dial = |packet| {
            packets.lock().unwrap().push(packet);
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let identity = identity.clone();
            let is_answered = count.fetch_add(1, Ordering::Relaxed) == answered;
            scope.spawn(move || {
                if is_answered {
                    let secured = ControlStream::secured_server(accepted, &identity, Instant::now() + PATIENCE);
                    drop(secured);
                } else {
                    // Silent until the client has gone.
                    let mut all = Vec::new();
                    let _ = std::io::Read::read_to_end(&mut &accepted, &mut all);
                }
            });
            Ok(client)
        };
        let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
        connect_with(&server, &trust, packet_to(&server, asked), (&TRIES, PATIENCE), dial)
            .map(|_| packet_to(&server, None))
    });
    (packets.into_inner().unwrap(), result)
}

#[test]
fn a_handshake_that_comes_through_is_alone() {
    let (packets, found) = tried(0, None);
    assert_eq!((packets, found.ok()), (vec![None], Some(None)));
    let (packets, found) = tried(0, Some(1400));
    assert_eq!((packets, found.ok()), (vec![Some(1400)], Some(None)));
}

#[test]
fn one_that_does_not_is_tried_with_smaller_packets_and_that_is_remembered() {
    let (packets, found) = tried(1, None);
    assert_eq!((packets, found.ok()), (vec![None, Some(1280)], Some(Some(1280))));
    let (packets, found) = tried(2, None);
    assert_eq!((packets, found.ok()), (vec![None, Some(1280), Some(576)], Some(Some(576))));
    let (packets, found) = tried(1, Some(1000));
    assert_eq!((packets, found.ok()), (vec![Some(1000), Some(576)], Some(Some(576))));
}

#[test]
fn what_the_user_says_and_what_was_found_bound_it_both() {
    let server = Server::new("bounded.invalid", 7);
    assert_eq!((packet_to(&server, None), packet_to(&server, Some(1400))), (None, Some(1400)));
    remember(&server, 1280);
    assert_eq!((packet_to(&server, None), packet_to(&server, Some(1400))), (Some(1280), Some(1280)));
    assert_eq!(packet_to(&server, Some(900)), Some(900));
    assert_eq!(packet_to(&Server::new("bounded.invalid", 8), None), None);
}
