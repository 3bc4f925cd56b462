//! quinn, as its users set it for bulk data. See the library's documentation for the arguments.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use inhaul_bench_quic::{
    ACK_EVERY, Landing, NAME, Outcome, PROTOCOL, Pieces, RECEIVE_BUFFER, Report, Role, SEND_BUFFER, Setup, WINDOW,
    cpu_time, make_certificate,
};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use socket2::{Domain, Socket, Type};

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
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let tls = rustls::ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut tls = tls.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(&setup));
    let endpoint = endpoint(&setup, setup.address, Some(config))?;
    let mut landing = Landing::new(&setup);
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut chunks = vec![Bytes::new(); CHUNKS];
    while let Some(count) = stream.read_chunks(&mut chunks).await? {
        landing.take(&chunks[..count]);
    }
    let report = landing.report();
    connection.closed().await;
    Ok(report)
}

async fn send(setup: Setup) -> Outcome<Report> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&setup.certificate)?)?;
    let tls = rustls::ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(&setup));
    let endpoint = endpoint(&setup, setup.any(), None)?;
    let mut pieces = Pieces::new(&setup);
    let connection = endpoint.connect_with(config, setup.address, NAME)?.await?;
    let mut stream = connection.open_uni().await?;
    let (began, cpu, mut bytes) = (Instant::now(), cpu_time(), 0);
    while began.elapsed() < setup.duration {
        let piece = pieces.next().expect("it does not end");
        bytes += piece.len() as u64;
        stream.write_chunk(piece).await?;
    }
    stream.finish()?;
    stream.stopped().await?;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(Report { bytes, span: began.elapsed(), cpu: cpu_time() - cpu })
}

/// AES-128-GCM alone, by AWS's library.
fn provider() -> Arc<CryptoProvider> {
    let suite = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    Arc::new(CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() })
}

fn transport(setup: &Setup) -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(u32::from(ACK_EVERY)));
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .send_fairness(false)
        .initial_mtu(setup.datagram())
        .min_mtu(setup.datagram())
        .mtu_discovery_config(None)
        .ack_frequency_config(Some(acks))
        .enable_segmentation_offload(setup.offload);
    Arc::new(transport)
}

fn endpoint(setup: &Setup, address: std::net::SocketAddr, server: Option<ServerConfig>) -> Outcome<Endpoint> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&address.into())?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(setup.datagram())?;
    Ok(Endpoint::new(config, server, socket.into(), Arc::new(TokioRuntime))?)
}
