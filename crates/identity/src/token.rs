//! Tokens: rights that travel. The holder of a token has its rights, and can hand on fewer rights without asking the
//! server.
//!
//! A token is a chain of caveats, each under the HMAC-SHA256 of the ones before (Birgisson et al., "Macaroons", NDSS
//! 2014, with fixed caveats). The server that made the first can compute the last, so it keeps no copy. A holder can
//! add a caveat, as the last HMAC is the key for the next. It can remove none.
//!
//! ```text
//! [1: u8][id: 8][caveats: u8] caveats... [mac: 32]          numbers big-endian
//! caveat: [which: u8][rights: u8][end: 5][path length: u16][path][holder: 32][source: 32]     each only if `which` has its bit
//! ```

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::{constant_time, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::date::UnixTime;
use crate::fingerprint::Fingerprint;
use crate::rights::{Grant, Rights, Scope};

/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 2048;
/// Most caveats in one.
const CAVEATS_MAX: usize = 8;
/// The form of tokens that is known here.
const FORM: u8 = 1;
const MAC_LEN: usize = 32;
/// The input of the first HMAC, so that the secret proves nothing elsewhere.
const CONTEXT: &[u8] = b"inhaul token 1";

mod which {
    pub(super) const RIGHTS: u8 = 1;
    pub(super) const END: u8 = 2;
    pub(super) const SCOPE: u8 = 4;
    pub(super) const HOLDER: u8 = 8;
    pub(super) const SOURCE: u8 = 16;
    /// Fields that the first caveat must have.
    pub(super) const FIRST: u8 = RIGHTS | END | SCOPE;
}

/// The name of a token, which is no secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId([u8; TokenId::LEN]);

impl TokenId {
    const LEN: usize = 8;

    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, TokenError> {
        let mut id = [0; Self::LEN];
        rand::fill(&mut id).map_err(|_| TokenError::NoRandomness)?;
        Ok(Self(id))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TokenId {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let is_hex = text.len() == 2 * Self::LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        value.map(|value| Self(value.to_be_bytes())).ok_or(TokenError::Id)
    }
}

/// A token's limits; `None`: no limit beyond the caveats before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caveats {
    /// No more rights than these.
    pub rights: Option<Rights>,
    /// Not after this.
    pub end: Option<UnixTime>,
    /// Only beneath this path.
    pub scope: Option<Scope>,
    /// Only for the host that has this key.
    pub holder: Option<Fingerprint>,
    /// Only as long as the client with this key has the right itself.
    pub source: Option<Fingerprint>,
}

/// A token. Only [`Token::to_secret_text`] gives its rights; `Debug` shows only its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    caveats: Vec<Caveats>,
    mac: [u8; MAC_LEN],
}

/// The rights of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Rights, and where; `None`: its caveats leave nothing.
    pub grant: Option<Grant>,
    /// It is good until then.
    pub end: UnixTime,
    /// Only these hosts may show it; all of them at once, so of two it is good for none.
    pub holders: Vec<Fingerprint>,
    /// It is good as long as the clients with these keys have the right themselves, by their keys.
    pub sources: Vec<Fingerprint>,
}

/// A token is for another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is only for the host with the key {0}")]
pub struct HolderError(pub Fingerprint);

/// Why a token is malformed, or gives no rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text or the bytes are no token.
    #[error("it is no token of a form that is known here: copy all of it")]
    Malformed,
    /// A name of a token is no such name.
    #[error("a token's name has 16 hexadecimal digits: see 'inhaul token list'")]
    Id,
    /// It was not made with this server's key, or was changed.
    #[error("it was not made by this server, or was changed")]
    Forged,
    /// No caveat can be added.
    #[error("it has as many limits as a token can have")]
    Full,
    /// The system has no randomness.
    #[error("the system has no random numbers")]
    NoRandomness,
}

impl Token {
    /// Makes a token with the server's `secret`.
    pub fn make(secret: &[u8; 32], id: TokenId, grant: Grant, end: UnixTime, holder: Option<Fingerprint>) -> Self {
        let (rights, scope) = (Some(grant.rights), Some(grant.scope));
        let first = Caveats { rights, end: Some(end), scope, holder, source: None };
        let mac = first_mac(secret, id, &first);
        Self { id, caveats: vec![first], mac }
    }

    /// The same token with less: any holder can do so, without the server.
    ///
    /// # Errors
    /// When it has as many caveats as it can have.
    pub fn attenuated(&self, caveats: Caveats) -> Result<Self, TokenError> {
        let mut token = self.clone();
        token.mac = next_mac(&token.mac, &caveats);
        token.caveats.push(caveats);
        let is_too_long = token.caveats.len() > CAVEATS_MAX || token.to_bytes().len() > TOKEN_BYTES_MAX;
        if is_too_long { Err(TokenError::Full) } else { Ok(token) }
    }

