//! A protocol that no registry has hauls files through the mover: nothing there knows any protocol by name.

use std::sync::mpsc::channel;

use inhaul_base::Span;
use inhaul_contract_tests::FIXED_RATE;
use inhaul_mover::{
    Ask, GetOptions, NetOptions, Protocols, Request, ServeOptions, ServerIdentity, Source, Stop, Trust, UnknownServer,
    get, serve,
};
use inhaul_transport::Protocol;

/// More than comes with the description of a small data set.
const SIZE: usize = 3 << 20;

#[test]
fn the_smallest_protocol_hauls_a_file_from_a_server_to_a_client() {
    static ONLY: [Protocol; 1] = [FIXED_RATE];
    let net = NetOptions {
        protocols: Protocols(&ONLY),
        transport: FIXED_RATE.name.to_owned(),
        parameters: vec![("rate".to_owned(), "400".to_owned())],
        trust: Trust { unknown: UnknownServer::TakeAny, ..Trust::default() },
        ..NetOptions::default()
    };
    let (offered, landing) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes: Vec<u8> = (0..SIZE).map(|n| (n * 7 + n / 253) as u8).collect();
    std::fs::write(offered.path().join("f"), &bytes).unwrap();

    let (stop, (ready, address)) = (Stop::new(), channel());
    let server = {
        let options = ServeOptions {
            directories: vec![offered.path().to_path_buf().into()],
            listen: "127.0.0.1:0".parse().unwrap(),
            send_rate: None,
            client_rate: None,
            cache: None,
            accept: None,
            limits: inhaul_mover::SessionLimits::of(4),
            manifest_memory: 1 << 24,
            grace: Span::ZERO,
            identity: ServerIdentity::passing(inhaul_identity::Rights::ALL).unwrap(),
            reload: Ask::default(),
            status: Ask::default(),
            surroundings: Default::default(),
            net: NetOptions { parameters: Vec::new(), ..net.clone() },
        };
        let stop = stop.clone();
        std::thread::spawn(move || serve(&options, &stop, |address| ready.send(address).unwrap()))
    };
    let source: Source = format!("inhaul://{}/f", address.recv().unwrap()).parse().unwrap();
    let options = GetOptions {
        requests: vec![Request::from(source)],
        destination: landing.path().join("f"),
        inbox: None,
        receive_rate: None,
        rate: None,
        filter: Default::default(),
        existing: Default::default(),
        checksum: false,
        owner: false,
        attributes: false,
        dry_run: false,
        fresh: false,
        manifest: None,
        stream: None,
        retry_for: Span::ZERO,
        policy_dial: None,
        net,
    };
    let (report, result) = get(&options, &Stop::new(), &mut |_| {});
    stop.stop();
    server.join().unwrap().unwrap();
    result.unwrap();
    assert!(std::fs::read(landing.path().join("f")).unwrap() == bytes);
    // The server knows no other protocol, so only this one can have brought it.
    assert_eq!(report.bytes, SIZE as u64);
}
