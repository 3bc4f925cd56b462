//! Where connections are taken: also when the process, or the system, has no descriptor left for one.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use inhaul_base::{Span, Time};
use rustix::io::Errno;

use crate::engine::seldom::Seldom;
use inhaul_session::session::control_stream::ControlStream;
use inhaul_session::session::frame::{Frame, RefusalCode};

/// How long nobody is taken in when not even the reserve helps.
const PAUSE: Span = Span::from_millis(500);

/// A socket that listens, and a descriptor in reserve.
pub struct Listener {
    tcp: TcpListener,
    /// Given up for a moment when there is no descriptor for a connection: so it can be taken, told, and closed. Left
    /// alone, it would stay at the head of the queue, and be reported as ready for ever.
    reserve: Option<File>,
    /// Nobody is taken in until then.
    paused_until: Option<Time>,
    warning: Seldom,
}

/// What came of looking for a connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// This one has come.
    Client(TcpStream),
    /// One has come, and was sent away or was gone already.
    SentAway,
    /// None waits.
    Nobody,
    /// There is no descriptor for anybody: wait for the listener no more until [`Listener::resumes`].
    Paused,
}

impl Listener {
    /// Takes connections from `tcp`, which must not block.
    pub(crate) fn new(tcp: TcpListener) -> Self {
        Self { tcp, reserve: reserve(), paused_until: None, warning: Seldom::default() }
    }

    /// Takes the next connection, if one waits.
    pub(crate) fn accept(&mut self, now: Time) -> Accepted {
        match self.tcp.accept() {
            Ok((tcp, _)) => Accepted::Client(tcp),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => Accepted::Nobody,
                Some(Errno::MFILE | Errno::NFILE) => self.send_one_away(now, &error),
                Some(Errno::NOBUFS | Errno::NOMEM) => self.pause(now, &error),
                // It was gone before it was taken, or the network has failed it (accept(2)): the next may be well.
                _ => Accepted::SentAway,
            },
        }
    }

    fn send_one_away(&mut self, now: Time, why: &io::Error) -> Accepted {
        if self.reserve.take().is_none() {
            self.reserve = reserve();
            return if self.reserve.is_some() { Accepted::SentAway } else { self.pause(now, why) };
        }
        let taken = self.tcp.accept();
        // The kernel looks for a descriptor first, and only then whether anybody waits.
        let nobody = matches!(&taken, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if let Ok((tcp, _)) = taken {
            self.warning.warn(now, &format!("clients are sent away: no connection can be taken ({why})"));
            turn_away(tcp, "it has no descriptor left for another connection: try again later");
        }
        self.reserve = reserve();
        match &self.reserve {
            _ if nobody => Accepted::Nobody,
            Some(_) => Accepted::SentAway,
            None => self.pause(now, why),
        }
    }

    /// Takes nobody in for a while.
    pub(crate) fn pause(&mut self, now: Time, why: &io::Error) -> Accepted {
        self.warning.warn(now, &format!("nobody is taken in for a while: no connection can be taken ({why})"));
        self.paused_until = Some(now + PAUSE);
        Accepted::Paused
    }

    /// When it is to be waited for again, if it is not now.
    pub(crate) fn resumes(&self) -> Option<Time> {
        self.paused_until
    }

    /// It is waited for again.
    pub(crate) fn resume(&mut self) {
        self.paused_until = None;
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

/// A descriptor that is good for nothing but to be closed.
fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Tells a client that there is no room. A word that fits into the connection's buffer, or none: nobody waits here.
pub fn turn_away(tcp: TcpStream, text: &str) {
    if let Ok(stream) = ControlStream::new(tcp) {
        stream.end_with(&Frame::Refused { code: RefusalCode::Busy, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn listener() -> (Listener, std::net::SocketAddr) {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let address = tcp.local_addr().unwrap();
        (Listener::new(tcp), address)
    }

    #[test]
    fn client_without_a_descriptor_is_told_and_leaves_the_queue() {
        let (mut listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let why = io::Error::from(Errno::MFILE);
        assert!(matches!(listener.send_one_away(Time::ZERO, &why), Accepted::SentAway));
        let mut client = ControlStream::new(client).unwrap();
        let refusal = client.receive(Instant::now() + Duration::from_secs(10)).unwrap();
        assert!(matches!(refusal, Frame::Refused { code: RefusalCode::Busy, .. }), "{refusal:?}");
        assert!(listener.reserve.is_some(), "there is one for the next time");
        assert!(matches!(listener.accept(Time::ZERO), Accepted::Nobody));
    }

    #[test]
    fn listener_pauses_when_nothing_helps() {
        let (mut listener, _) = listener();
        let why = io::Error::from(Errno::NOBUFS);
        assert!(matches!(listener.pause(Time::ZERO, &why), Accepted::Paused));
        assert_eq!(listener.resumes(), Some(Time::ZERO + PAUSE));
        listener.resume();
        assert_eq!(listener.resumes(), None);
    }
}
