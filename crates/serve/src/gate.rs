//! Who may do what at a server: by what everybody may, by the client's key, by its token.

use std::borrow::Cow;
use std::fs::Metadata;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use inhaul_base::byte_text::{bytes_of, quoted};
use inhaul_identity::audit::{Access, Event};
use inhaul_identity::{
    AuthorizedKeys, Book, Caveats, Delegated, DelegatedList, Fingerprint, Grant, NameLeftOut, Right, Rights, Scope,
    State, Token, TokenError, TokenId, UnixTime,
};
use inhaul_store::printable;

use crate::audit::{Audit, now};
use inhaul_session::api::error::MoveError;
use inhaul_session::api::trust::ServerIdentity;
use inhaul_session::session::frame::RefusalCode;
use inhaul_session::session::refusal::{GreetingError, refused};
use inhaul_session::session::tls::ServerTls;

/// How long a token is good that lets another host fetch for a client, which is authorised by its key: a copy takes
/// that long at most.
const DELEGATED_SECONDS: u64 = 7 * 86_400;
/// How much of that may have passed when it is given again.
const DELEGATED_AGE_SECONDS: u64 = 86_400;
/// What a client does that has shown no right.
const TICKET: &str = "use the whole address that the server prints, with the ticket behind its '#'";
/// Most characters of a path in a refusal.
const PATH_SHOWN: usize = 200;

/// A client, as far as it has shown who it is.
#[derive(Clone, Debug)]
pub struct Caller {
    pub address: SocketAddr,
    /// The fingerprint of the key that it has proven to have.
    pub(crate) key: Option<Fingerprint>,
    pub(crate) token: Option<Token>,
    /// The name that may be left out of paths to read, if there is one.
    pub(crate) name_left_out: Option<Arc<NameLeftOut>>,
}

impl Caller {
    /// The path of a request, as scopes are compared with it.
    fn path_in_full<'p>(&self, right: Right, path: &'p str) -> Cow<'p, str> {
        match &self.name_left_out {
            Some(name) if right == Right::Read => name.path_in_full(path).into(),
            _ => path.into(),
        }
    }

    /// What to know about a right to read that is for nothing of what is offered.
    fn about_scopes(&self, right: Right, scopes: &[&Scope]) -> String {
        match &self.name_left_out {
            Some(name) if right == Right::Read && scopes.iter().all(|scope| !name.begins(scope)) => {
                format!("; the path of a right begins with the name of what is offered, '/{}'", name.name())
            }
            _ => String::new(),
        }
    }

    /// The token that it acts by, or else the key, by name; `None`: it has shown neither.
    pub fn name(&self) -> Option<String> {
        let token = self.token.as_ref().map(|token| token.id().to_string());
        token.or_else(|| self.key.map(|key| key.to_string()))
    }

    /// What it wants, for the audit log; `client` is its address.
    pub fn access<'e>(&self, client: &'e str, right: Right, path: &'e str) -> Access<'e> {
        let token = self.token.as_ref().map(|token| token.id().to_string());
        Access { client, key: self.key.map(|key| key.to_string()), token, right: right.name(), path }
    }
}

/// How far a right reaches: to what lies beneath a path, and not to where links in it lead; or, if that is `/`, to
/// everything. It goes with the right down to where paths are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach(Scope);

/// See the module's description.
#[derive(Debug)]
pub struct Gate {
    tls: ServerTls,
    key: Fingerprint,
    public: Rights,
    secret: [u8; 32],
    keys: Option<Watched<AuthorizedKeys>>,
    book: Option<Watched<Book>>,
    /// The file with the tokens that clients have asked for, which one at a time changes.
    delegated: Option<Mutex<PathBuf>>,
    audit: Arc<Audit>,
}

