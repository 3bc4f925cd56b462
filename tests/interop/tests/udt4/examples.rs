//! The example programs of libudt as the other side: `appserver` and `appclient`, `sendfile` and `recvfile`.

use inhaul_udt4::Kind;
use inhaul_udt4::files::{self, FileError};

use crate::peer::{Peer, example};
use crate::{accept, arrived, bytes, connect, endpoint, free_port, same, text};

#[test]
fn their_appserver_takes_what_we_send() {
    let Some(appserver) = example("appserver") else { return };
    let port = free_port();
    let peer = Peer::start(&appserver, &[&port.to_string()]);
    assert!(peer.line().unwrap().starts_with("server is ready"));
    let endpoint = endpoint(Kind::Stream);
    for seed in [1, 2] {
        let socket = connect(&endpoint, port);
        let own = endpoint.local_address().port();
        assert_eq!(peer.line(), Some(format!("new connection: 127.0.0.1:{own}")));
        // It reads pieces of 100,000 bytes and looks at none.
        socket.write_all(&bytes(20_000_000, seed)).unwrap();
        socket.flush().unwrap();
        assert_eq!(socket.statistics().unwrap().bytes_acknowledged, 20_000_000);
        socket.close().unwrap();
        assert_eq!(peer.line().as_deref(), Some("recv:Connection was broken."));
    }
}

#[test]
fn their_appclient_sends_until_we_have_enough() {
    let Some(appclient) = example("appclient") else { return };
    let endpoint = endpoint(Kind::Stream);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peer = Peer::start(&appclient, &["127.0.0.1", &port]);
    let socket = accept(&incoming);
    // The same piece of 100,000 bytes again and again.
    let (mut first, mut piece) = (vec![0; 100_000], vec![0; 100_000]);
    socket.read_exact(&mut first).unwrap();
    for _ in 0..400 {
        socket.read_exact(&mut piece).unwrap();
        same(&piece, &first);
    }
    arrived(&socket.close());
    let lines: Vec<String> = std::iter::from_fn(|| peer.line()).collect();
    assert!(lines.iter().any(|line| line == "send:Connection was broken."), "{lines:?}");
    assert!(peer.ended_well());
}

#[test]
fn we_fetch_from_their_sendfile() {
    let Some(sendfile) = example("sendfile") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (path, data, port) = (directory.path().join("file"), bytes(3_000_000, 20), free_port());
    std::fs::write(&path, &data).unwrap();
    let peer = Peer::start(&sendfile, &[&port.to_string()]);
    assert!(peer.line().unwrap().starts_with("server is ready"));
    let endpoint = endpoint(Kind::Stream);
    let mut got = Vec::new();
    files::fetch(&connect(&endpoint, port), text(&path), |_| Ok(&mut got), &mut |_, _| true).unwrap();
    same(&got, &data);
    let missing = files::fetch(&connect(&endpoint, port), "/no/such", |_| Ok(Vec::new()), &mut |_, _| true);
    assert!(matches!(missing, Err(FileError::NotFound(_))), "{missing:?}");
}

#[test]
fn their_recvfile_fetches_from_us() {
    let Some(recvfile) = example("recvfile") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (offered, landed) = (directory.path().join("offered"), directory.path().join("landed"));
    let data = bytes(3_000_000, 21);
    std::fs::create_dir(&offered).unwrap();
    std::fs::write(offered.join("file"), &data).unwrap();
    let endpoint = endpoint(Kind::Stream);
    let incoming = endpoint.listen(10).unwrap();
    let port = endpoint.local_address().port().to_string();
    let peer = Peer::start(&recvfile, &["127.0.0.1", &port, "file", text(&landed)]);
    let (path, size) = files::answer(&accept(&incoming), &offered, &mut |_, _| true).unwrap();
    assert!(path.ends_with("file") && size == 3_000_000);
    assert!(peer.ended_well());
    same(&std::fs::read(&landed).unwrap(), &data);
}
