//! The client: it reaches servers, and opens data sets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use inhaul_base::byte_text::bytes_of;
use inhaul_base::{Bitrate, Span};
use inhaul_identity::{State, read_secret};
use inhaul_mover::{
    Ca, CacheOptions, Destination, Hash, Listed, MoveError, NamedBy, NetOptions, Pins, Policy, Proxy, ReadOptions,
    Reader, Server, Source, Stop, Tickets, TicketsError, Trust, UnknownServer, without_secrets,
};
use inhaul_store::Kind;
use inhaul_store::checksums::{Algorithm, Checksums, FileSum, Format};

use crate::data_set::DataSet;
use crate::transfer::{GetBuilder, PutBuilder};

pub use inhaul_mover::Fallback;

/// Longest file of tokens, in bytes.
const TOKENS_BYTES_MAX: u64 = 1 << 20;

/// A client of `inhaul` servers. Clones share it; the last that is dropped, data sets and handles included, ends its
/// data thread.
#[derive(Clone)]
pub struct Client {
    reader: Arc<Reader>,
    stop: Stop,
    tickets: Tickets,
    pub(crate) options: ReadOptions,
}

/// Options of a [`Client`]. The defaults are those of the command line.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is built"]
pub struct ClientBuilder {
    options: ReadOptions,
    proxy: Option<String>,
    tickets: Vec<String>,
    token_files: Vec<PathBuf>,
}

impl Client {
    /// A builder with the default options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The same client, but [`Client::open`] and similar calls end with
    /// [`Error::Interrupted`](crate::Error::Interrupted) soon after `stop` is set. Open data sets and transfers
    /// continue.
    pub fn until(&self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// Opens a data set: `inhaul://HOST[:PORT][,MIRROR...]/PATH[#TICKET]`, a directory or a file. Waits for the first
    /// mirror that answers, and a moment for the others.
    ///
    /// # Errors
    /// When no mirror has it, when the mirrors differ, or when a server is not trusted.
    pub fn open(&self, source: &str) -> Result<DataSet, MoveError> {
        self.open_with(source, &Pins::default())
    }

    /// The same, of files whose BLAKE3 hashes are known, such as from a list that `inhaul manifest` or `b3sum` has made:
    /// paths as in [`DataSet::files`], and hashes. All received bytes of these files are proven by their hashes: no
    /// server can make a wrong byte pass. A server has to read a file once before it can prove a part of it.
    ///
    /// # Errors
    /// As [`Client::open`]; and when a pinned file is not there.
    pub fn open_pinned<P: AsRef<[u8]>>(
        &self,
        source: &str,
        pins: impl IntoIterator<Item = (P, Hash)>,
    ) -> Result<DataSet, MoveError> {
        let pins = pins.into_iter().map(|(path, hash)| (path.as_ref().to_vec(), hash)).collect();
        self.open_with(source, &Pins::Some(pins))
    }

    /// The same, of a data set whose files are all known by one hash: the root in the second line of the files that
    /// `inhaul manifest` and `inhaul get --manifest` write. Names, sizes and contents of all files are proven by that
    /// list, with any server; directories, links and times are the servers' word. The server that is asked for the
    /// hashes reads all files first, unless it remembers them.
    ///
    /// # Errors
    /// As [`Client::open`]; and when the data set has another root.
    pub fn open_rooted(&self, source: &str, root: Hash) -> Result<DataSet, MoveError> {
        let parsed = self.parse(source)?;
        let mut items = self.checksums(source)?;
        items.sort_unstable_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        let sum = |(item, hash): &(Listed, Hash)| {
            // In a list, a data set that is one file has the file's name.
            let name = parsed.path.rsplit('/').next().unwrap_or_default();
            let path = if item.path.is_empty() { bytes_of(name).into_owned() } else { item.path.clone() };
            FileSum { path, size: Some(item.size), checksum: hash.as_bytes().to_vec() }
        };
        let files = items.iter().map(sum).collect();
        let list = Checksums { format: Format::Inhaul(Kind::Directory), algorithm: Algorithm::Blake3, files };
        let found = list.root();
        if found != root {
            let detail = format!("{parsed} has the root {found}, and {root} was expected");
            return Err(MoveError::OtherVersion { detail });
        }
        self.open_with(
            source,
            &Pins::All(items.into_iter().map(|(item, hash)| (item.path, (item.size, hash))).collect()),
        )
    }

    fn open_with(&self, source: &str, pins: &Pins) -> Result<DataSet, MoveError> {
        let source = self.parse(source)?;
        let set = self.reader.open_pinned(source.clone().into(), pins, &self.stop)?;
        Ok(DataSet::new(source, set))
    }

    /// Lists a source without opening it: a file itself, or the entries of a directory (with `recursive`, all beneath
    /// it), in the order of names.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn list(&self, source: &str, recursive: bool) -> Result<Vec<Listed>, MoveError> {
        let mut items = Vec::new();
        self.list_each(source, recursive, |item| {
            items.push(item);
            true
        })?;
        Ok(items)
    }

