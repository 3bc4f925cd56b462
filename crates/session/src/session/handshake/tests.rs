//! Both sides of a handshake, over loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use inhaul_identity::{Fingerprint, Key, KnownHosts, Rights, State, Ticket};

use super::*;
use crate::api::trust::{Ca, Certificate, UnknownServer};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/session/tls/test-certificates")
}

/// A server that greets one client, and what came of it.
struct Greeter {
    address: Server,
    thread: std::thread::JoinHandle<Result<ControlStream, HandshakeError>>,
}

fn greeter(identity: &ServerIdentity) -> Greeter {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
    let tls = ServerTls::new(identity).unwrap();
    let thread = std::thread::spawn(move || {
        let mut stream = ControlStream::new(listener.accept().unwrap().0).unwrap();
        stream.accept_tls(&tls, soon()).map(|()| stream)
    });
    Greeter { address, thread }
}

fn identity() -> ServerIdentity {
    ServerIdentity::passing(Rights::NONE).unwrap()
}

fn connect(server: &Server, trust: &Trust) -> Result<ControlStream, HandshakeError> {
    let tcp = TcpStream::connect((server.host.as_str(), server.port)).unwrap();
    let mut stream = ControlStream::new(tcp).unwrap();
    stream.connect_tls(ClientSide::new(server, trust)?, soon())?;
    // The end of the handshake leaves with what is sent first.
    stream.send(&Frame::Finish, soon())?;
    Ok(stream)
}

fn pinned(server: &Server, key: Fingerprint) -> Server {
    Server { ticket: Ticket { fingerprint: Some(key), token: None }.into(), ..server.clone() }
}

fn taking_any() -> Trust {
    Trust { unknown: UnknownServer::TakeAny, ..Trust::default() }
}

#[test]
fn sides_know_each_other_and_have_the_same_secrets() {
    let (identity, dir) = (identity(), tempfile::tempdir().unwrap());
    let trust = Trust { state: Some(State::at(dir.path())), ..Trust::default() };
    let Greeter { address, thread } = greeter(&identity);
    let mut client = connect(&pinned(&address, identity.key.fingerprint()), &trust).unwrap();
    let mut server = thread.join().unwrap().unwrap();
    let own = Key::load(&State::at(dir.path()).client_key()).unwrap().unwrap();
    assert_eq!(client.peer_key(), Some(identity.key.fingerprint()));
    assert_eq!(server.peer_key(), Some(own.fingerprint()));
    let secrets = |stream: &ControlStream| {
        let export = |label, context| stream.exporter::<44>(label, context).unwrap();
        [export("EXPORTER-a", b"0"), export("EXPORTER-a", b"1"), export("EXPORTER-b", b"0")]
    };
    assert_eq!(secrets(&client), secrets(&server));
    let [first, second, third] = secrets(&client);
    assert!(first != second && second != third && first != third);
    assert_eq!(server.receive(soon()).unwrap(), Frame::Finish);
    server.send(&Frame::Bye, soon()).unwrap();
    assert_eq!(client.receive(soon()).unwrap(), Frame::Bye);
}

#[test]
fn frames_of_any_size_pass_and_what_waits_is_counted_as_it_leaves() {
    let Greeter { address, thread } = greeter(&identity());
    let mut client = connect(&address, &taking_any()).unwrap();
    let mut server = thread.join().unwrap().unwrap();
    assert_eq!(server.receive(soon()).unwrap(), Frame::Finish);
    let bytes: Vec<u8> = (0..crate::session::frame::MAX_PIECE).map(|n| n as u8).collect();
    let frame = Frame::Content { bytes };
    client.queue(&frame).unwrap();
    let plain = crate::session::frame::MAX_PIECE;
    assert!(client.backlog() > plain && client.backlog() < plain + plain / 100, "{}", client.backlog());
    assert_eq!(client.room(), 0);
    let sender = std::thread::spawn(move || client.write_all(soon()).map(|()| client));
    assert_eq!(server.receive(soon()).unwrap(), frame);
    assert_eq!(sender.join().unwrap().unwrap().backlog(), 0);
}