impl Gate {
    /// The gate of a server; its certificate is read now.
    pub fn new(identity: &ServerIdentity, audit: Arc<Audit>) -> Result<Self, MoveError> {
        let state = identity.state.as_ref();
        Ok(Self {
            tls: ServerTls::new(identity)?,
            key: identity.key.fingerprint(),
            public: identity.public,
            secret: ServerIdentity::token_secret(&identity.key),
            keys: state
                .map(State::authorized_keys)
                .map(|path| Watched::new(path, |path| AuthorizedKeys::load(path).map_err(|error| error.to_string()))),
            book: state
                .map(State::tokens)
                .map(|path| Watched::new(path, |path| Book::load(path).map_err(|error| error.to_string()))),
            delegated: state.map(|state| Mutex::new(state.delegated())),
            audit,
        })
    }

    /// What clients are shown.
    pub(crate) fn tls(&self) -> &ServerTls {
        &self.tls
    }

    /// The fingerprint of the server's raw key.
    pub(crate) fn key(&self) -> Fingerprint {
        self.key
    }

    /// Where it is written down what happens.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Whether a client may do this at `path`; a refusal says what right is missing, and why.
    pub(crate) fn check(&self, caller: &Caller, right: Right, path: &str) -> Result<Reach, GreetingError> {
        let decided = self.decide(caller, right, path);
        let (client, shown) = (caller.address.to_string(), printable(&bytes_of(path)));
        let access = caller.access(&client, right, &shown);
        match decided {
            Ok(reach) => {
                self.audit.write(&Event::Granted(access));
                Ok(reach)
            }
            Err(reason) => {
                self.audit.write(&Event::Refused { access, reason: &reason });
                let shown: String = quoted(&bytes_of(path), |_| false).chars().take(PATH_SHOWN).collect();
                let text = format!("the right '{right}' on '{shown}' is missing: {reason}");
                Err(refused(RefusalCode::NoRight, text))
            }
        }
    }

    /// Whether a client that was let in for this may still do it.
    ///
    /// # Errors
    /// Why not; it is written down.
    pub(crate) fn still(&self, caller: &Caller, right: Right, path: &str) -> Result<(), String> {
        self.decide(caller, right, path).map(drop).inspect_err(|reason| {
            let (client, shown) = (caller.address.to_string(), printable(&bytes_of(path)));
            self.audit.write(&Event::Ended { access: caller.access(&client, right, &shown), reason });
        })
    }

    /// Whether a client may do anything at all.
    pub(crate) fn knows(&self, caller: &Caller) -> bool {
        let by_key = |key: &Fingerprint| {
            self.keys.as_ref().is_some_and(|keys| keys.look(|keys| !keys.grants_of(*key).is_empty()).unwrap_or(false))
        };
        let may = match &caller.token {
            Some(token) => self.look_at(token, caller.key).is_ok_and(|good| good.sources.iter().all(by_key)),
            None => caller.key.as_ref().is_some_and(by_key),
        };
        !self.public.is_none() || may
    }

    /// The same; then it may try the path.
    pub(crate) fn check_any(&self, caller: &Caller) -> Result<(), GreetingError> {
        if self.knows(caller) { Ok(()) } else { self.check(caller, Right::Read, "/").map(drop) }
    }

    /// Whether a client may do this; why not.
    fn decide(&self, caller: &Caller, right: Right, path: &str) -> Result<Reach, String> {
        // Where what is offered ends is for others to say.
        if self.public.has(right) {
            return Ok(Reach(Scope::all()));
        }
        let path = &*caller.path_in_full(right, path);
        // Whoever shows a token acts by that alone. A server that copies for a client would lend it its own rights
        // otherwise.
        if let Some(token) = &caller.token {
            let nothing = |why| format!("the token {} gives nothing: {why}", token.id());
            let Good { grant, sources } = self.look_at(token, caller.key).map_err(nothing)?;
            if !grant.allows(right, path) {
                let Grant { rights, scope } = &grant;
                let more = caller.about_scopes(right, &[scope]);
                return Err(format!("the token {} gives '{rights}' on '{scope}' only{more}", token.id()));
            }
            return self.by_sources(caller, &sources, right, path, grant.scope).map_err(nothing);
        }
        let Some(key) = caller.key else {
            return Err(format!("this client has shown neither a key nor a token: {TICKET}"));
        };
        self.by_key(caller, key, right, path).map_err(|why| {
            why.unwrap_or_else(|| {
                format!(
                    "this server does not know this client: {TICKET}. For another, its user runs 'inhaul token make --{right} /PATH', or adds this line to its authorised keys: '{key} {right}=/PATH'"
                )
            })
        })
    }

