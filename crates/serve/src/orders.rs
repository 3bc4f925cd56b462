//! What a server does for clients beside serving them: a seam, because it takes transfers, which are another room's.

use std::fmt::Debug;

use inhaul_identity::Right;

use crate::gate::Reach;
use crate::passes::Pass;
use crate::tunnels::Unwanted;
use inhaul_engine::engine::net::Transport;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::refusal::GreetingError;

/// Asks whether a client has a right on a path.
pub type May<'m> = dyn Fn(Right, &str) -> Result<(Reach, Pass), GreetingError> + 'm;

/// Carries out orders of clients.
pub trait Orders: Debug + Send + Sync {
    /// Carries out what a client has ordered, over its session; `udp_port` is the server's own, and
    /// `may` says whether the client has a right on a path, and how far that reaches; then it has a pass for it, until
    /// the right ends. It is asked before anything else is done.
    fn attend(
        &self,
        stream: &mut ControlStream,
        order: &[u8],
        transport: &Transport,
        udp_port: u16,
        may: &May<'_>,
    ) -> Result<(), GreetingError>;

    /// Whether a session is awaited that shows this token.
    fn awaits(&self, token: u64) -> bool;

    /// Whether a stream is awaited that shows this token.
    fn awaits_stream(&self, token: u128) -> bool;

    /// Hands over a session that brings the data set of number `source`, for the order with this token.
    fn attach(&self, token: u64, source: u16, stream: ControlStream);

    /// Hands over a stream that is to carry datagrams of the session that this token is of; one that cannot be had is
    /// given back.
    fn carry(&self, token: u128, stream: ControlStream) -> Result<(), Unwanted>;

    /// How many are under way.
    fn open(&self) -> usize;

    /// Ends what is under way; each leaves what its client can go on from.
    fn stop_all(&self);
}