    /// Its name.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// The token as the server that made it reads it. The caller checks whether it has ended or was revoked.
    ///
    /// # Errors
    /// When it was not made with this secret, or was changed.
    pub fn verify(&self, secret: &[u8; 32]) -> Result<Verified, TokenError> {
        let (first, rest) = self.caveats.split_first().ok_or(TokenError::Malformed)?;
        let mac = rest.iter().fold(first_mac(secret, self.id, first), |mac, caveats| next_mac(&mac, caveats));
        constant_time::verify_slices_are_equal(&mac, &self.mac).map_err(|_| TokenError::Forged)?;
        Ok(self.claims())
    }

    /// The token's own claims, which only its server can verify: holders may look at them before they show the token.
    pub fn claims(&self) -> Verified {
        let mut rights = Rights::ALL;
        let (mut scope, mut end) = (Some(Scope::all()), UnixTime::MAX);
        let (mut holders, mut sources) = (Vec::new(), Vec::new());
        for caveats in &self.caveats {
            rights = caveats.rights.map_or(rights, |less| rights.and(less));
            end = caveats.end.map_or(end, |earlier| end.min(earlier));
            if let Some(deeper) = &caveats.scope {
                scope = scope.and_then(|scope| scope.and(deeper));
            }
            holders.extend(caveats.holder);
            sources.extend(caveats.source);
        }
        let grant = scope.filter(|_| !rights.is_none()).map(|scope| Grant { rights, scope });
        Verified { grant, end, holders, sources }
    }

    /// Its bytes. They give its rights: they are a secret.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&self.id.0);
        bytes.push(self.caveats.len() as u8);
        self.caveats.iter().for_each(|caveats| caveats.encode(&mut bytes));
        bytes.extend_from_slice(&self.mac);
        bytes
    }

    /// Its text, in the base64 of URLs. It gives its rights: it is a secret.
    pub fn to_secret_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.to_bytes())
    }

    /// Reads a token.
    ///
    /// # Errors
    /// If the bytes are no token.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        if bytes.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        Self::read(bytes).ok_or(TokenError::Malformed)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[FORM], rest) = bytes.split_first_chunk()? else { return None };
        let (id, rest) = rest.split_first_chunk()?;
        let (&[count], mut rest) = rest.split_first_chunk()?;
        if !(1..=CAVEATS_MAX).contains(&usize::from(count)) {
            return None;
        }
        let mut caveats = Vec::new();
        for number in 0..count {
            if number == 0 && rest.first()? & which::FIRST != which::FIRST {
                return None;
            }
            let (one, left) = Caveats::decode(rest)?;
            caveats.push(one);
            rest = left;
        }
        Some(Self { id: TokenId(*id), caveats, mac: rest.try_into().ok()? })
    }
}

impl Verified {
    /// Whether the host with this key may show it.
    ///
    /// # Errors
    /// When it is for another host only.
    pub fn check_holder(&self, key: Option<Fingerprint>) -> Result<(), HolderError> {
        self.holders.iter().find(|holder| key != Some(**holder)).map_or(Ok(()), |holder| Err(HolderError(*holder)))
    }
}

impl Caveats {
    fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        if let Some(rights) = self.rights {
            out[at] |= which::RIGHTS;
            out.push(rights.bits());
        }
        if let Some(end) = self.end {
            out[at] |= which::END;
            out.extend_from_slice(&end.seconds().to_be_bytes()[3..]);
        }
        if let Some(scope) = &self.scope {
            out[at] |= which::SCOPE;
            out.extend_from_slice(&(scope.as_str().len() as u16).to_be_bytes());
            out.extend_from_slice(scope.as_str().as_bytes());
        }
        if let Some(holder) = self.holder {
            out[at] |= which::HOLDER;
            out.extend_from_slice(holder.bytes());
        }
        if let Some(source) = self.source {
            out[at] |= which::SOURCE;
            out.extend_from_slice(source.bytes());
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[which], mut rest) = bytes.split_first_chunk()?;
        let mut caveats = Self::default();
        if which & !(which::FIRST | which::HOLDER | which::SOURCE) != 0 {
            return None;
        }
        if which & which::RIGHTS != 0 {
            let (&[bits], left) = rest.split_first_chunk()?;
            (caveats.rights, rest) = (Some(Rights::from_bits(bits)?), left);
        }
        if which & which::END != 0 {
            let (end, left) = rest.split_first_chunk::<5>()?;
            let seconds = end.iter().fold(0, |seconds, &byte| seconds << 8 | u64::from(byte));
            (caveats.end, rest) = (Some(UnixTime::from_seconds(seconds)), left);
        }
        if which & which::SCOPE != 0 {
            let (len, left) = rest.split_first_chunk::<2>()?;
            let (path, left) = left.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            let path = str::from_utf8(path).ok()?;
            // One form only.
            let scope = Scope::new(path).ok().filter(|scope| scope.as_str() == path)?;
            (caveats.scope, rest) = (Some(scope), left);
        }
        if which & which::HOLDER != 0 {
            let (holder, left) = rest.split_first_chunk()?;
            (caveats.holder, rest) = (Some(Fingerprint::from_bytes(*holder)), left);
        }
        if which & which::SOURCE != 0 {
            let (source, left) = rest.split_first_chunk()?;
            (caveats.source, rest) = (Some(Fingerprint::from_bytes(*source)), left);
        }
        Some((caveats, rest))
    }
}

