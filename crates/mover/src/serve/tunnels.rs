//! Sessions whose datagrams go over streams, because UDP does not pass: who may attach them, and to what.
//!
//! A client asks over its session, and is given a number that nobody can guess. A stream that shows it belongs to the
//! session, wherever it comes from: a proxy may have several addresses. The number ends with the session.

use std::net::{IpAddr, SocketAddr};

use inhaul_base::Span;
use inhaul_transport::FlowId;

use crate::engine::Engine;
use crate::engine::port::NO_PORT;
use crate::serve::serving::Serving;
use crate::session::control_stream::ControlStream;
use crate::session::frame::{Frame, RefusalCode};
use crate::system::process;

/// A client may try UDP anew this often: each try is good for some echoes.
const TRY_GAP: Span = Span::from_millis(200);

impl Serving {
    /// Tells the client with which number streams may carry its datagrams: the same whenever it asks.
    pub(super) fn grant_tunnel(&mut self, engine: &mut Engine, flow: FlowId) {
        let Some(session) = self.sessions.get_mut(&flow) else { return };
        let token = session.tunnel.token.map_or_else(random_u128, Some);
        // Without one there is no tunnel: the client asks again.
        let Some(token) = token else { return };
        session.tunnel.token = Some(token);
        self.tunnels.insert(token, flow);
        engine.send(flow, &Frame::TunnelGrant { token });
    }

    /// A stream has come for the datagrams of whoever was granted `token`.
    pub(crate) fn attach_tunnel(&mut self, engine: &mut Engine, token: u128, mut stream: ControlStream) {
        let session = self.tunnels.get(&token).and_then(|flow| Some((*flow, self.sessions.get(flow)?)));
        let why = match session {
            None => "there is no such session, or not any more",
            Some((flow, session)) => {
                // No datagram comes from there over UDP.
                let shown = SocketAddr::new(session.client.ip(), NO_PORT);
                log::debug!("{}: carries datagrams of {}", stream.peer(), session.client);
                match engine.tunnel_streams(flow) {
                    streams if streams < crate::engine::tunnel::STREAMS_MAX => {
                        if let Err(error) = engine.attach_stream(flow, shown, stream) {
                            log::warn!("{}: {error}", session.client);
                        }
                        return;
                    }
                    _ => "the session has as many streams as it may have",
                }
            }
        };
        log::info!("{}: carries no datagrams: {why}", stream.peer());
        let refusal = Frame::Refused { code: RefusalCode::NotAllowed, text: why.to_owned() };
        // A word that fits into the connection's buffer, or none: nobody waits here.
        if stream.set_polled().is_ok() {
            let _ = stream.queue(&refusal).and_then(|()| stream.flush());
        }
    }

    /// A client is about to probe the port: where it may do so from, if it may.
    pub(crate) fn tries_datagrams(&mut self, engine: &Engine, flow: FlowId) -> Option<IpAddr> {
        let (now, session) = (engine.now(), self.sessions.get_mut(&flow)?);
        if session.tunnel.tried.is_some_and(|tried| now.since(tried) < TRY_GAP) {
            return None;
        }
        session.tunnel.tried = Some(now);
        Some(session.client.ip())
    }
}

fn random_u128() -> Option<u128> {
    let (high, low) = (process::random_u64().ok()?, process::random_u64().ok()?);
    Some(u128::from(high) << 64 | u128::from(low))
}