    /// Whether the clients that have asked for a token still have the right themselves; and how far it reaches then.
    fn by_sources(
        &self,
        caller: &Caller,
        sources: &[Fingerprint],
        right: Right,
        path: &str,
        scope: Scope,
    ) -> Result<Reach, String> {
        sources.iter().try_fold(Reach(scope), |Reach(scope), source| {
            let own = self.by_key(caller, *source, right, path).ok();
            let both = own.and_then(|Reach(own)| own.and(&scope)).map(Reach);
            both.ok_or_else(|| {
                format!("the client that asked for it, with the key {source}, has no such right any more")
            })
        })
    }

    /// What a token gives now, shown by the host with this key.
    fn look_at(&self, token: &Token, key: Option<Fingerprint>) -> Result<Good, String> {
        let verified = token.verify(&self.secret).map_err(|error| error.to_string())?;
        if verified.end <= now() {
            return Err(format!("it has ended on {}", verified.end));
        }
        verified.check_holder(key).map_err(|error| error.to_string())?;
        if let Some(book) = &self.book {
            let is_revoked = book.look(|book| book.is_revoked(token.id()))?;
            if is_revoked {
                return Err("it was revoked".to_owned());
            }
        }
        let grant = verified.grant.ok_or_else(|| "its limits leave nothing".to_owned())?;
        Ok(Good { grant, sources: verified.sources })
    }

    /// Whether the host with this key may, at a path in full; if not, why not, if there is more to say than that it is
    /// not known.
    fn by_key(&self, caller: &Caller, key: Fingerprint, right: Right, path: &str) -> Result<Reach, Option<String>> {
        let Some(keys) = &self.keys else { return Err(None) };
        let grants = keys.look(|keys| keys.grants_of(key).to_vec()).map_err(|_| {
            // What is wrong with the file is for the server's user, who finds it in the log.
            Some("the authorised keys of this server cannot be read".to_owned())
        })?;
        // Of two that allow it, the one that reaches further: both scopes have the path in them.
        let allowed = grants.iter().filter(|grant| grant.allows(right, path)).map(|grant| &grant.scope);
        if let Some(scope) = allowed.min_by_key(|scope| scope.to_string().len()) {
            return Ok(Reach(scope.clone()));
        }
        let scopes: Vec<&Scope> = grants.iter().map(|grant| &grant.scope).collect();
        let more = caller.about_scopes(right, &scopes);
        let given: Vec<String> =
            grants.iter().map(|grant| format!("'{}' on '{}'", grant.rights, grant.scope)).collect();
        Err((!given.is_empty()).then(|| format!("the key {key} has {} only{more}", given.join(", "))))
    }

    /// A token with which the host with the key `holder` may fetch what a client may; `None`: everybody may.
    pub(crate) fn delegate(
        &self,
        caller: &Caller,
        path: &str,
        holder: Fingerprint,
    ) -> Result<Option<Token>, GreetingError> {
        self.check(caller, Right::Read, path)?;
        if self.public.has(Right::Read) {
            return Ok(None);
        }
        let malformed = |error: &dyn std::error::Error| refused(RefusalCode::Malformed, error.to_string());
        let path = &*caller.path_in_full(Right::Read, path);
        let scope = Scope::new(path).map_err(|error| malformed(&error))?;
        let end = now().plus(DELEGATED_SECONDS);
        // One that came by a token hands on less of that, and so its end and its revocation hold.
        let token = match &caller.token {
            Some(token) => {
                let (rights, source) = (Some(Rights::only(Right::Read)), None);
                let less = Caveats { rights, end: Some(end), scope: Some(scope), holder: Some(holder), source };
                token.attenuated(less).map_err(|error: TokenError| malformed(&error))?
            }
            None => {
                let Some(source) = caller.key else { return Err(refused(RefusalCode::NoRight, "there is no key")) };
                let grant = Grant { rights: Rights::only(Right::Read), scope };
                let made = self.record(source, grant, end, holder)?;
                // It ends with the right that it comes from.
                let token = Token::make(&self.secret, made.id, made.grant, made.end, Some(holder));
                let only_while = Caveats { source: Some(source), ..Caveats::default() };
                token.attenuated(only_while).map_err(|error| malformed(&error))?
            }
        };
        let gives = format!("read {path} until {end}, for the host {holder}, asked for by {}", caller.address);
        self.audit.write(&Event::Token { what: "delegated", token: token.id().to_string(), gives });
        Ok(Some(token))
    }
}