    /// The same, one by one while they come, until `each` says no.
    ///
    /// # Errors
    /// As [`Client::open`].
    pub fn list_each(
        &self,
        source: &str,
        recursive: bool,
        mut each: impl FnMut(Listed) -> bool,
    ) -> Result<(), MoveError> {
        let source = self.parse(source)?;
        inhaul_mover::list(&source, &self.options.net.trust, recursive, &mut |item| !self.stop.is_set() && each(item))?;
        if self.stop.is_set() { Err(MoveError::Interrupted) } else { Ok(()) }
    }

    /// Every file at a source with its BLAKE3 hash, as a server computes it: what [`Client::open_pinned`] takes, if the
    /// server is believed now.
    ///
    /// # Errors
    /// As [`Client::open`]; and when the server cannot read a file.
    pub fn checksums(&self, source: &str) -> Result<Vec<(Listed, Hash)>, MoveError> {
        let mut items = Vec::new();
        inhaul_mover::list_checksums(&self.parse(source)?, &self.options.net.trust, &mut |item, hash| {
            items.push((item, hash));
            !self.stop.is_set()
        })?;
        if self.stop.is_set() { Err(MoveError::Interrupted) } else { Ok(items) }
    }

    /// Fetches data sets to files, as `inhaul get` does: see [`GetBuilder`].
    ///
    /// # Errors
    /// When a source is no address.
    pub fn get(&self, sources: &[&str], destination: impl Into<PathBuf>) -> Result<GetBuilder, MoveError> {
        let requests = sources.iter().map(|source| Ok(self.parse(source)?.into())).collect::<Result<_, MoveError>>()?;
        Ok(GetBuilder::new(&self.options, requests, destination.into()))
    }

    /// Sends files to a server, as `inhaul put` does: see [`PutBuilder`].
    ///
    /// # Errors
    /// When the destination is no address.
    pub fn put(&self, paths: Vec<PathBuf>, destination: &str) -> Result<PutBuilder, MoveError> {
        let shown = before_ticket(destination);
        let mut parsed: Destination =
            destination.parse().map_err(|error| MoveError::Usage(format!("{shown}: {error}")))?;
        self.lend([&mut parsed.server])?;
        Ok(PutBuilder::new(&self.options, paths, parsed))
    }

    /// A source, with this client's tickets for its servers.
    fn parse(&self, source: &str) -> Result<Source, MoveError> {
        let shown = before_ticket(source);
        let mut parsed: Source = source.parse().map_err(|error| MoveError::Usage(format!("{shown}: {error}")))?;
        self.lend(&mut parsed.mirrors)?;
        Ok(parsed)
    }

    fn lend<'s>(&self, servers: impl IntoIterator<Item = &'s mut Server>) -> Result<(), MoveError> {
        self.tickets.lend(servers, NamedBy::Others).map_err(|error| MoveError::Usage(error.to_string()))
    }
}

/// An address without its secret, the text behind the '#'.
fn before_ticket(address: &str) -> &str {
    address.split('#').next().unwrap_or_default()
}

