use super::*;
use inhaul_session::api::options::{Ask, NetOptions, ServeOptions, Stop};
use inhaul_session::api::service::SessionLimits;
use inhaul_session::api::trust::{ServerIdentity, UnknownServer};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;

/// A server of files on loopback, until it is dropped.
struct Running {
    stop: Stop,
    port: u16,
    thread: Option<std::thread::JoinHandle<Result<(), MoveError>>>,
    _dir: tempfile::TempDir,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (stop, (ready, address)) = (Stop::new(), channel());
        let options = ServeOptions {
            directories: vec![dir.path().to_path_buf().into()],
            listen: "127.0.0.1:0".parse().unwrap(),
            send_rate: None,
            client_rate: None,
            cache: None,
            accept: None,
            limits: SessionLimits::of(16),
            manifest_memory: 1 << 30,
            grace: inhaul_base::Span::ZERO,
            identity: ServerIdentity::passing(inhaul_identity::Rights::ALL).unwrap(),
            reload: Ask::default(),
            status: Ask::default(),
            surroundings: Default::default(),
            net: NetOptions::default(),
        };
        let thread = {
            let stop = stop.clone();
            std::thread::spawn(move || inhaul_delegate::serve(&options, &stop, |address| ready.send(address).unwrap()))
        };
        Self { stop, port: address.recv().unwrap().port(), thread: Some(thread), _dir: dir }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn verdict_of(report: &DoctorReport, check: &str) -> Option<Verdict> {
    report.findings.iter().find(|finding| finding.check == check).map(|finding| finding.verdict)
}

fn look_at(address: &str) -> (DoctorReport, Result<(), MoveError>) {
    let trust = Trust { unknown: UnknownServer::TakeAny, ..Trust::default() };
    let options = DoctorOptions { server: Some(address.parse().unwrap()), trust, ..DoctorOptions::default() };
    let mut heard = 0;
    let (report, result) = doctor(&options, &mut |_, _| heard += 1);
    assert_eq!(heard, report.findings.len());
    (report, result)
}

#[test]
fn doctor_tries_the_path_from_a_server() {
    let server = Running::start();
    let (report, result) = look_at(&format!("127.0.0.1:{}", server.port));
    result.unwrap();
    assert_eq!(verdict_of(&report, "udp"), Some(Verdict::Ok), "{report:?}");
    // Loopback carries 64 KiB; no more than a jumbo frame is tried.
    assert_eq!(verdict_of(&report, "path-mtu"), Some(Verdict::Ok), "{report:?}");
    assert!(verdict_of(&report, "device-offloads").is_some());
}

#[test]
fn doctor_tells_a_host_that_is_gone_from_one_whose_udp_is_blocked() {
    let (report, result) = look_at("127.0.0.1:1");
    assert!(matches!(result, Err(MoveError::Unreachable { .. })));
    assert!(report.error.is_some() && verdict_of(&report, "udp").is_none());

    // Connections are passed on from an address at which no datagrams are taken.
    let server = Running::start();
    let relay = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = relay.local_addr().unwrap();
    let passing = std::thread::spawn(move || {
        let client = relay.accept().unwrap().0;
        let onward = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let (mut up, mut down) = (client.try_clone().unwrap(), onward.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut up, &mut down));
        let _ = std::io::copy(&mut &onward, &mut &client);
        drop(server);
    });
    let (report, result) = look_at(&address.to_string());
    assert!(matches!(result, Err(MoveError::UdpBlocked { .. })), "{result:?}");
    assert_eq!(verdict_of(&report, "udp"), Some(Verdict::Broken));
    assert_eq!(report.worst(), Verdict::Broken);
    passing.join().unwrap();
}
