//! `inhaul token`: rights for others, as text.

use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use inhaul_base::byte_text::{bytes_of, quoted};
use inhaul_identity::audit::Event;
use inhaul_identity::{
    AuthorizedKeys, Book, BookError, Delegated, DelegatedList, Grant, Key, Made, NameLeftOut, Right, Rights, Scope,
    State, Ticket, Token, TokenError, TokenId,
};
use inhaul_mover::{DEFAULT_PORT, ErrorKind, Server, ServerIdentity, Source};
use serde::Serialize;

use crate::exit::{Failure, code};
use crate::options::{self, Advertised, OUTPUT};
use crate::output::{announce, to_json};
use crate::own_address::own_address;
use crate::running;
use crate::trust::{audit, now, state};

pub(crate) const MAKE_EXAMPLES: &str = "\
Run it as the user of the server, on its host. It prints an address with the rights in it:
anyone who has the address has the rights. PATH is that of addresses: /NAME/PATH of an
offered directory; with --write and --copy, a path beneath the directory of --accept-puts.

Examples:
  Two days of reading /data/run-42:
    inhaul token make --read /data/run-42 --until 2d
  Puts into 'incoming' until next week:
    inhaul token make --write /incoming --until 1w --label 'for Ann'";

pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  The tokens that are good now:
    inhaul token list";

pub(crate) const REVOKE_EXAMPLES: &str = "\
Examples:
  Take back what was given; sessions that are open end within some seconds:
    inhaul token revoke 3f2a90c1d4e5b687";

/// Heading of the options of a token.
const TOKEN: &str = "Token options";
/// The longest life of a token.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// The command line of `inhaul token`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    /// Make a token, and print the address that has it
    #[command(after_help = MAKE_EXAMPLES)]
    Make(Make),
    /// List the tokens that are good
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Revoke a token
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(Revoke),
}

/// The command line of `inhaul token make`.
#[derive(Debug, Args)]
pub(crate) struct Make {
    /// Allow listing and fetching everything beneath PATH
    #[arg(long, value_name = "PATH", value_parser = path_parser(), help_heading = TOKEN)]
    read: Option<String>,
    /// Allow puts to beneath PATH
    #[arg(long, value_name = "PATH", value_parser = path_parser(), help_heading = TOKEN)]
    write: Option<String>,
    /// Allow copies from other servers to beneath PATH
    #[arg(long, value_name = "PATH", value_parser = path_parser(), help_heading = TOKEN)]
    copy: Option<String>,
    /// How long it is good: a number with s, m, h, d or w behind it
    #[arg(long, value_name = "TIME", default_value = "2d", value_parser = lifetime, help_heading = TOKEN)]
    until: u64,
    /// What to remember it by in the list
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = TOKEN)]
    label: String,
    /// The server's name and port in the address [default: those of the server that runs here, or an address of this host and port 4321]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = options::advertised, help_heading = TOKEN)]
    server: Option<Advertised>,
}

/// The command line of `inhaul token list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print one JSON object for each token (docs/json.md)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// The command line of `inhaul token revoke`.
#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The names of the tokens, as 'inhaul token list' shows them
    #[arg(required = true, value_name = "NAME")]
    names: Vec<TokenId>,
}

/// What `list --json` prints of a token.
#[derive(Serialize)]
pub(crate) struct Listed<'m> {
    /// Its name.
    name: String,
    /// Its rights.
    rights: String,
    /// Where.
    path: String,
    /// It is good until then, as RFC 3339 writes times.
    end: String,
    /// What to remember it by.
    label: &'m str,
}

pub(crate) fn run(command: &Tokens) -> Result<(), Failure> {
    match command {
        Tokens::Make(args) => make(args),
        Tokens::List(args) => list(args),
        Tokens::Revoke(args) => revoke(args),
    }
}

fn make(args: &Make) -> Result<(), Failure> {
    let running = running::find(&state().running());
    let read = args.read.as_ref().map(|path| path_in_full(path, running.as_ref()));
    let given = [(Right::Read, &read), (Right::Write, &args.write), (Right::Copy, &args.copy)];
    let mut grant: Option<Grant> = None;
    for (right, path) in given.into_iter().filter_map(|(right, path)| Some((right, path.as_ref()?))) {
        let scope = Scope::new(path).map_err(|error| Failure::usage(format!("'{path}': {error}")))?;
        let rights = grant.as_ref().map_or(Rights::NONE, |grant| grant.rights).with(right);
        if grant.is_some_and(|grant| grant.scope != scope) {
            return Err(Failure::usage("a token is for one path: make one for each"));
        }
        grant = Some(Grant { rights, scope });
    }
    let Some(grant) = grant else { return Err(Failure::usage("name a right: --read, --write or --copy")) };
    let (key, _) = Key::load_or_make(&state().server_key())?;
    let made = Made { grant, end: now().plus(args.until), label: args.label.clone() };
    let token = issue(&key, &made)?;
    let running = running.and_then(|source| source.mirrors.into_iter().next());
    let port = running.as_ref().map_or(DEFAULT_PORT, |server| server.port);
    let given = args.server.as_ref().map(|server| server.at(port));
    let server = given.or(running).unwrap_or_else(|| Server::new(own_address(), port));
    let ticket = Ticket { fingerprint: Some(key.fingerprint()), token: Some(token) };
    announce(&address(server, &made.grant.scope.to_string(), &ticket));
    Ok(())
}

