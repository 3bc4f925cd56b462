//! Keeps secrets out of messages: what stands behind the `#` of an address, tokens, passwords of proxies.

use inhaul_identity::{Ticket, Token};

/// What is shown in a secret's place.
const HIDDEN: &str = "...";
/// Words of our own that stand behind a `#` in messages that say how to write an address.
const OWN_WORDS: [&str; 3] = ["TICKET", ".TOKEN", "FINGERPRINT"];
/// No token is shorter.
const TOKEN_CHARS_MIN: usize = 64;

/// A message without the tickets, tokens and passwords that it quotes.
pub fn without_secrets(message: &str) -> String {
    hide(message, false)
}

/// A message about words that a user has written, which may be anything: of no word is shown what stands behind a `#`,
/// whether or not it is a ticket.
pub fn without_tickets(message: &str) -> String {
    hide(message, true)
}

fn hide(message: &str, whatever_it_is: bool) -> String {
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(next) = rest.chars().next() {
        let secret = match next {
            '#' => behind_hash(&rest[1..], whatever_it_is).map(|len| ("#", len)),
            ':' => user_of(rest).map(|len| ("://", len)),
            _ => None,
        };
        if let Some((kept, len)) = secret {
            shown.push_str(kept);
            shown.push_str(HIDDEN);
            rest = &rest[kept.len() + len..];
            continue;
        }
        let run = rest.find(|c| !is_of_ticket(c)).unwrap_or(rest.len()).max(next.len_utf8());
        let word = &rest[..run];
        shown.push_str(if holds_token(word) { HIDDEN } else { word });
        rest = &rest[run..];
    }
    shown
}

/// The length of what is secret at the beginning of `text`, which stands behind a `#`.
fn behind_hash(text: &str, whatever_it_is: bool) -> Option<usize> {
    let word = text.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"')).unwrap_or(text.len());
    if word == 0 || OWN_WORDS.iter().any(|own| text.starts_with(own)) {
        return None;
    }
    let ticket = text.find(|c| c != ',' && !is_of_ticket(c)).unwrap_or(text.len());
    let is_ticket = |text: &str| text.parse::<Ticket>().is_ok_and(|ticket| !ticket.is_empty());
    let whole = whatever_it_is.then_some(word);
    whole.or_else(|| text[..ticket].split(',').any(is_ticket).then_some(ticket))
}

/// The length of the user's name and password behind the `://` that `text` begins with.
fn user_of(text: &str) -> Option<usize> {
    let authority = text.strip_prefix("://")?;
    let end = authority.find(|c: char| c.is_whitespace() || matches!(c, '/' | '\'' | '"')).unwrap_or(authority.len());
    authority[..end].rfind('@')
}

/// A token, alone or in a ticket.
fn holds_token(word: &str) -> bool {
    word.len() >= TOKEN_CHARS_MIN && word.split('.').any(|part| part.parse::<Token>().is_ok())
}

fn is_of_ticket(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_identity::{Fingerprint, Grant, Rights, Scope, TokenId, UnixTime};

    #[test]
    fn nothing_that_gives_rights_is_shown() {
        let grant = Grant { rights: Rights::ALL, scope: Scope::all() };
        let token = Token::make(&[1; 32], TokenId::default(), grant, UnixTime::MAX, None).to_secret_text();
        let key = Fingerprint::of(b"key");
        for (message, shown) in [
            (format!("'inhaul://a/x#{key}.{token}' is one too many"), "'inhaul://a/x#...' is one too many"),
            (format!("a#{key},.{token} b#.{token} no"), "a#... b#... no"),
            (format!("{token}: No such file"), "...: No such file"),
            (format!("'.{token}' and '{key}.{token}'"), "'...' and '...'"),
            ("http://ann:word@proxy:1/x and a@b".to_owned(), "http://...@proxy:1/x and a@b"),
        ] {
            assert_eq!(without_secrets(&message), shown);
            assert_eq!(without_tickets(&message), shown);
        }
        // One that was copied in part is no ticket, but a part of a secret.
        let part = format!("'a/x#{key}.{}' is no source", &token[1..]);
        assert_eq!(without_tickets(&part), "'a/x#...' is no source");
        for message in ["a '#' of the path is written %23", "write HOST[:PORT]#TICKET or HOST#.TOKEN: é", "a#"] {
            assert_eq!(without_tickets(message), message);
        }
        assert_eq!(without_secrets("'/run#7/a' is not there"), "'/run#7/a' is not there");
    }
}
