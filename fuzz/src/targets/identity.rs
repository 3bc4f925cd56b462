//! Keys, tokens and tickets, from peers, command lines and files.

use inhaul_identity::{
    AuthorizedKeys, Book, Caveats, Fingerprint, Grant, Key, KnownHosts, Right, Rights, Scope, Ticket, Token, TokenId,
    UnixTime,
};

use super::samples;

const SECRET: [u8; 32] = [7; 32];

/// A token, in bytes. Only those of the corpus are valid for the secret, after any change.
pub fn token(data: &[u8]) -> bool {
    let Ok(token) = Token::from_bytes(data) else { return false };
    assert_eq!(token.to_bytes(), data, "a token has one form");
    assert_eq!(token.to_secret_text().parse(), Ok(token.clone()));
    if token.verify(&SECRET).is_ok() {
        assert!(tokens().iter().any(|good| good == data), "forged: {token:?}");
    }
    let claims = token.claims();
    // It can be restricted, and never extended.
    let less =
        Caveats { scope: Scope::new("/a/b").ok(), rights: Some(Rights::only(Right::Read)), ..Caveats::default() };
    if let Ok(less) = token.attenuated(less) {
        assert_eq!(Token::from_bytes(&less.to_bytes()), Ok(less.clone()));
        let left = less.claims();
        assert!(left.end <= claims.end && left.holders.len() >= claims.holders.len());
        for (right, path) in
            [(Right::Read, "/a/b"), (Right::Read, "/"), (Right::Write, "/a/b"), (Right::Read, "/a/b/c")]
        {
            let allows = |grant: &Option<Grant>| grant.as_ref().is_some_and(|grant| grant.allows(right, path));
            assert!(!allows(&left.grant) || allows(&claims.grant), "{right} {path}");
        }
    }
    true
}

pub(super) fn tokens() -> Vec<Vec<u8>> {
    let grant = |path: &str| Grant { rights: Rights::ALL, scope: Scope::new(path).unwrap_or_default() };
    let id = TokenId::default();
    let first = Token::make(&SECRET, id, grant("/a"), UnixTime::from_seconds(2_000_000_000), None);
    let holder = Some(Fingerprint::of(b"holder"));
    let bound = Token::make(&SECRET, id, grant("/"), UnixTime::MAX, holder);
    let less =
        Caveats { holder, scope: Scope::new("/a/b").ok(), end: Some(UnixTime::from_seconds(5)), ..Caveats::default() };
    let handed_on = first.attenuated(less).unwrap_or_else(|_| first.clone());
    [first, bound, handed_on].iter().map(Token::to_bytes).collect()
}

/// The part behind the `#` of an address.
pub fn ticket(data: &[u8]) -> bool {
    let Some(ticket) = str::from_utf8(data).ok().and_then(|text| text.parse::<Ticket>().ok()) else { return false };
    assert_eq!(ticket.to_secret_text().parse(), Ok(ticket));
    true
}

pub(super) fn tickets() -> Vec<Vec<u8>> {
    let token = Token::from_bytes(&tokens()[0]).map(|token| token.to_secret_text()).unwrap_or_default();
    let fingerprint = Fingerprint::of(b"server");
    samples::of_texts(&[&format!("{fingerprint}.{token}"), &fingerprint.to_string(), &format!(".{token}")])
}

/// A file of known hosts, of authorised keys, of tokens, or of a key: the first byte says which.
pub fn trust_file(data: &[u8]) -> bool {
    let Some((&which, text)) = data.split_first() else { return false };
    let Ok(text) = str::from_utf8(text) else { return false };
    match which % 4 {
        0 => KnownHosts::parse(text).is_ok_and(|hosts| hosts.keys_of("dtn1:4321").len() <= text.len()),
        1 => AuthorizedKeys::parse(text).is_ok_and(|keys| {
            // A key that is not in it has no rights.
            assert!(
                text.contains(&Fingerprint::of(b"x").to_string()) || keys.grants_of(Fingerprint::of(b"x")).is_empty()
            );
            true
        }),
        2 => Book::parse(text).is_ok_and(|book| book.good(UnixTime::MAX).count() == 0),
        _ => Key::from_pem(text).is_some_and(|key| {
            assert_eq!(Key::from_pem(&key.to_pem()), Some(key));
            true
        }),
    }
}

pub(super) fn trust_files() -> Vec<Vec<u8>> {
    let key = Fingerprint::of(b"x");
    samples::of_texts(&[
        &format!("\0dtn1:4321 {key}\n# comment\n[::1]:5000 {key} again"),
        &format!("\x01{key} read=/run-42 write=/a%20b copy alice\n{key}"),
        "\x02made 0001020304050607 read,write /a%20b 2000000000 for Ann\nrevoked 0001020304050607",
        "\x03-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
    ])
}