fn first_mac(secret: &[u8; 32], id: TokenId, caveats: &Caveats) -> [u8; MAC_LEN] {
    let mut text = CONTEXT.to_vec();
    text.extend_from_slice(&id.0);
    caveats.encode(&mut text);
    mac(secret, &text)
}

fn next_mac(before: &[u8; MAC_LEN], caveats: &Caveats) -> [u8; MAC_LEN] {
    let mut text = Vec::new();
    caveats.encode(&mut text);
    mac(before, &text)
}

fn mac(key: &[u8; 32], text: &[u8]) -> [u8; MAC_LEN] {
    let mut mac = [0; MAC_LEN];
    mac.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref());
    mac
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let bytes = (text.len() <= TOKEN_BYTES_MAX * 2).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        Self::from_bytes(&bytes.ok_or(TokenError::Malformed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Right;

    const SECRET: [u8; 32] = [7; 32];

    fn grant(path: &str) -> Grant {
        Grant { rights: Rights::only(Right::Read).with(Right::Write), scope: Scope::new(path).unwrap() }
    }

    fn token() -> Token {
        Token::make(&SECRET, TokenId([1; 8]), grant("/run-42"), UnixTime::from_seconds(1000), None)
    }

    #[test]
    fn what_was_made_can_be_verified_by_its_maker_only() {
        let token = token();
        let verified = token.verify(&SECRET).unwrap();
        assert_eq!(verified.grant, Some(grant("/run-42")));
        assert_eq!((verified.end, verified.holders.len()), (UnixTime::from_seconds(1000), 0));
        assert_eq!(token.verify(&[8; 32]), Err(TokenError::Forged));
        assert_eq!(token.to_secret_text().parse(), Ok(token.clone()));
        assert_eq!(token.to_bytes().len(), 57);
        assert_eq!(format!("{token:?}"), "Token(0101010101010101)");
    }

    #[test]
    fn no_byte_can_be_changed() {
        let bytes = token().to_bytes();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let verified = Token::from_bytes(&changed).and_then(|token| token.verify(&SECRET));
                assert!(verified.is_err(), "byte {at}, bit {bit}");
            }
        }
        for len in 0..bytes.len() {
            assert_eq!(Token::from_bytes(&bytes[..len]), Err(TokenError::Malformed));
        }
    }

    #[test]
    fn holders_can_take_away_and_add_nothing() {
        let key = Fingerprint::of(b"dtn2");
        let less = Caveats {
            rights: Some(Rights::only(Right::Read).with(Right::Copy)),
            end: Some(UnixTime::from_seconds(5000)),
            scope: Some(Scope::new("/run-42/raw").unwrap()),
            holder: Some(key),
            source: Some(Fingerprint::of(b"alice")),
        };
        let delegated = token().attenuated(less).unwrap();
        let verified = delegated.verify(&SECRET).unwrap();
        let left = Grant { rights: Rights::only(Right::Read), scope: Scope::new("/run-42/raw").unwrap() };
        assert_eq!((verified.grant.clone(), verified.end), (Some(left), UnixTime::from_seconds(1000)));
        assert_eq!(verified.sources, [Fingerprint::of(b"alice")]);
        assert_eq!(Token::from_bytes(&delegated.to_bytes()), Ok(delegated.clone()));
        assert_eq!(verified.check_holder(Some(key)), Ok(()));
        assert_eq!(verified.check_holder(None), Err(HolderError(key)));
        assert_eq!(verified.check_holder(Some(Fingerprint::of(b"thief"))), Err(HolderError(key)));
        // The caveat is cut off again, with the mac that is left.
        let cut = Token { caveats: delegated.caveats[..1].to_vec(), ..delegated.clone() };
        assert_eq!(cut.verify(&SECRET), Err(TokenError::Forged));
        let elsewhere = Caveats { scope: Some(Scope::new("/run-43").unwrap()), ..Caveats::default() };
        assert_eq!(token().attenuated(elsewhere).unwrap().verify(&SECRET).unwrap().grant, None);
        assert!(delegated.to_bytes().len() < 180, "{}", delegated.to_bytes().len());
    }

    #[test]
    fn caveats_have_an_end() {
        let mut token = token();
        let added = (0..20).take_while(|_| match token.attenuated(Caveats::default()) {
            Ok(next) => {
                token = next;
                true
            }
            Err(error) => error != TokenError::Full,
        });
        assert_eq!(added.count(), CAVEATS_MAX - 1);
        assert_eq!(Token::from_bytes(&token.to_bytes()), Ok(token));
    }

    #[test]
    fn a_token_says_at_first_what_it_is_for() {
        let mut bytes = vec![FORM];
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&[1, which::RIGHTS, 1]);
        bytes.extend_from_slice(&[0; 32]);
        assert_eq!(Token::from_bytes(&bytes), Err(TokenError::Malformed));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = TokenId([0xAB; 8]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "ab", "+babababababababa", "zzzzzzzzzzzzzzzz"] {
            assert_eq!(wrong.parse::<TokenId>(), Err(TokenError::Id));
        }
    }
}
