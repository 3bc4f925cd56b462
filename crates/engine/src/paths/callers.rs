//! Receivers whose senders have dialled them: a server that fetches from its clients. It cannot open streams to them,
//! nor find out where their datagrams come from. It asks them to, and what they bring arrives where everybody connects.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::probe::ProbeDesk;
use inhaul_session::session::control_stream::ControlStream;

/// What becomes of a stream that has come.
type Take = Box<dyn Fn(ControlStream) + Send>;

/// What a server has for the senders that have dialled it.
#[derive(Clone, Debug)]
pub struct Callers {
    /// Where their streams arrive.
    pub hall: Arc<Hall>,
    /// Where their probes do.
    pub desk: Arc<ProbeDesk>,
    /// Where they send datagrams.
    pub local: SocketAddr,
}

/// Where streams arrive that are to carry datagrams of sessions which have asked for them.
#[derive(Default)]
pub struct Hall {
    awaited: Mutex<BTreeMap<u128, Awaited>>,
}

struct Awaited {
    /// So many more may come.
    left: usize,
    take: Take,
}

/// Streams are awaited until this is dropped.
#[derive(Debug)]
pub(super) struct Expectation {
    hall: Arc<Hall>,
    token: u128,
}

/// Why a stream is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAwaited {
    /// No session has asked for it.
    Unknown,
    /// As many have come as were asked for.
    Enough,
}

impl Hall {
    /// Up to `count` streams are awaited that show `token`.
    pub(super) fn expect(self: &Arc<Self>, token: u128, count: usize, take: Take) -> Expectation {
        self.lock().insert(token, Awaited { left: count, take });
        Expectation { hall: Arc::clone(self), token }
    }

    /// Whether a stream is awaited that shows `token`.
    pub fn awaits(&self, token: u128) -> bool {
        self.lock().contains_key(&token)
    }

    /// A stream has come that shows `token`.
    pub fn bring(&self, token: u128, stream: ControlStream) -> Result<(), (Box<ControlStream>, NotAwaited)> {
        let mut awaited = self.lock();
        match awaited.get_mut(&token) {
            None => Err((Box::new(stream), NotAwaited::Unknown)),
            Some(Awaited { left: 0, .. }) => Err((Box::new(stream), NotAwaited::Enough)),
            Some(awaited) => {
                awaited.left -= 1;
                (awaited.take)(stream);
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u128, Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        self.hall.lock().remove(&self.token);
    }
}

impl fmt::Debug for Hall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hall")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::channel;

    fn stream() -> ControlStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        ControlStream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn only_streams_that_were_asked_for_are_taken_and_no_more_than_that() {
        let hall: Arc<Hall> = Arc::default();
        let (sender, came) = channel();
        let expectation = hall.expect(7, 2, Box::new(move |stream| sender.send(stream).unwrap()));
        let bring = |token| hall.bring(token, stream()).map_err(|(_, why)| why);
        assert_eq!(bring(8), Err(NotAwaited::Unknown));
        assert!(hall.awaits(7) && !hall.awaits(8));
        assert_eq!([bring(7), bring(7), bring(7)], [Ok(()), Ok(()), Err(NotAwaited::Enough)]);
        assert_eq!(came.try_iter().count(), 2);
        assert!(hall.awaits(7) && !hall.awaits(8));
        drop(expectation);
        assert!(!hall.awaits(7));
        assert_eq!(bring(7), Err(NotAwaited::Unknown));
    }
}