impl Gate {
    /// Writes down that a token is made for a client, so that it can be listed and revoked. One that was made for the same
    /// before, and is good for long enough, is taken again: asking often makes no long list.
    fn record(
        &self,
        source: Fingerprint,
        grant: Grant,
        end: UnixTime,
        holder: Fingerprint,
    ) -> Result<Delegated, GreetingError> {
        let failed = |error: &dyn std::error::Error| refused(RefusalCode::Unreadable, error.to_string());
        let id = TokenId::random().map_err(|error| failed(&error))?;
        let made = Delegated { id, grant, end, source, holder };
        let Some(path) = &self.delegated else { return Ok(made) };
        let list = path.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = DelegatedList::load(&list).map_err(|error| failed(&error))?;
        let is_same = |other: &&Delegated| {
            (&other.grant, other.source, other.holder) == (&made.grant, source, holder)
                && other.end.plus(DELEGATED_AGE_SECONDS) >= end
        };
        let revoked = |id| self.book.as_ref().is_some_and(|book| book.look(|book| book.is_revoked(id)).unwrap_or(true));
        if let Some(same) = known.good(now()).filter(is_same).find(|same| !revoked(same.id)) {
            return Ok(same.clone());
        }
        known.add(made.clone(), now()).map_err(|error| refused(RefusalCode::Busy, error.to_string()))?;
        known.save(&list).map_err(|error| failed(&error))?;
        Ok(made)
    }
}

/// What a token gives, as long as those who have asked for it have the right themselves.
struct Good {
    grant: Grant,
    sources: Vec<Fingerprint>,
}

impl Reach {
    /// Whether it reaches everything.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_all()
    }

    /// What it reaches, as a path.
    pub fn scope(&self) -> PathBuf {
        self.0.to_string().into()
    }
}

/// A file that is read again when it has changed.
#[derive(Debug)]
struct Watched<T> {
    path: PathBuf,
    load: fn(&Path) -> Result<T, String>,
    last: Mutex<Option<Version<T>>>,
}

/// A version of a file, `None` for one that was not there, and what was read of it.
type Version<T> = (Option<Stamp>, Result<T, String>);

/// Which version of a file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl From<Metadata> for Stamp {
    fn from(of: Metadata) -> Self {
        Self { inode: of.ino(), len: of.len(), changed: (of.ctime(), of.ctime_nsec()) }
    }
}

impl<T> Watched<T> {
    fn new(path: PathBuf, load: fn(&Path) -> Result<T, String>) -> Self {
        Self { path, load, last: Mutex::default() }
    }

