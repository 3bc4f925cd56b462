//! Sessions whose datagrams go over streams, because UDP does not pass: who may attach them, and to what.
//!
//! The keys of a session give a number that only its two ends know. A stream that shows it belongs to the session,
//! wherever it comes from: a proxy may have several addresses. The number ends with the session.

use std::net::IpAddr;

use inhaul_base::Span;
use inhaul_transport::FlowId;

use crate::serving::{Serving, Session};
use inhaul_engine::engine::Engine;
use inhaul_engine::engine::port::NO_PORT;
use inhaul_engine::engine::tunnel::STREAMS_MAX;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::frame::{Frame, RefusalCode};
use inhaul_session::system::sockets::with_port;

/// Why a stream is unwanted.
pub const UNKNOWN: &str = "there is no such session, or not any more";
pub const ENOUGH: &str = "the session has as many streams as it may have";
/// A client may try UDP anew this often: each try is good for some echoes.
const TRY_GAP: Span = Span::from_millis(200);

impl Serving {
    /// A stream has come for the datagrams of the session that `token` is of; one that cannot be had is given back.
    pub(crate) fn attach_tunnel(
        &mut self,
        engine: &mut Engine,
        token: u128,
        stream: ControlStream,
    ) -> Result<(), Unwanted> {
        let Some(flow) = self.tunnels.get(token) else {
            return Err(Unwanted { stream: Box::new(stream), why: UNKNOWN });
        };
        if engine.tunnel_streams(flow) >= STREAMS_MAX {
            return Err(Unwanted { stream: Box::new(stream), why: ENOUGH });
        }
        self.carry(engine, flow, stream);
        Ok(())
    }

    /// A stream carries datagrams of a session from now on.
    pub fn carry(&self, engine: &mut Engine, flow: FlowId, stream: ControlStream) {
        let Some(Session { client, .. }) = self.sessions.get(&flow) else { return };
        log::debug!("{}: carries datagrams of {client}", stream.peer());
        // No datagram comes from there over UDP.
        let shown = with_port(*client, NO_PORT);
        if let Err(error) = engine.attach_stream(flow, shown, stream) {
            log::warn!("{client}: {error}");
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

/// A stream that is to carry datagrams of no session that is there, or of one that has enough.
pub struct Unwanted {
    pub stream: Box<ControlStream>,
    pub why: &'static str,
}

impl Unwanted {
    /// Tells whoever has opened it.
    pub(crate) fn refuse(self) {
        let Self { stream, why } = self;
        log::info!("{}: carries no datagrams: {why}", stream.peer());
        stream.end_with(&Frame::Refused { code: RefusalCode::NotAllowed, text: why.to_owned() });
    }
}
