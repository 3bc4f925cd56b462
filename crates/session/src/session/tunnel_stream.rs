//! A stream that is to carry another session's datagrams, opened by the client.

use std::net::SocketAddr;

use crate::api::error::MoveError;
use crate::api::options::NetOptions;
use crate::api::source::Server;
use crate::session::connect::{Session, Wanted};
use crate::session::control_stream::ControlStream;
use crate::session::frame::{Frame, SessionRole};

/// Opens a stream to the server at `address`, where its session is, and attaches it by `token`. Nothing is waited for:
/// datagrams may follow at once, and a server that will not have them closes it.
pub fn open(server: &Server, address: SocketAddr, net: &NetOptions, token: u128) -> Result<ControlStream, MoveError> {
    let wanted = Wanted { mtu: net.mtu, ..Wanted::no_data(&net.trust) };
    let mut session = Session::connect_at(server, Some(address), SessionRole::Tunnel, wanted)?;
    session.send(&Frame::AttachTunnel { token })?;
    Ok(session.stream)
}