impl ClientBuilder {
    /// The directory of this user's key and of the servers that are known, as `INHAUL_STATE` names it for the command
    /// line. Without one nothing is remembered, and the client's key is a new one each time.
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.trust().state = Some(State::at(directory));
        self
    }

    /// The directory that the command line uses: `$INHAUL_STATE`, or the one of this user.
    pub fn user_state(mut self) -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        self.trust().state = Some(set("INHAUL_STATE").map_or_else(|| State::find(set), State::at));
        self
    }

    /// Unknown servers are trusted, and remembered if there is a [state](Self::state). Addresses with a ticket need
    /// none of this.
    pub fn accept_new(mut self) -> Self {
        self.trust().unknown = UnknownServer::Remember;
        self
    }

    /// Servers are believed that show a certificate of these authorities: a PEM file, or `system`.
    pub fn ca(mut self, ca: &str) -> Self {
        self.trust().ca = Some(if ca == "system" { Ca::System } else { Ca::File(ca.into()) });
        self
    }

    /// Tickets for servers whose addresses have none, so that no secret need stand in an address: `HOST[:PORT]#TICKET`, or
    /// a whole address that `inhaul token make` has printed, is shown to the server of this name; `FINGERPRINT.TOKEN` to
    /// the server with this key. There may be several, with blanks between them; each call adds to those before.
    pub fn ticket(mut self, ticket: &str) -> Self {
        self.tickets.push(ticket.to_owned());
        self
    }

    /// The same, from a file that only its owner may read. It may have several lines.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_files.push(path.into());
        self
    }

    /// Data may go in the clear, if the server agrees: for trusted circuits.
    pub fn plaintext(mut self) -> Self {
        self.trust().plaintext = true;
        self
    }

    /// Servers are reached through this proxy: `http://HOST:PORT` or `socks5://HOST:PORT`.
    pub fn proxy(mut self, proxy: &str) -> Self {
        self.proxy = Some(proxy.to_owned());
        self
    }

    /// The transport protocol, by its name; `inhaul protocols` lists them.
    pub fn transport(mut self, name: &str) -> Self {
        name.clone_into(&mut self.net().transport);
        self
    }

    /// A parameter of the transport protocol.
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.net().parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How much this client takes beside others' traffic. [`Policy::Fixed`] holds the [receive rate](Self::receive_rate),
    /// which has to be given with it. Only for the transport `gtp`.
    pub fn policy(self, policy: Policy) -> Self {
        self.parameter(Policy::PARAMETER, policy.name())
    }

    /// Limit on the rate that this client receives from all senders together.
    pub fn receive_rate(mut self, rate: Bitrate) -> Self {
        self.options.receive_rate = Some(rate);
        self
    }

    /// Limit on the rate that it receives from each sender.
    pub fn rate(mut self, rate: Bitrate) -> Self {
        self.options.rate = Some(rate);
        self
    }

    /// Size of the largest IP packet; without it, that of the interface, at most 9000.
    pub fn mtu(mut self, bytes: u16) -> Self {
        self.net().mtu = Some(bytes);
        self
    }

    /// Whether data may go over TLS streams where UDP does not pass.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.net().fallback = fallback;
        self
    }

    /// Caches read data in this directory, so that it is not requested again: at most `bytes_max` on the disk, 64 MiB
    /// or more. The least recently used data is evicted. Processes of one user may share it. Cached data was proven
    /// when it came, and is checked again before it is handed out. It is valid for the same servers and the same
    /// description of the data set, sizes and times included; for pinned files it is valid for their hashes, with any
    /// server.
    pub fn cache(mut self, directory: impl Into<PathBuf>, bytes_max: u64) -> Self {
        self.options.cache = Some(CacheOptions { directory: directory.into(), bytes_max });
        self
    }

    /// How long to wait for servers that cannot be reached: by default half a minute.
    pub fn retry_for(mut self, patience: Duration) -> Self {
        self.options.retry_for = Span::from_nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        self
    }

    /// Makes the client, and starts its data thread.
    ///
    /// # Errors
    /// When an option makes no sense, a ticket does not say which server it is for, or the system has no sockets or
    /// threads.
    pub fn build(mut self) -> Result<Client, MoveError> {
        if let Some(proxy) = self.proxy.take() {
            let parsed: Result<Proxy, _> = proxy.parse();
            self.trust().proxy =
                Some(parsed.map_err(|error| MoveError::Usage(without_secrets(&format!("{proxy}: {error}"))))?);
        }
        let mut texts = self.tickets;
        for path in &self.token_files {
            let read = read_secret(path, TOKENS_BYTES_MAX);
            texts.push(read.map_err(|error| MoveError::Usage(format!("a file of tokens: {error}")))?);
        }
        let mut tickets = Tickets::default();
        for text in texts {
            let more: Result<Tickets, TicketsError> = text.parse();
            let more = more.and_then(|more| if more.has_bare_token() { Err(TicketsError::NoServer) } else { Ok(more) });
            tickets = tickets.and(more.map_err(|error| MoveError::Usage(error.to_string()))?);
        }
        Ok(Client { reader: Reader::start(self.options.clone())?, stop: Stop::new(), options: self.options, tickets })
    }

    fn net(&mut self) -> &mut NetOptions {
        &mut self.options.net
    }

    fn trust(&mut self) -> &mut Trust {
        &mut self.options.net.trust
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_identity::{Fingerprint, Grant, Rights, Scope, Token, TokenId, UnixTime};

    fn token() -> String {
        let grant = Grant { rights: Rights::ALL, scope: Scope::all() };
        Token::make(&[1; 32], TokenId::default(), grant, UnixTime::MAX, None).to_secret_text()
    }

    #[test]
    fn tickets_are_for_the_servers_that_they_name() {
        let (key, token) = (Fingerprint::of(b"dtn1"), token());
        let client = Client::builder().ticket(&format!("dtn1#{key}.{token} dtn3:9#.{token}")).build().unwrap();
        let shown = |source: &str| {
            let parsed = client.parse(source).unwrap();
            parsed.mirrors.iter().map(|server| server.ticket.token.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(shown("inhaul://dtn1,dtn2,dtn3:9,dtn3/x"), [true, false, true, false]);
        assert_eq!(client.parse("inhaul://dtn1/x").unwrap().mirrors[0].ticket.fingerprint, Some(key));
    }

    #[test]
    fn a_token_that_names_no_server_is_refused_and_not_shown() {
        let token = token();
        for text in [token.clone(), format!(".{token}"), format!("{token}x"), String::new()] {
            let error = Client::builder().ticket(&text).build().err().unwrap().to_string();
            assert!(!error.contains(&token), "{error}");
        }
        let missing = Client::builder().token_file("/no/such/file").build().err().unwrap().to_string();
        assert!(missing.contains("/no/such/file"), "{missing}");
    }
}
