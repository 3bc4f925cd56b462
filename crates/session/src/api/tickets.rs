//! Tickets that come from elsewhere than an address: from a file or a variable, so that no secret stands on a command
//! line.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use inhaul_identity::{Ticket, Token};

use crate::api::source::{Server, part_tickets};

/// Most tickets in one text.
const TICKETS_MAX: usize = 256;

/// Tickets, each for one server. They are secrets: `Debug` shows none of them.
///
/// The text has one a line or word: `HOST[:PORT]#TICKET` or a whole address, which is for the server of that name;
/// `FINGERPRINT.TOKEN`, which is for the server with that key; or `TOKEN` alone, which does not say whom it is for.
/// Lines that begin with `#` are comments.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tickets {
    tickets: Vec<For>,
}

/// A ticket, and the server that it is for if it says so by name.
#[derive(Clone, PartialEq, Eq)]
struct For {
    server: Option<Server>,
    ticket: Arc<Ticket>,
}

/// Why a text gives no tickets, or why they are for none of the servers. What it says has no secret in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketsError {
    /// A word is none.
    #[error("line {0} is no ticket: write HOST[:PORT]#TICKET, FINGERPRINT.TOKEN or TOKEN")]
    Malformed(usize),
    /// There are too many.
    #[error("there are more than {TICKETS_MAX} tickets")]
    TooMany,
    /// There is none.
    #[error("there is no ticket in it")]
    Empty,
    /// A ticket does not say which server it is for, and there are several.
    #[error("a ticket does not say which of several servers it is for: write it as HOST[:PORT]#TICKET")]
    WhichServer,
    /// A token does not say which server it is for, and who named the server may not be who has the token.
    #[error("a token does not say which server it is for: write it as HOST[:PORT]#.TOKEN or FINGERPRINT.TOKEN")]
    NoServer,
}

/// Who has named the servers that tickets are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The user who gives the tickets, for this one time: a token that does not say whom it is for is for the one
    /// server.
    User,
    /// Perhaps somebody else, as in a list of files: each ticket has to say whom it is for.
    Others,
}

impl Tickets {
    /// Gives each of `servers` whose address has no token the ticket that is for it. The servers that none is for stay
    /// as they are.
    ///
    /// # Errors
    /// When a ticket does not say whom it is for, and `named_by` and `servers` do not tell.
    pub fn lend<'s>(
        &self,
        servers: impl IntoIterator<Item = &'s mut Server>,
        named_by: NamedBy,
    ) -> Result<(), TicketsError> {
        let mut servers: Vec<&mut Server> = servers.into_iter().collect();
        let is_one = servers.windows(2).all(|two| two[0] == two[1]);
        let open = servers.iter_mut().filter(|server| server.ticket.token.is_none());
        for server in open {
            if let Some(ticket) = self.for_server(server, is_one, named_by)? {
                server.ticket = ticket;
            }
        }
        Ok(())
    }

    fn for_server(
        &self,
        server: &Server,
        is_one: bool,
        named_by: NamedBy,
    ) -> Result<Option<Arc<Ticket>>, TicketsError> {
        let pinned = server.ticket.fingerprint;
        // One with another key's fingerprint is for another server, whatever its name.
        let fits = |ticket: &Ticket| pinned.is_none() || ticket.fingerprint.is_none() || ticket.fingerprint == pinned;
        let mut of_it = self.tickets.iter().filter(|entry| fits(&entry.ticket));
        let by_name = of_it.clone().find(|entry| entry.server.as_ref() == Some(server));
        let by_key =
            || of_it.clone().find(|e| e.server.is_none() && pinned.is_some() && e.ticket.fingerprint == pinned);
        let found = match by_name.or_else(by_key) {
            Some(found) => found,
            None => match of_it.find(|entry| entry.server.is_none()) {
                None => return Ok(None),
                Some(entry) if entry.ticket.fingerprint.is_none() && named_by == NamedBy::Others => {
                    return Err(TicketsError::NoServer);
                }
                Some(_) if !is_one => return Err(TicketsError::WhichServer),
                Some(entry) => entry,
            },
        };
        let fingerprint = pinned.or(found.ticket.fingerprint);
        Ok(Some(Arc::new(Ticket { fingerprint, token: found.ticket.token.clone() })))
    }

    /// Whether a ticket says neither by name nor by key which server it is for.
    pub fn has_bare_token(&self) -> bool {
        self.tickets.iter().any(|entry| entry.server.is_none() && entry.ticket.fingerprint.is_none())
    }

    /// The tickets of both.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.tickets.extend(others.tickets);
        self
    }
}

impl FromStr for Tickets {
    type Err = TicketsError;

