//! Rights: the allowed actions, and the path on which they are allowed.

use std::fmt;
use std::str::FromStr;

/// One thing that a client may be allowed to do at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// To list and fetch files beneath an offered path.
    Read,
    /// To put data beneath a path of the directory that puts land in.
    Write,
    /// To have the server fetch from other servers, to beneath a path of that directory.
    Copy,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Copy];

    /// Its name in files, on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of rights. Its text is their names with commas between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

/// A text names no rights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no right: write read, write or copy, with commas between several")]
pub struct RightsError(String);

impl Rights {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self((1 << Right::ALL.len()) - 1);

    /// Just this one.
    pub const fn only(right: Right) -> Self {
        Self(right.bit())
    }

    /// This one too.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }

    /// The actions in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether it is among them.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Whether it is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        if bits < 1 << Right::ALL.len() { Some(Self(bits)) } else { None }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Right::ALL.into_iter().filter(|right| self.has(*right)).map(Right::name).collect();
        f.write_str(if names.is_empty() { "nothing".to_owned() } else { names.join(",") }.as_str())
    }
}

impl FromStr for Rights {
    type Err = RightsError;

    fn from_str(text: &str) -> Result<Self, RightsError> {
        text.split(',').try_fold(Self::NONE, |rights, name| {
            let right = Right::ALL.into_iter().find(|right| right.name() == name);
            right.map(|right| rights.with(right)).ok_or_else(|| RightsError(name.to_owned()))
        })
    }
}

/// Everything beneath a path of a server: its text begins with a slash, and `/` is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(String);

/// A path cannot be a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// It has `..` in it, so its meaning depends on links.
    #[error("a path with '..' in it gives no right")]
    Climbs,
    /// It is too long.
    #[error("the path is longer than {max} bytes", max = Scope::BYTES_MAX)]
    TooLong,
    /// It has a character that no line of a file can hold.
    #[error("the path has a control character in it")]
    Control,
}

impl Scope {
    /// Longest path, in bytes.
    pub const BYTES_MAX: usize = 1024;

    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Beneath this path, regardless of slashes and dots around its components.
    ///
    /// # Errors
    /// When it climbs or is too long.
    pub fn new(path: &str) -> Result<Self, ScopeError> {
        let scope = normal(path).ok_or(ScopeError::Climbs)?;
        if scope.len() > Self::BYTES_MAX {
            return Err(ScopeError::TooLong);
        }
        if scope.chars().any(char::is_control) {
            return Err(ScopeError::Control);
        }
        Ok(Self(scope))
    }

    /// The first component: the name of the offered directory. `None`: everything.
    pub fn first(&self) -> Option<&str> {
        self.0.split('/').next().filter(|first| !first.is_empty())
    }

    /// Whether it is everything.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `path` lies in it. A path with `..` never does.
    pub fn contains(&self, path: &str) -> bool {
        normal(path).is_some_and(|path| self.contains_normal(&path))
    }

