//! Streams that belong to a session which is open already: they show a number that only its two ends know. Whether they
//! do is looked at before they get a place, and written down like every right.

use inhaul_identity::audit::{Access, Event};

use crate::gate::Caller;
use crate::house::House;
use crate::orders::Orders;
use crate::tunnels::UNKNOWN;
use inhaul_session::session::frame::RefusalCode;
use inhaul_session::session::refusal::{GreetingError, refused};

/// Why a session is not taken for a put.
const NOT_AWAITED: &str = "no put waits for this session, or not any more";

/// What a stream is to carry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carries {
    /// One of the data sets of a put.
    DataSet(u64),
    /// The datagrams of a session.
    Datagrams(u128),
}

/// Whether a stream may belong to what it says it does.
///
/// # Errors
/// The refusal, if not.
pub(super) fn check(house: &House, orders: Option<&dyn Orders>, carries: Carries) -> Result<(), GreetingError> {
    let (is_known, why) = match carries {
        Carries::DataSet(token) => (orders.is_some_and(|orders| orders.awaits(token)), NOT_AWAITED),
        Carries::Datagrams(token) => {
            let is_awaited = || orders.is_some_and(|orders| orders.awaits_stream(token));
            (house.tunnels.has(token) || is_awaited(), UNKNOWN)
        }
    };
    if is_known { Ok(()) } else { Err(refused(RefusalCode::NotAllowed, why)) }
}

/// Writes down that a client has been let in for something that is no right on a path.
pub(super) fn note(house: &House, caller: &Caller, what: &str) {
    let (client, key) = (caller.address.to_string(), caller.key.map(|key| key.to_string()));
    let token = caller.token.as_ref().map(|token| token.id().to_string());
    house.gate.audit().write(&Event::Granted(Access { client: &client, key, token, right: what, path: "" }));
}
