//! Accepting connections.

use std::sync::Arc;

use inhaul_base::{Span, Time};

use super::held::Held;
use super::socket::Socket;
use crate::error::UdtError;

/// The connections that clients make to an endpoint. When it is dropped, the endpoint listens no more, and connections
/// that were not accepted end.
#[derive(Debug)]
pub struct Incoming {
    held: Arc<Held>,
}

impl Incoming {
    pub(super) fn new(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// The next connection; waits for it.
    ///
    /// # Errors
    /// When the endpoint has failed.
    pub fn accept(&self) -> Result<Socket, UdtError> {
        self.accept_until(Time::FAR_FUTURE)
    }

    /// The next connection; waits for `timeout` at most.
    ///
    /// # Errors
    /// When none came in time, or the endpoint has failed.
    pub fn accept_within(&self, timeout: Span) -> Result<Socket, UdtError> {
        self.accept_until(self.held.now() + timeout)
    }

    fn accept_until(&self, deadline: Time) -> Result<Socket, UdtError> {
        let mut state = self.held.lock();
        loop {
            state.check()?;
            let ready = match state.accept() {
                Ok(id) => {
                    drop(state);
                    return Ok(Socket::new(self.held.clone(), id));
                }
                Err(Some(ready)) => ready,
                Err(None) => return Err(UdtError::Failed("the endpoint does not listen".to_owned())),
            };
            let (again, in_time) = self.held.wait(state, &ready, deadline);
            if !in_time {
                return Err(UdtError::TimedOut);
            }
            state = again;
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let now = self.held.now();
        self.held.lock().stop_listening(now);
        self.held.wake();
    }
}