#[test]
fn nothing_can_be_read_on_the_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let Greeter { address, thread } = greeter(&identity());
    let through = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
    let relay = std::thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let server = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
        let pass = |mut from: TcpStream, mut to: TcpStream| {
            std::thread::spawn(move || {
                let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(len @ 1..) = from.read(&mut bytes) {
                    seen.extend_from_slice(&bytes[..len]);
                    let _ = to.write_all(&bytes[..len]);
                }
                seen
            })
        };
        let up = pass(client.try_clone().unwrap(), server.try_clone().unwrap());
        let down = pass(server, client);
        (up.join().unwrap(), down.join().unwrap())
    });
    let mut client = connect(&through, &taking_any()).unwrap();
    let secret = "/a path that nobody should see";
    client.send(&Frame::List { recursive: false, path: secret.to_owned() }, soon()).unwrap();
    let mut server = thread.join().unwrap().unwrap();
    let key = client.peer_key().unwrap();
    assert_eq!(server.receive(soon()).unwrap(), Frame::Finish);
    assert!(matches!(server.receive(soon()).unwrap(), Frame::List { path, .. } if path == secret));
    drop((client, server));
    let (up, down) = relay.join().unwrap();
    let holds = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    assert!(up.len() > 200 && !holds(&up, secret.as_bytes()) && !holds(&up, b"inhaul\r\n"));
    assert!(!holds(&down, key.bytes()));
}

#[test]
fn server_that_is_not_the_right_one_is_not_believed() {
    let (dir, wrong) = (tempfile::tempdir().unwrap(), Fingerprint::of(b"another"));
    let state = State::at(dir.path());
    let trust = Trust { state: Some(state.clone()), ..Trust::default() };
    let tried = |change: &dyn Fn(&Server) -> Server, trust: &Trust| {
        let identity = identity();
        let Greeter { address, thread } = greeter(&identity);
        let result = connect(&change(&address), trust).map(drop);
        // The server is told, by an alert.
        let heard = thread.join().unwrap().map(drop);
        if result.is_err() {
            assert!(matches!(heard, Err(HandshakeError::Stream(StreamError::Tls(_)))), "{heard:?}");
        }
        (result, identity.key.fingerprint())
    };
    let (result, seen) = tried(&|server| pinned(server, wrong), &taking_any());
    let Err(HandshakeError::Distrust(Distrust::NotPinned { seen: shown, .. })) = result else { panic!("{result:?}") };
    assert_eq!(shown, seen);
    let (result, seen) = tried(&Server::clone, &trust);
    assert!(matches!(result, Err(HandshakeError::Distrust(Distrust::Unknown(shown))) if shown == seen), "{result:?}");
    let changed = |server: &Server| {
        KnownHosts::add(&state.known_hosts(), &server.to_string(), wrong).unwrap();
        server.clone()
    };
    for unknown in [UnknownServer::Refuse, UnknownServer::Remember] {
        let (result, _) = tried(&changed, &Trust { unknown, ..trust.clone() });
        assert!(matches!(result, Err(HandshakeError::Distrust(Distrust::Changed { .. }))), "{result:?}");
    }
}

#[test]
fn server_that_is_new_is_remembered_if_the_user_wants_that() {
    let (identity, dir) = (identity(), tempfile::tempdir().unwrap());
    let trust = Trust { state: Some(State::at(dir.path())), unknown: UnknownServer::Remember, ..Trust::default() };
    let Greeter { address, thread } = greeter(&identity);
    connect(&address, &trust).unwrap();
    thread.join().unwrap().unwrap();
    let known = KnownHosts::load(&State::at(dir.path()).known_hosts()).unwrap();
    assert_eq!(known.keys_of(&address.to_string()), [identity.key.fingerprint()]);
}