    fn contains_normal(&self, path: &str) -> bool {
        self.is_all() || path.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The intersection of both; `None` if it is empty.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let (deep, high) = if self.0.len() >= other.0.len() { (self, other) } else { (other, self) };
        high.contains_normal(&deep.0).then(|| deep.clone())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in lines of files, where blanks part words.
    pub(crate) fn to_word(&self) -> String {
        let mut word = String::from("/");
        for c in self.0.chars() {
            match c {
                '%' => word.push_str("%25"),
                ' ' => word.push_str("%20"),
                c if c.is_whitespace() => word.extend(c.to_string().bytes().map(|byte| format!("%{byte:02X}"))),
                c => word.push(c),
            }
        }
        word
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(word.len());
        let mut rest = word.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let (digits, after) = rest.split_first_chunk::<2>()?;
            let digits = str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        }
        Self::new(str::from_utf8(&bytes).ok()?).ok()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

/// The name at the beginning of a server's paths, if addresses may omit it: the server then offers only this directory.
/// Rights must not omit it: they remain when the offered directories change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLeftOut(String);

impl NameLeftOut {
    /// This name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The path with the name. A path with `..` stays as it is.
    pub fn path_in_full(&self, path: &str) -> String {
        let Some(path) = normal(path) else { return path.to_owned() };
        match path.split('/').next().unwrap_or_default() {
            first if first == self.0 => format!("/{path}"),
            "" => format!("/{}", self.0),
            _ => format!("/{}/{path}", self.0),
        }
    }

    /// Whether a scope has the name, or is everything.
    pub fn begins(&self, scope: &Scope) -> bool {
        scope.is_all() || scope.0.split('/').next() == Some(self.0.as_str())
    }
}

/// The components of a path with one slash between them; `None` if it climbs.
fn normal(path: &str) -> Option<String> {
    let components: Vec<&str> = path.split('/').filter(|c| !matches!(*c, "" | ".")).collect();
    (!components.contains(&"..")).then(|| components.join("/"))
}

/// Rights beneath a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The allowed actions.
    pub rights: Rights,
    /// Where.
    pub scope: Scope,
}

impl Grant {
    /// Whether it allows this at `path`.
    pub fn allows(&self, right: Right, path: &str) -> bool {
        self.rights.has(right) && self.scope.contains(path)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rights, self.scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_as_they_are_written() {
        for text in ["read", "read,copy", "read,write,copy"] {
            assert_eq!(text.parse::<Rights>().unwrap().to_string(), text);
        }
        assert_eq!("sudo".parse::<Rights>(), Err(RightsError("sudo".to_owned())));
        assert!("".parse::<Rights>().is_err());
        assert!("read".parse::<Rights>().unwrap().and(Rights::only(Right::Write)).is_none());
    }

    #[test]
    fn scope_contains_what_lies_beneath_it() {
        let scope = Scope::new("/run-42/./raw//").unwrap();
        assert_eq!(scope.to_string(), "/run-42/raw");
        for path in ["run-42/raw", "/run-42/raw/", "//run-42/./raw/x/y"] {
            assert!(scope.contains(path), "{path}");
        }
        for path in ["", "/", "/run-42", "/run-42/raw2", "/run-4", "/run-42/raw/../raw", "/run-42/raw/.."] {
            assert!(!scope.contains(path), "{path}");
        }
        assert!(Scope::all().contains("") && Scope::all().contains("/a") && !Scope::all().contains("../a"));
    }

    #[test]
    fn scopes_meet_in_the_deeper_one_or_not_at_all() {
        let scope = |path: &str| Scope::new(path).unwrap();
        assert_eq!(scope("/a").and(&scope("/a/b")), Some(scope("/a/b")));
        assert_eq!(scope("/a/b").and(&Scope::all()), Some(scope("/a/b")));
        assert_eq!(scope("/a").and(&scope("/ab")), None);
        assert_eq!(scope("/a/b").and(&scope("/a/c")), None);
        assert_eq!(Scope::new("/a/../b"), Err(ScopeError::Climbs));
        assert_eq!(Scope::new(&"x".repeat(2000)), Err(ScopeError::TooLong));
        assert_eq!(Scope::new("/a\nb"), Err(ScopeError::Control));
    }

    #[test]
    fn a_name_that_may_be_left_out_of_paths_is_in_rights() {
        let name = NameLeftOut::new("data");
        let scope = |path: &str| Scope::new(path).unwrap();
        for (path, whole) in
            [("", "/data"), ("/data/", "/data"), ("run//x", "/data/run/x"), ("/data/data", "/data/data")]
        {
            assert_eq!(name.path_in_full(path), whole);
        }
        assert_eq!(name.path_in_full("/a/../data"), "/a/../data");
        assert!(!scope("/data/data").contains(&name.path_in_full("/data")), "the name comes first");
        assert!(!scope("/run").contains(&name.path_in_full("/run")) && scope("/data").contains(&name.path_in_full("")));
        assert!(name.begins(&scope("/")) && name.begins(&scope("/data/x")) && !name.begins(&scope("/database")));
    }

    #[test]
    fn scope_is_one_word_in_a_file() {
        for path in ["/", "/a b", "/100%", "/\u{3000}x"] {
            let scope = Scope::new(path).unwrap();
            let word = scope.to_word();
            assert!(!word.contains(char::is_whitespace), "{word}");
            assert_eq!(Scope::from_word(&word), Some(scope));
        }
        assert_eq!(Scope::from_word("/a%2"), None);
        assert_eq!(Scope::from_word("/a%2E%2E/%0A"), None);
    }
}
