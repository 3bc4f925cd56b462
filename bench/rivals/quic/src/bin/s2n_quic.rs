//! s2n-quic, as its users set it for bulk data. See the library's documentation for the arguments.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inhaul_bench_quic::{
    ACK_EVERY, Landing, NAME, Outcome, PROTOCOL, Pieces, RECEIVE_BUFFER, Report, Role, SEND_BUFFER, Setup, WINDOW,
    cpu_time, make_certificate,
};
use s2n_quic::client::Connect;
use s2n_quic::provider::event::{ConnectionMeta, Subscriber, events};
use s2n_quic::provider::io::tokio::{Builder, Provider};
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::default as tls;
use s2n_quic::{Client, Server};
use tokio::time::timeout;

/// Chunks of data that one call takes from the stream.
const CHUNKS: usize = 64;

fn main() -> ExitCode {
    inhaul_bench_quic::main(async |setup| match setup.role {
        Role::Receive => receive(setup).await,
        Role::Send => send(setup).await,
    })
}

async fn receive(setup: Setup) -> Outcome<Report> {
    let (certificate, key) = make_certificate(&setup)?;
    let mut landing = Landing::new(&setup);
    let tls = tls::Server::builder().with_certificate(certificate.as_str(), key.as_str())?;
    let tls = tls.with_application_protocols([PROTOCOL].iter())?.build()?;
    let server = Server::builder().with_tls(tls)?.with_limits(limits()?)?.with_event(Cipher)?;
    let mut server = server.with_io(io(&setup, setup.address)?)?.start()?;
    let mut connection = server.accept().await.ok_or("the endpoint is closed")?;
    let mut stream = connection.accept_receive_stream().await?.ok_or("no stream has come")?;
    let mut chunks = vec![Bytes::new(); CHUNKS];
    loop {
        let (count, is_open) = stream.receive_vectored(&mut chunks).await?;
        landing.take(&chunks[..count]);
        // It takes empty ones only.
        chunks[..count].fill(Bytes::new());
        if !is_open {
            break;
        }
    }
    let report = landing.report();
    // Until the sender knows that all has come, and says so; that may be lost.
    let _closed = timeout(Duration::from_secs(1), connection.accept_receive_stream()).await;
    Ok(report)
}

async fn send(setup: Setup) -> Outcome<Report> {
    let mut pieces = Pieces::new(&setup);
    let tls = tls::Client::builder().with_certificate(setup.certificate.as_path())?;
    let tls = tls.with_application_protocols([PROTOCOL].iter())?.build()?;
    let client = Client::builder().with_tls(tls)?.with_limits(limits()?)?.with_event(Cipher)?;
    let client = client.with_io(io(&setup, setup.any())?)?.start()?;
    let mut connection = client.connect(Connect::new(setup.address).with_server_name(NAME)).await?;
    let mut stream = connection.open_send_stream().await?;
    let (began, cpu, mut bytes) = (Instant::now(), cpu_time(), 0);
    while began.elapsed() < setup.duration {
        let piece = pieces.next().expect("it does not end");
        bytes += piece.len() as u64;
        stream.send(piece).await?;
    }
    stream.close().await?;
    connection.close(0u32.into());
    Ok(Report { bytes, span: began.elapsed(), cpu: cpu_time() - cpu })
}

fn limits() -> Outcome<Limits> {
    let window = u64::from(WINDOW);
    Ok(Limits::new()
        .with_data_window(window)?
        .with_unidirectional_data_window(window)?
        .with_max_send_buffer_size(WINDOW)?
        .with_ack_elicitation_interval(ACK_EVERY)?)
}

fn io(setup: &Setup, address: SocketAddr) -> Outcome<Provider> {
    let io = Builder::default()
        .with_receive_address(address)?
        .with_recv_buffer_size(RECEIVE_BUFFER)?
        .with_send_buffer_size(SEND_BUFFER)?
        .with_max_mtu(setup.mtu)?
        .with_initial_mtu(setup.mtu)?
        .with_base_mtu(setup.mtu)?
        .with_gso(setup.offload)?
        .with_gro(setup.offload)?;
    Ok(io.build()?)
}

/// Ends the program if the handshake has chosen another cipher than the other contestants use.
struct Cipher;

impl Subscriber for Cipher {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &events::ConnectionInfo) {}

    fn on_key_update(&mut self, (): &mut (), _: &ConnectionMeta, event: &events::KeyUpdate) {
        let is_data = matches!(event.key_type, events::KeyType::OneRtt { .. });
        if is_data && !matches!(event.cipher_suite, events::CipherSuite::TLS_AES_128_GCM_SHA256 { .. }) {
            eprintln!("the cipher is {:?}, not AES-128-GCM", event.cipher_suite);
            std::process::exit(1);
        }
    }
}