#[test]
fn certificates_are_believed_if_their_authority_is() {
    let folder = certificates();
    let certificate = Certificate { chain: folder.join("localhost.pem"), key: folder.join("localhost.key") };
    let identity = ServerIdentity { certificate: Some(certificate), ..identity() };
    let by = |file: &str| Trust { ca: Some(Ca::File(folder.join(file))), ..Trust::default() };
    let Greeter { address, thread } = greeter(&identity);
    let client = connect(&address, &by("authority.pem")).unwrap();
    let server = thread.join().unwrap().unwrap();
    assert!(server.peer_key().is_some(), "the client shows its raw key all the same");
    assert_eq!(client.peer_key(), None, "a certificate is no raw key");
    assert_eq!(client.exporter::<32>("EXPORTER-a", b""), server.exporter("EXPORTER-a", b""));
    // Signed by itself, not by an authority: the chain leads nowhere.
    let Greeter { address, thread } = greeter(&identity);
    assert!(matches!(connect(&address, &by("localhost.pem")), Err(HandshakeError::Disagreed(_))));
    assert!(thread.join().unwrap().is_err());
    // Who pins is shown the raw key by the same server.
    let Greeter { address, thread } = greeter(&identity);
    connect(&pinned(&address, identity.key.fingerprint()), &by("authority.pem")).unwrap();
    thread.join().unwrap().unwrap();
    // One without a certificate has nothing to show.
    let Greeter { address, thread } = greeter(&self::identity());
    assert!(connect(&address, &by("authority.pem")).is_err());
    assert!(thread.join().unwrap().is_err());
}

#[test]
fn who_speaks_in_the_clear_is_not_heard() {
    let Greeter { address, thread } = greeter(&identity());
    let tcp = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
    let mut client = ControlStream::new(tcp).unwrap();
    client.send(&Frame::Finish, soon()).unwrap();
    assert!(matches!(thread.join().unwrap(), Err(HandshakeError::Stream(StreamError::InClear))));
}

#[test]
fn only_refusals_are_heard_in_the_clear() {
    let hear = |frame: Frame| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Server::new("127.0.0.1", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            let mut stream = ControlStream::new(listener.accept().unwrap().0).unwrap();
            stream.send(&frame, soon()).unwrap();
            stream
        });
        let result = connect(&address, &taking_any()).map(drop);
        drop(server.join().unwrap());
        result
    };
    let refused = |code| Frame::Refused { code, text: "full".to_owned() };
    let busy = hear(refused(RefusalCode::Busy));
    assert!(matches!(busy, Err(HandshakeError::Refused { code: RefusalCode::Busy, .. })), "{busy:?}");
    // It would end a transfer for good, by the word of anybody.
    for frame in [refused(RefusalCode::NotFound), Frame::Bye, Frame::Welcome { version: 8, udp_port: 1, key: None }] {
        let result = hear(frame);
        assert!(matches!(result, Err(HandshakeError::Stream(StreamError::InClear))), "{result:?}");
    }
}

#[test]
fn bytes_that_were_changed_on_the_way_are_no_frames() {
    let Greeter { address, thread } = greeter(&identity());
    let mut client = connect(&address, &taking_any()).unwrap();
    let mut server = thread.join().unwrap().unwrap();
    assert_eq!(server.receive(soon()).unwrap(), Frame::Finish);
    client.queue(&Frame::Bye).unwrap();
    let (_, outgoing) = client.buffers();
    *outgoing.last_mut().unwrap() ^= 1;
    client.write_all(soon()).unwrap();
    assert!(matches!(server.receive(soon()), Err(StreamError::Tls(rustls::Error::DecryptError))));
    // The peer is told.
    assert!(matches!(client.receive(soon()), Err(StreamError::Tls(rustls::Error::AlertReceived(_)))));
}

#[test]
fn greeting_has_a_deadline_whatever_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = ControlStream::new(listener.accept().unwrap().0).unwrap();
    let tls = ServerTls::new(&identity()).unwrap();
    // The beginning of a first message, and nothing more.
    client.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 252]).unwrap();
    let result = server.accept_tls(&tls, Instant::now() + Duration::from_millis(50));
    assert!(matches!(result, Err(HandshakeError::Stream(StreamError::TimedOut))), "{result:?}");
}