/// The path of a right to read. It begins with the name of an offered directory, so that it keeps its meaning when
/// further directories are offered. The running server knows whether the name was omitted.
fn path_in_full(path: &str, running: Option<&Source>) -> String {
    if path.split('/').all(str::is_empty) {
        return path.to_owned();
    }
    match running {
        Some(running) if running.path.is_empty() => path.to_owned(),
        Some(running) => NameLeftOut::new(running.path.as_str()).path_in_full(path),
        None => {
            let first = path.split('/').find(|part| !part.is_empty()).map(text_for_people).unwrap_or_default();
            log::warn!(
                "no server of this user runs here: make sure that '{first}' is the name of an offered \
            directory"
            );
            path.to_owned()
        }
    }
}

fn text_for_people(text: &str) -> String {
    inhaul_mover::printable(&bytes_of(text))
}

/// The address with a ticket: no shell changes it.
fn address(server: Server, path: &str, ticket: &Ticket) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-._~/+,:=@".contains(c);
    let bare = Source { mirrors: vec![Server { ticket: Arc::default(), ..server }], path: String::new() };
    let path = quoted(&bytes_of(path.trim_start_matches('/')), |c| !is_plain(c));
    format!("{bare}{path}#{}", ticket.to_secret_text())
}

fn path_parser() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| options::path(&text))
}

/// Makes a token, and writes down that it was made.
pub(crate) fn issue(key: &Key, made: &Made) -> Result<Token, Failure> {
    let state = state();
    let id = TokenId::random().map_err(|error: TokenError| failure(&error))?;
    Book::add(&state.tokens(), id, made).map_err(|error: BookError| failure(&error))?;
    audit(
        &state,
        &Event::Token { what: "made", token: id.to_string(), gives: format!("{} until {}", made.grant, made.end) },
    );
    Ok(again(key, id, made))
}

/// The same token as before: it contains only its name and its rights.
pub(crate) fn again(key: &Key, id: TokenId, made: &Made) -> Token {
    Token::make(&ServerIdentity::token_secret(key), id, made.grant.clone(), made.end, None)
}

fn list(args: &List) -> Result<(), Failure> {
    let state = state();
    let book = Book::load(&state.tokens()).map_err(|error| failure(&error))?;
    let asked_for = asked_for(&state, &book)?;
    for (id, made) in book.good(now()).map(|(id, made)| (id, made.clone())).chain(asked_for) {
        let Made { grant: Grant { rights, scope }, end, label } = &made;
        if args.json {
            let (name, rights, path, end) = (id.to_string(), rights.to_string(), scope.to_string(), end.to_string());
            announce(&to_json(&Listed { name, rights, path, end, label }));
        } else {
            announce(format!("{id}  {rights}  {scope}  until {end}  {label}").trim_end());
        }
    }
    Ok(())
}

/// The tokens that clients have asked for and that are good: each ends with the right of its client's key.
fn asked_for(state: &State, book: &Book) -> Result<Vec<(TokenId, Made)>, Failure> {
    let list = DelegatedList::load(&state.delegated()).map_err(|error| failure(&error))?;
    let keys = AuthorizedKeys::load(&state.authorized_keys()).map_err(|error| failure(&error))?;
    let has_right = |token: &&Delegated| {
        let may = |grant: &Grant| grant.rights.has(Right::Read) && token.grant.scope.and(&grant.scope).is_some();
        keys.grants_of(token.source).iter().any(may)
    };
    let good = list.good(now()).filter(|token| !book.is_revoked(token.id)).filter(has_right);
    let listed = |token: &Delegated| {
        let label = format!("for the host {}, as long as {} has this right", token.holder, token.source);
        (token.id, Made { grant: token.grant.clone(), end: token.end, label })
    };
    Ok(good.map(listed).collect())
}

fn revoke(args: &Revoke) -> Result<(), Failure> {
    let state = state();
    for id in &args.names {
        let book = Book::load(&state.tokens()).map_err(|error| failure(&error))?;
        let asked_for = DelegatedList::load(&state.delegated()).map_err(|error| failure(&error))?;
        if !book.knows(*id) && !asked_for.knows(*id) {
            log::warn!("{id} is not in the list of tokens: it is revoked anyway");
        }
        Book::revoke(&state.tokens(), *id).map_err(|error| failure(&error))?;
        audit(&state, &Event::Token { what: "revoked", token: id.to_string(), gives: String::new() });
    }
    Ok(())
}

fn failure(error: &dyn std::error::Error) -> Failure {
    Failure::new(code(ErrorKind::Internal), error.to_string())
}

/// A time like 2d, in seconds.
fn lifetime(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time: write a number with s, m, h, d or w behind it, up to ten years");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_has_the_documented_fields() {
        let [name, rights, path, end] = ["1", "read", "/", "2026-11-24T12:00:00Z"].map(str::to_owned);
        crate::documented::assert_documented(
            "The tokens of token list",
            &Listed { name, rights, path, end, label: "for Ann" },
        );
    }

    #[test]
    fn lifetime_takes_units() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("2h", 7200), ("2d", 172_800), ("1w", 604_800)] {
            assert_eq!(lifetime(text), Ok(seconds));
        }
        for text in ["", "5", "d", "-1d", "0d", "11000d", "99999999999999999999d", "2 d", "1y"] {
            assert!(lifetime(text).is_err(), "{text}");
        }
    }
}