    fn from_str(text: &str) -> Result<Self, TicketsError> {
        let mut tickets = Vec::new();
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.starts_with('#')) {
            for word in line.split_whitespace() {
                if tickets.len() == TICKETS_MAX {
                    return Err(TicketsError::TooMany);
                }
                tickets.push(read(word).ok_or(TicketsError::Malformed(number))?);
            }
        }
        if tickets.is_empty() { Err(TicketsError::Empty) } else { Ok(Self { tickets }) }
    }
}

/// Reads one ticket, with or without the server that it is for.
fn read(word: &str) -> Option<For> {
    let (address, ticket) = part_tickets(word);
    if let Some(ticket) = ticket {
        let host = address.strip_prefix("inhaul://").unwrap_or(address).split('/').next()?;
        let ticket: Ticket = ticket.parse().ok()?;
        return Some(For { server: Some(host.parse().ok()?), ticket: Arc::new(ticket) });
    }
    let whole = || word.parse::<Ticket>().ok().filter(|ticket| !ticket.is_empty());
    let token = || word.parse::<Token>().ok().map(|token| Ticket { fingerprint: None, token: Some(token) });
    let ticket = whole().or_else(token)?;
    Some(For { server: None, ticket: Arc::new(ticket) })
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tickets", self.tickets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_identity::{Fingerprint, Grant, Right, Rights, Scope, TokenId, UnixTime};

    fn token(name: &str) -> String {
        let grant = Grant { rights: Rights::only(Right::Read), scope: Scope::new(name).unwrap() };
        Token::make(&[1; 32], TokenId::default(), grant, UnixTime::MAX, None).to_secret_text()
    }

    fn lent(text: &str, servers: &[&str], named_by: NamedBy) -> Result<Vec<Ticket>, TicketsError> {
        let mut servers: Vec<Server> = servers.iter().map(|server| server.parse().unwrap()).collect();
        text.parse::<Tickets>()?.lend(&mut servers, named_by)?;
        Ok(servers.iter().map(|server| Ticket::clone(&server.ticket)).collect())
    }

    #[test]
    fn a_ticket_goes_to_the_server_that_it_names_and_to_no_other() {
        let [t, u] = ["t", "u"].map(token);
        let [a, b] = [b"a", b"b"].map(|key| Fingerprint::of(key));
        let ticket = |text: String| text.parse::<Ticket>().unwrap();
        let none = Ticket::default();
        let by_name = lent(&format!("# mine\ninhaul://x/run#{a}.{t}\ny:9#.{u}\n"), &["x", "y:9", "z"], NamedBy::Others);
        assert_eq!(by_name.unwrap(), [ticket(format!("{a}.{t}")), ticket(format!(".{u}")), none.clone()]);
        // A key decides where it is known, and a token of its own stays.
        let by_key =
            lent(&format!("{a}.{t}"), &[&format!("x#{a}"), &format!("y#{b}"), &format!("z#.{u}")], NamedBy::Others);
        assert_eq!(by_key.unwrap(), [ticket(format!("{a}.{t}")), ticket(b.to_string()), ticket(format!(".{u}"))]);
        let other_key = lent(&format!("x#{a}.{t}"), &[&format!("x#{b}")], NamedBy::User);
        assert_eq!(other_key.unwrap(), [ticket(b.to_string())]);
        let other_port = lent(&format!("x#{a}.{t}"), &["x:1"], NamedBy::User);
        assert_eq!(other_port.unwrap(), [none]);
    }

    #[test]
    fn a_ticket_that_names_nobody_is_for_the_one_server_of_the_command() {
        let t = token("t");
        let a = Fingerprint::of(b"a");
        let only_token = Ticket { fingerprint: None, token: Some(t.parse().unwrap()) };
        for text in [t.clone(), format!(".{t}")] {
            assert_eq!(lent(&text, &["x", "x"], NamedBy::User).unwrap(), [only_token.clone(), only_token.clone()]);
            assert_eq!(lent(&text, &["x", "y"], NamedBy::User), Err(TicketsError::WhichServer));
            assert_eq!(lent(&text, &["x"], NamedBy::Others), Err(TicketsError::NoServer));
        }
        // The server has to show that key before it is shown the token.
        let pinned = lent(&format!("{a}.{t}"), &["x"], NamedBy::Others).unwrap();
        assert_eq!(pinned, [Ticket { fingerprint: Some(a), ..only_token }]);
    }

    #[test]
    fn nothing_of_a_secret_is_in_what_is_shown() {
        let t = token("t");
        let tickets: Tickets = t.parse().unwrap();
        assert!(tickets.has_bare_token() && !format!("{tickets:?}").contains(&t));
        for (text, error) in [
            (format!("\n{t}x"), TicketsError::Malformed(2)),
            (format!("x y#{t}"), TicketsError::Malformed(1)),
            ("# none".to_owned(), TicketsError::Empty),
            (format!("{t}\n").repeat(TICKETS_MAX + 1), TicketsError::TooMany),
        ] {
            assert_eq!(text.parse::<Tickets>(), Err(error));
            assert!(!error.to_string().contains(&t));
        }
    }
}