    /// Looks at what is in the file now; what cannot be read says so.
    fn look<R>(&self, at: impl FnOnce(&T) -> R) -> Result<R, String> {
        let stamp = std::fs::metadata(&self.path).ok().map(Stamp::from);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = last.as_ref().is_some_and(|(read, _)| *read == stamp);
        if !is_same {
            let read = (self.load)(&self.path);
            if let Err(error) = &read {
                log::error!("{error}: until that is mended, nobody is let in by {}", self.path.display());
            }
            *last = Some((stamp, read));
        }
        match last.as_ref() {
            Some((_, Ok(value))) => Ok(at(value)),
            Some((_, Err(error))) => Err(error.clone()),
            None => Err(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_identity::{Key, Made};

    struct Server {
        gate: Gate,
        state: State,
        secret: [u8; 32],
        _dir: tempfile::TempDir,
    }

    fn server(public: Rights) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let state = State::at(dir.path());
        let key = Key::random().unwrap();
        let secret = ServerIdentity::token_secret(&key);
        let identity = ServerIdentity { key, certificate: None, state: Some(state.clone()), public, plaintext: false };
        Server { gate: Gate::new(&identity, Arc::default()).unwrap(), state, secret, _dir: dir }
    }

    fn caller(key: Option<Fingerprint>, token: Option<Token>) -> Caller {
        Caller { address: "192.0.2.1:5".parse().unwrap(), key, token, name_left_out: None }
    }

    fn token(server: &Server, path: &str, end: UnixTime) -> Token {
        let grant = Grant { rights: Rights::only(Right::Read), scope: Scope::new(path).unwrap() };
        Token::make(&server.secret, TokenId::random().unwrap(), grant, end, None)
    }

    fn why(result: Result<Reach, GreetingError>) -> String {
        match result.unwrap_err() {
            GreetingError::Refused { code: RefusalCode::NoRight, text } => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strangers_get_nothing_unless_it_is_public() {
        let key = Fingerprint::of(b"somebody");
        let closed = server(Rights::NONE);
        let text = why(closed.gate.check(&caller(Some(key), None), Right::Read, "/run-42"));
        assert!(text.contains("'read' on '/run-42'") && text.contains(&key.to_string()), "{text}");
        let open = server(Rights::only(Right::Read));
        open.gate.check(&caller(None, None), Right::Read, "/run-42").unwrap();
        assert!(open.gate.check(&caller(None, None), Right::Write, "/").is_err());
    }

    #[test]
    fn keys_are_let_in_as_soon_as_their_line_is_there_and_no_longer() {
        let server = server(Rights::NONE);
        let key = Fingerprint::of(b"alice");
        let alice = caller(Some(key), None);
        assert!(server.gate.check(&alice, Right::Read, "/run-42").is_err());
        std::fs::write(server.state.authorized_keys(), format!("{key} read=/run-42 alice\n")).unwrap();
        server.gate.check(&alice, Right::Read, "/run-42/raw").unwrap();
        let text = why(server.gate.check(&alice, Right::Read, "/run-43"));
        assert!(text.contains("has 'read' on '/run-42' only"), "{text}");
        std::fs::write(server.state.authorized_keys(), format!("{key} raed=/run-42 alice\n")).unwrap();
        let text = why(server.gate.check(&alice, Right::Read, "/run-42"));
        assert!(text.contains("cannot be read"), "{text}");
        std::fs::remove_file(server.state.authorized_keys()).unwrap();
        assert!(server.gate.check(&alice, Right::Read, "/run-42").is_err());
    }

    #[test]
    fn tokens_give_what_they_say_until_they_end_or_are_revoked() {
        let server = server(Rights::NONE);
        let good = token(&server, "/run-42", now().plus(100));
        let by = |token: &Token| caller(Some(Fingerprint::of(b"anybody")), Some(token.clone()));
        server.gate.check(&by(&good), Right::Read, "/run-42/x").unwrap();
        for (right, path) in [(Right::Read, "/run-43"), (Right::Write, "/run-42"), (Right::Read, "/run-42/../run-43")] {
            let text = why(server.gate.check(&by(&good), right, path));
            assert!(text.contains("gives 'read' on '/run-42' only"), "{text}");
        }
        let text = why(server.gate.check(&by(&token(&server, "/", UnixTime::from_seconds(1))), Right::Read, "/"));
        assert!(text.contains("has ended on 1970-01-01"), "{text}");
        let bound = Caveats { holder: Some(Fingerprint::of(b"dtn2")), ..Caveats::default() };
        let bound = good.attenuated(bound).unwrap();
        let text = why(server.gate.check(&by(&bound), Right::Read, "/run-42"));
        assert!(text.contains("only for the host with the key"), "{text}");
        let dtn2 = caller(Some(Fingerprint::of(b"dtn2")), Some(bound.clone()));
        server.gate.check(&dtn2, Right::Read, "/run-42").unwrap();
        let made = Made {
            grant: Grant { rights: Rights::only(Right::Read), scope: Scope::all() },
            end: UnixTime::MAX,
            label: String::new(),
        };
        Book::add(&server.state.tokens(), good.id(), &made).unwrap();
        server.gate.check(&by(&good), Right::Read, "/run-42/x").unwrap();
        Book::revoke(&server.state.tokens(), good.id()).unwrap();
        for caller in [by(&good), dtn2] {
            let text = why(server.gate.check(&caller, Right::Read, "/run-42"));
            assert!(text.contains("revoked"), "{text}");
        }
        let forged = Token::make(&[0; 32], good.id(), made.grant, UnixTime::MAX, None);
        assert!(why(server.gate.check(&by(&forged), Right::Read, "/")).contains("not made by this server"));
    }

    #[test]
    fn what_is_handed_on_is_for_one_host_and_no_more_than_there_was() {
        let server = server(Rights::NONE);
        let (alice, dtn2) = (Fingerprint::of(b"alice"), Fingerprint::of(b"dtn2"));
        std::fs::write(server.state.authorized_keys(), format!("{alice} read=/run-42\n")).unwrap();
        assert!(server.gate.delegate(&caller(Some(alice), None), "/run-43", dtn2).is_err());
        let token = server.gate.delegate(&caller(Some(alice), None), "/run-42/raw", dtn2).unwrap();
        let shown = |key| caller(Some(key), token.clone());
        server.gate.check(&shown(dtn2), Right::Read, "/run-42/raw/x").unwrap();
        assert!(server.gate.check(&shown(dtn2), Right::Read, "/run-42/cooked").is_err());
        assert!(server.gate.check(&shown(Fingerprint::of(b"dtn3")), Right::Read, "/run-42/raw/x").is_err());
    }

    #[test]
    fn what_is_handed_on_ends_with_the_right_that_it_comes_from() {
        let server = server(Rights::NONE);
        let (alice, dtn2, dtn3) = (Fingerprint::of(b"alice"), Fingerprint::of(b"dtn2"), Fingerprint::of(b"dtn3"));
        let keys = |line: String| std::fs::write(server.state.authorized_keys(), line).unwrap();
        let delegate = |path: &str, holder| server.gate.delegate(&caller(Some(alice), None), path, holder).unwrap();
        let may = |token: &Option<Token>, path: &str| {
            server.gate.check(&caller(Some(dtn2), token.clone()), Right::Read, path)
        };
        keys(format!("{alice} read=/run-42\n"));
        let token = delegate("/run-42", dtn2);
        assert_eq!(may(&token, "/run-42/raw/x").unwrap().scope(), Path::new("/run-42"));
        // The key has less than before, and so does the token.
        keys(format!("{alice} read=/run-42/raw\n"));
        assert_eq!(may(&token, "/run-42/raw/x").unwrap().scope(), Path::new("/run-42/raw"));
        assert!(may(&token, "/run-42/x").is_err());
        for gone in ["", &format!("{alice} write=/run-42\n"), &format!("{dtn3} read\n")] {
            keys(gone.to_owned());
            assert!(why(may(&token, "/run-42/raw/x")).contains("has no such right any more"));
            assert!(server.gate.check_any(&caller(Some(dtn2), token.clone())).is_err() != gone.contains("write"));
        }
        // It is listed, once however often it is asked for, and can be revoked.
        keys(format!("{alice} read\n"));
        let listed =
            || DelegatedList::load(&server.state.delegated()).unwrap().good(now()).cloned().collect::<Vec<_>>();
        assert_eq!(delegate("/run-42", dtn2), token);
        delegate("/run-42", dtn3);
        assert_eq!(
            listed().iter().map(|made| (made.source, made.holder)).collect::<Vec<_>>(),
            [(alice, dtn2), (alice, dtn3)]
        );
        assert_eq!(token.as_ref().map(Token::id), Some(listed()[0].id));
        Book::revoke(&server.state.tokens(), listed()[0].id).unwrap();
        assert!(why(may(&token, "/run-42")).contains("revoked"));
        assert_ne!(delegate("/run-42", dtn2).unwrap().id(), listed()[0].id, "one that was revoked is not given again");
    }

    #[test]
    fn a_name_that_may_be_left_out_gives_no_other_rights() {
        let server = server(Rights::NONE);
        let (alice, dtn2) = (Fingerprint::of(b"alice"), Fingerprint::of(b"dtn2"));
        let name = Arc::new(NameLeftOut::new("data"));
        let of_data = |caller: Caller| Caller { name_left_out: Some(Arc::clone(&name)), ..caller };
        let may = |caller: &Caller, path: &str| server.gate.check(caller, Right::Read, path).is_ok();
        // A path may have the name in it, or not. A scope has it: it means the same when more is offered.
        let scope = "/data/run";
        let by_token = of_data(caller(None, Some(token(&server, scope, now().plus(100)))));
        std::fs::write(server.state.authorized_keys(), format!("{alice} read={scope} write={scope}\n")).unwrap();
        let by_key = of_data(caller(Some(alice), None));
        for caller in [&by_token, &by_key] {
            assert!(may(caller, "/run/x") && may(caller, "/data/run/x") && may(caller, "run"), "{scope}");
            for path in ["/", "/data", "/runs", "/data/data/run", "/data/runs/x", "/run/../other", "/other/run"] {
                assert!(!may(caller, path), "{scope}: {path}");
            }
        }
        // What is put has nothing to do with what is offered.
        let put = |path: &str| server.gate.check(&by_key, Right::Write, path).is_ok();
        assert!(put(&format!("{scope}/x")) && !put("/run/x"));
        // What is handed on is the same path, in whichever form it is asked for.
        let handed = server.gate.delegate(&by_key, "/run/x", dtn2).unwrap();
        let handed = of_data(caller(Some(dtn2), handed));
        assert!(may(&handed, "/run/x/y") && may(&handed, "/data/run/x") && !may(&handed, "/run/y"), "{scope}");
        // One that has another name was made for something else.
        let short = of_data(caller(None, Some(token(&server, "/run", now().plus(100)))));
        let why = server.gate.check(&short, Right::Read, "/run/x").unwrap_err().to_string();
        assert!(why.contains("begins with the name of what is offered, '/data'"), "{why}");
        let all = of_data(caller(None, Some(token(&server, "/", now().plus(100)))));
        let named = of_data(caller(None, Some(token(&server, "/data", now().plus(100)))));
        assert!(
            may(&all, "/") && may(&all, "/data/x") && may(&named, "/") && may(&named, "/x") && may(&named, "/data/x")
        );
        // The directory 'data' in the directory 'data' is not all of it.
        let inner = of_data(caller(None, Some(token(&server, "/data/data", now().plus(100)))));
        assert!(may(&inner, "/data/data/x") && !may(&inner, "/data") && !may(&inner, "/data/x") && !may(&inner, "/x"));
    }

    #[test]
    fn a_right_carries_its_scope() {
        let server = server(Rights::only(Right::Copy));
        let alice = caller(Some(Fingerprint::of(b"alice")), None);
        let key = Fingerprint::of(b"alice");
        std::fs::write(server.state.authorized_keys(), format!("{key} write=/a/b write=/a read=/c read\n")).unwrap();
        let reach = |right, path: &str| server.gate.check(&alice, right, path).unwrap().scope();
        assert_eq!(reach(Right::Write, "/a/b/x"), Path::new("/a"), "the one that reaches further");
        assert_eq!(reach(Right::Read, "/c"), Path::new("/"));
        assert_eq!(reach(Right::Copy, "/c"), Path::new("/"));
        let token = token(&server, "/run-42", now().plus(100));
        assert_eq!(
            server.gate.check(&caller(None, Some(token)), Right::Read, "/run-42/x").unwrap().scope(),
            Path::new("/run-42")
        );
    }
}
