//! A server to embed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use inhaul_base::{Bitrate, Span};
use inhaul_identity::{Fingerprint, Key, Right, Rights, State};
use inhaul_mover::{
    Ask, ErrorKind, MoveError, NetOptions, Offer, OfferNameError, ServeOptions, ServerIdentity, SessionLimits, Stop,
    Surroundings,
};

/// Default memory for the lists of files of all sessions together.
const MANIFEST_MEMORY: u64 = 1 << 30;
/// Default maximum number of sessions.
const SESSIONS: usize = 1024;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    key: Fingerprint,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), MoveError>>>,
}

/// How a [`Server`] is made.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it is started"]
pub struct ServerBuilder {
    directories: Vec<Result<Offer, OfferNameError>>,
    listen: SocketAddr,
    send_rate: Option<Bitrate>,
    client_rate: Option<Bitrate>,
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
    public: Rights,
    sessions: usize,
    mtu: Option<u16>,
}

impl Server {
    /// Options of a server to start.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            directories: Vec::new(),
            listen: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], inhaul_mover::DEFAULT_PORT)),
            send_rate: None,
            client_rate: None,
            cache: None,
            state: None,
            public: Rights::NONE,
            sessions: SESSIONS,
            mtu: None,
        }
    }

    /// Where it listens, over TCP and UDP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of `path`, for clients on this host or in its network: with the fingerprint of the server's key, so
    /// that a client trusts no other server, and without any token.
    pub fn address_of(&self, path: &str) -> String {
        let path = path.replace('%', "%25").replace('#', "%23");
        format!("inhaul://{}/{}#{}", self.address, path.trim_start_matches('/'), self.key)
    }

    /// Ends it: sessions have a moment to come to their end. Waits for that.
    ///
    /// # Errors
    /// The error that ended it.
    pub fn stop(mut self) -> Result<(), MoveError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), MoveError> {
        self.stop.stop();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join().map_err(|_| MoveError::Internal("the server's thread has died".to_owned()))?;
        ended.or_else(|error| if error.kind() == ErrorKind::Interrupted { Ok(()) } else { Err(error) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No caller is left to receive the error.
        let _ = self.end();
    }
}

impl ServerBuilder {
    /// Offers a directory or a file, with all beneath it. Can be repeated.
    ///
    /// Paths of addresses begin with its own name: `NAME/PATH`. If it is the only offered directory, the name may be
    /// left out.
    pub fn offer(mut self, path: impl Into<PathBuf>) -> Self {
        self.directories.push(Ok(Offer::from(path.into())));
        self
    }

    /// The same under this name, with which paths of addresses always begin.
    /// It has up to 255 bytes, no slash and no control character.
    pub fn offer_as(mut self, name: &str, path: impl Into<PathBuf>) -> Self {
        self.directories.push(Offer::named(name, path));
        self
    }

    /// Where it listens, over TCP and UDP; port 0 chooses a free one.
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = address.into();
        self
    }

    /// Limit on the rate that it sends to all receivers together.
    pub fn send_rate(mut self, rate: Bitrate) -> Self {
        self.send_rate = Some(rate);
        self
    }

    /// Limit on the rate that it sends to each client over all its sessions. A client is a key or a token, or an
    /// address if everybody may read ([public](Self::public)).
    pub fn client_rate(mut self, rate: Bitrate) -> Self {
        self.client_rate = Some(rate);
        self
    }

    /// A directory for digests of large files, so that they are not hashed each time.
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    /// The directory of the server's key, the keys and tokens that it lets in, and its audit log. Without one it has a
    /// new key each time, and admits clients only if it is [public](Self::public).
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state = Some(directory.into());
        self
    }

    /// Everybody may list and read.
    pub fn public(mut self) -> Self {
        self.public = Rights::only(Right::Read);
        self
    }

    /// Sessions at once, in all.
    pub fn sessions_max(mut self, count: usize) -> Self {
        self.sessions = count;
        self
    }

    /// Size of the largest IP packet.
    pub fn mtu(mut self, bytes: u16) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Starts it on a thread of its own, and waits until it listens.
    ///
    /// # Errors
    /// When a directory cannot be offered, or not under its name, the address cannot be listened on, or the state cannot be read.
    pub fn start(self) -> Result<Server, MoveError> {
        let state = self.state.map(State::at);
        let bad_key = |error: inhaul_identity::KeyError| MoveError::Usage(error.to_string());
        let key = match &state {
            Some(state) => Key::load_or_make(&state.server_key()).map_err(bad_key)?.0,
            None => Key::random().map_err(bad_key)?,
        };
        let fingerprint = key.fingerprint();
        let directories = self.directories.into_iter().collect::<Result<_, _>>();
        let directories = directories.map_err(|error| MoveError::Usage(error.to_string()))?;
        let stop = Stop::new();
        let options = ServeOptions {
            directories,
            listen: self.listen,
            send_rate: self.send_rate,
            client_rate: self.client_rate,
            cache: self.cache,
            accept: None,
            limits: SessionLimits::of(self.sessions),
            manifest_memory: MANIFEST_MEMORY,
            grace: Span::from_secs(1),
            identity: ServerIdentity { key, certificate: None, state, public: self.public, plaintext: false },
            reload: Ask::default(),
            status: Ask::default(),
            surroundings: Surroundings::default(),
            net: NetOptions { mtu: self.mtu, ..NetOptions::default() },
        };
        let (ready, listening) = channel();
        let ended = stop.clone();
        let run = move || {
            inhaul_mover::serve(&options, &ended, |address| {
                let _ = ready.send(address);
            })
        };
        let failed = |source| MoveError::System { what: "cannot start a thread", source };
        let thread = std::thread::Builder::new().name("inhaul-serve".to_owned()).spawn(run).map_err(failed)?;
        match listening.recv() {
            Ok(address) => Ok(Server { address, key: fingerprint, stop, thread: Some(thread) }),
            Err(_) => {
                let died = || MoveError::Internal("the server's thread has died".to_owned());
                Err(thread.join().map_err(|_| died())?.err().unwrap_or_else(died))
            }
        }
    }
}
