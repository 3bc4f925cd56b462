//! Selects files of a data set by patterns in `.gitignore`'s syntax.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, Glob};
use inhaul_base::byte_text::{bytes_of, text_of};

use crate::{Kind, Manifest, Skipped};

/// Selects the wanted parts of a data set. The default selects all of it.
///
/// Patterns are those of `.gitignore`, relative to the data set. The last match wins, and an excluded directory
/// excludes everything in it. With includes and no excludes, unmatched paths are not wanted.
#[derive(Clone, Debug)]
pub struct Filter {
    patterns: Gitignore,
    /// Whether paths without a match are wanted.
    otherwise: bool,
    /// The only paths that may be wanted, with everything beneath them; `None`: all.
    only: Option<Arc<BTreeSet<Vec<u8>>>>,
    /// Whether a pattern has bytes that are not UTF-8. Patterns are text, so paths are then matched as text: see
    /// [`inhaul_base::byte_text`].
    has_bytes: bool,
    /// The includes and excludes, each with its lines.
    single: Arc<Vec<(Rule, Vec<String>)>>,
}

/// Most rules of a filter, and most bytes of their patterns. Compiled, they are bounded by the compiler.
const RULES_MAX: usize = 10_000;
const RULES_BYTES_MAX: usize = 1 << 20;

/// Checks that there are at most `rules_max` rules, of at most `bytes_max` bytes together. Compiles nothing.
///
/// # Errors
/// When there are more.
pub fn check_size(rules: &[Rule], rules_max: usize, bytes_max: usize) -> Result<(), FilterError> {
    let bytes: usize = rules.iter().map(|rule| rule.pattern().len()).sum();
    let is_too_much = rules.len() > rules_max || bytes > bytes_max;
    if is_too_much { Err(FilterError::TooMany { rules: rules.len(), rules_max, bytes, bytes_max }) } else { Ok(()) }
}

/// Which of a manifest's items are wanted, each by its index there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) files: Vec<bool>,
    pub(crate) directories: Vec<bool>,
    pub(crate) symlinks: Vec<bool>,
    pub(crate) hard_links: Vec<bool>,
    /// Wanted items that the source may not read: their number, and the first few paths.
    pub(crate) unreadable: Skipped,
}

/// A rule of a filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Matches are wanted.
    Include(String),
    /// Matches are not wanted.
    Exclude(String),
    /// A line of a file in `.gitignore`'s syntax: an exclude, an include after `!`, a comment after `#`, or nothing.
    Line(String),
}

impl Rule {
    /// Its text.
    pub fn pattern(&self) -> &str {
        match self {
            Self::Include(pattern) | Self::Exclude(pattern) | Self::Line(pattern) => pattern,
        }
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self { patterns: Gitignore::empty(), otherwise: true, has_bytes: false, only: None, single: Arc::default() }
    }
}

impl Filter {
    /// A filter of `rules`. The last rule that matches wins.
    ///
    /// When the syntax of a pattern is wrong, or when one or all patterns together are too many or too long.
    pub fn new(rules: &[Rule]) -> Result<Self, FilterError> {
        check_size(rules, RULES_MAX, RULES_BYTES_MAX)?;
        let mut builder = GitignoreBuilder::new("");
        let mut single = Vec::new();
        let (mut excludes, mut has_bytes) = (false, false);
        for rule in rules {
            let (line, pattern) = match rule {
                Rule::Include(pattern) => (format!("!{pattern}"), pattern),
                Rule::Exclude(pattern) => (escaped(pattern), pattern),
                Rule::Line(line) => (line.clone(), line),
            };
            has_bytes |= *bytes_of(&line) != *line.as_bytes();
            excludes |= !line.is_empty() && !line.starts_with(['!', '#']);
            // In Git such a pattern matches nothing.
            if !line.starts_with('#') && has_open_class(&line) {
                let detail = "a '[' has no ']': write '\\[' for the character itself".to_owned();
                return Err(FilterError::BadPattern { pattern: pattern.clone(), detail });
            }
            let lines: Vec<String> = std::iter::once(line.clone()).chain(with_bytes(&line)).collect();
            has_bytes |= lines.len() > 1;
            for line in &lines {
                builder.add_line(None, line).map_err(|error| FilterError::bad(pattern, &error))?;
            }
            if !matches!(rule, Rule::Line(_)) {
                single.push((rule.clone(), lines));
            }
        }
        let patterns = builder.build().map_err(|_| FilterError::TooComplex)?;
        Ok(Self {
            otherwise: excludes || patterns.is_empty(),
            patterns,
            has_bytes,
            only: None,
            single: Arc::new(single),
        })
    }

    /// The includes and excludes that no path of `manifest` matches: they may be misspelled.
    pub fn unmatched(&self, manifest: &Manifest) -> BTreeSet<Rule> {
        let paths = || {
            let directories = manifest.directories().iter().map(|directory| (&directory.path, true));
            let files = manifest.entries().iter().map(|file| (&file.path, false));
            let links = manifest.symlinks().iter().map(|link| (&link.path, false));
            directories.chain(files).chain(links).chain(manifest.hard_links().iter().map(|link| (&link.path, false)))
        };
        // Most rules are the last match of some path. Only the others are compiled separately, one at a time: a pattern
        // may take a lot of memory.
        let mut last = BTreeSet::new();
        for (path, is_directory) in paths().filter(|_| !self.single.is_empty()) {
            match self.matched(&self.patterns, path, is_directory) {
                Match::None => {}
                Match::Ignore(glob) | Match::Whitelist(glob) => _ = last.insert(glob.original()),
            }
        }
        let is_matched = |line: &str| {
            let mut alone = GitignoreBuilder::new("");
            let added = alone.add_line(None, line).and_then(|alone| alone.build());
            added.is_ok_and(|alone| {
                paths().any(|(path, is_directory)| !self.matched(&alone, path, is_directory).is_none())
            })
        };
        let unmatched = |(_, lines): &&(Rule, Vec<String>)| {
            !lines.iter().any(|line| last.contains(line.as_str())) && !lines.iter().any(|line| is_matched(line))
        };
        self.single.iter().filter(unmatched).map(|(rule, _)| rule.clone()).collect()
    }

    /// The match of a path.
    fn matched<'p>(&self, patterns: &'p Gitignore, path: &[u8], is_directory: bool) -> Match<&'p Glob> {
        match self.has_bytes {
            true => patterns.matched(Path::new(&text_of(path)), is_directory),
            false => patterns.matched(Path::new(OsStr::from_bytes(path)), is_directory),
        }
    }

    /// The same filter, restricted to `paths` and everything beneath them.
    #[must_use]
    pub fn only(self, paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { only: Some(Arc::new(paths.into_iter().collect())), ..self }
    }

    /// The requested path above `path`; the empty path if everything is requested.
    pub(crate) fn asked_above<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let Some(only) = &self.only else { return Some(b"") };
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        above.into_iter().find(|above| only.contains(*above))
    }

    /// Whether `path`, or a directory above it, is among the paths that may be wanted.
    fn may_want(&self, path: &[u8]) -> bool {
        let Some(only) = &self.only else { return true };
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| only.contains(&path[..end]))
    }

    /// Selects the wanted items of `manifest`. The directories above them are wanted too.
    pub(crate) fn apply(&self, manifest: &Manifest) -> Wanted {
        let verdicts = self.directories(manifest);
        let verdict =
            |path: &[u8]| self.verdict(manifest, &verdicts, path, false).unwrap_or(false) && self.may_want(path);
        let directories = manifest.directories().iter().zip(&verdicts);
        let mut wanted = Wanted {
            files: manifest.entries().iter().map(|file| verdict(&file.path)).collect(),
            directories: directories.map(|(d, verdict)| verdict.unwrap_or(false) && self.may_want(&d.path)).collect(),
            symlinks: manifest.symlinks().iter().map(|link| verdict(&link.path)).collect(),
            hard_links: manifest.hard_links().iter().map(|link| verdict(&link.path)).collect(),
            unreadable: manifest.unreadable().clone(),
        };
        // Further unreadable paths are only counted, so the filter cannot be applied to them.
        wanted.unreadable.paths.retain(|path| verdict(path));
        wanted.unreadable.count -= (manifest.unreadable().paths.len() - wanted.unreadable.paths.len()) as u64;
        if manifest.kind() == Kind::Directory {
            wanted.add_parents(manifest);
        }
        wanted
    }

    /// For each directory, whether its items are wanted if no pattern matches them; `None` if it is excluded with all
    /// of its items.
    fn directories(&self, manifest: &Manifest) -> Vec<Option<bool>> {
        let mut verdicts = Vec::with_capacity(manifest.directories().len());
        for directory in manifest.directories() {
            // Parents come first.
            let verdict = self.verdict(manifest, &verdicts, &directory.path, true);
            verdicts.push(verdict);
        }
        verdicts
    }

    /// The verdict on `path`, from those on its parent directories; `None` if it is excluded.
    fn verdict(&self, manifest: &Manifest, above: &[Option<bool>], path: &[u8], is_directory: bool) -> Option<bool> {
        let inherited = match path.iter().rposition(|&b| b == b'/') {
            None => self.otherwise,
            Some(slash) => above[manifest.find_directory(&path[..slash])?]?,
        };
        match self.matched(&self.patterns, path, is_directory) {
            Match::None => Some(inherited),
            Match::Ignore(_) => None,
            Match::Whitelist(_) => Some(true),
        }
    }
}

impl Wanted {
    fn add_parents(&mut self, manifest: &Manifest) {
        let files = manifest.entries().iter().map(|file| &file.path).zip(&self.files);
        let symlinks = manifest.symlinks().iter().map(|link| &link.path).zip(&self.symlinks);
        let hard_links = manifest.hard_links().iter().map(|link| &link.path).zip(&self.hard_links);
        let own = self.directories.clone();
        let inner = manifest.directories().iter().map(|directory| &directory.path).zip(&own);
        let directories = &mut self.directories;
        for (path, _) in files.chain(symlinks).chain(hard_links).chain(inner).filter(|(_, wanted)| **wanted) {
            let mut path = path.as_slice();
            while let Some(slash) = path.iter().rposition(|&b| b == b'/') {
                path = &path[..slash];
                let Some(index) = manifest.find_directory(path) else { break };
                directories[index] = true;
            }
        }
    }
}

/// The pattern with `%XX` replaced by bytes, for bytes that are not UTF-8: addresses write such names in this way.
/// `None`: it has none. A name may also contain the characters `%XX`, so both are matched.
fn with_bytes(line: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(line.len()), line.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let is_number = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        match digits.filter(is_number).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(number) if number >= 0x80 => {
                bytes.push(number);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    str::from_utf8(&bytes).is_err().then(|| text_of(&bytes))
}

/// Whether a pattern has an unclosed character class.
fn has_open_class(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => drop(rest.next()),
            '[' => {
                let class = rest.as_str().strip_prefix(['!', '^']).unwrap_or(rest.as_str());
                // A ']' in the first place belongs to the class.
                let first = class.chars().next().map_or(0, char::len_utf8);
                let Some(end) = class[first..].find(']') else { return true };
                rest = class[first + end + 1..].chars();
            }
            _ => {}
        }
    }
    false
}

/// A pattern as a line that is neither a comment nor an include.
fn escaped(pattern: &str) -> String {
    if pattern.starts_with(['!', '#']) { format!("\\{pattern}") } else { pattern.to_owned() }
}

/// Why rules are no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A pattern's syntax is wrong.
    #[error("the pattern '{pattern}' makes no sense: {detail}; patterns are those of .gitignore")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// The fault.
        detail: String,
    },
    /// There are too many patterns, or they are too long.
    #[error(
        "{rules} patterns of {bytes} bytes are too many: at most {rules_max} of {bytes_max} bytes are taken; use fewer wildcards or name directories"
    )]
    TooMany {
        /// The number of rules.
        rules: usize,
        /// The most rules allowed.
        rules_max: usize,
        /// Their bytes.
        bytes: usize,
        /// The most bytes allowed.
        bytes_max: usize,
    },
    /// They take too much memory when compiled.
    #[error("the patterns are too complex together: use fewer, or fewer '?' and '[...]' in them")]
    TooComplex,
}

impl FilterError {
    fn bad(pattern: &str, error: &ignore::Error) -> Self {
        Self::BadPattern { pattern: pattern.to_owned(), detail: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Contents, Directory, Entry, Symlink};

    /// The paths of a tree that `rules` want: of directories with a `/` behind them.
    fn wanted(rules: &[Rule]) -> Vec<String> {
        wanted_by(&Filter::new(rules).unwrap())
    }

    fn wanted_by(filter: &Filter) -> Vec<String> {
        let file = |path: &&str| Entry { path: (*path).into(), ..Entry::default() };
        let directory = |path: &&str| Directory { path: (*path).into(), ..Directory::default() };
        let link = Symlink { path: b"sub/link.h5".to_vec(), target: b"x".to_vec(), ..Symlink::default() };
        let contents = Contents {
            files: ["a.h5", "b.tmp", "sub/c.h5", "sub/d.tmp", "sub/deep/e.h5", "tmp/f.h5"].iter().map(file).collect(),
            directories: ["empty", "sub", "sub/deep", "tmp"].iter().map(directory).collect(),
            symlinks: vec![link],
            ..Contents::default()
        };
        let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap();
        let wanted = filter.apply(&manifest);
        let shown = |path: &[u8], end: &str| String::from_utf8_lossy(path).into_owned() + end;
        let files = manifest.entries().iter().zip(&wanted.files).filter(|(_, w)| **w).map(|(f, _)| shown(&f.path, ""));
        let links = manifest.symlinks().iter().zip(&wanted.symlinks);
        let links = links.filter(|(_, w)| **w).map(|(l, _)| shown(&l.path, ""));
        let directories = manifest.directories().iter().zip(&wanted.directories);
        let directories = directories.filter(|(_, w)| **w).map(|(d, _)| shown(&d.path, "/"));
        let mut all: Vec<String> = files.chain(links).chain(directories).collect();
        all.sort();
        all
    }

    fn include(pattern: &str) -> Rule {
        Rule::Include(pattern.to_owned())
    }

    fn exclude(pattern: &str) -> Rule {
        Rule::Exclude(pattern.to_owned())
    }

    #[test]
    fn names_that_are_not_utf_8_match_by_their_bytes_or_by_their_numbers() {
        let file = |path: &[u8]| Entry { path: path.into(), ..Entry::default() };
        let contents = Contents {
            files: vec![file(b"%FF"), file(b"a"), file(b"x\xfe"), file(b"\xff\xfe")],
            ..Contents::default()
        };
        let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap();
        let raw = text_of(b"\xff\xfe");
        for (rule, expected) in [
            (exclude("%FF%FE"), [true, true, true, false]),
            (exclude(&raw), [true, true, true, false]),
            (Rule::Line(text_of(b"*\xfe")), [true, true, false, false]),
            (exclude("*%fe"), [true, true, false, false]),
            (include("%FF*"), [true, false, false, true]),
            (exclude("?"), [true, false, true, true]),
            (exclude("%41"), [true; 4]),
        ] {
            let filter = Filter::new(std::slice::from_ref(&rule)).unwrap();
            assert_eq!(filter.apply(&manifest).files, expected, "{rule:?}");
            let is_matched = filter.unmatched(&manifest).is_empty();
            assert_eq!(is_matched, expected != [true; 4], "{rule:?}");
        }
    }

    #[test]
    fn no_rules_want_everything() {
        assert_eq!(wanted(&[]).len(), 11);
        assert_eq!(wanted(&[Rule::Line("# a comment".to_owned()), Rule::Line(String::new())]).len(), 11);
    }

    #[test]
    fn what_lies_in_an_excluded_directory_is_excluded_with_it() {
        let found = wanted(&[exclude("tmp/"), exclude("/sub/deep"), exclude("*.tmp"), include("e.h5")]);
        assert_eq!(found, ["a.h5", "empty/", "sub/", "sub/c.h5", "sub/link.h5"]);
    }

    #[test]
    fn only_leaves_what_is_named_and_what_lies_beneath_it_to_the_rules() {
        let paths = || [b"a.h5".to_vec(), b"sub/deep".to_vec(), b"nowhere".to_vec()];
        assert_eq!(wanted_by(&Filter::default().only(paths())), ["a.h5", "sub/", "sub/deep/", "sub/deep/e.h5"]);
        let filter = Filter::new(&[exclude("e.h5")]).unwrap().only(paths());
        assert_eq!(wanted_by(&filter), ["a.h5", "sub/", "sub/deep/"]);
    }

    #[test]
    fn the_last_match_wins() {
        let found = wanted(&[exclude("*.tmp"), include("d.tmp"), exclude("empty")]);
        assert!(found.contains(&"sub/d.tmp".to_owned()) && !found.contains(&"b.tmp".to_owned()), "{found:?}");
        let found = wanted(&[include("d.tmp"), exclude("*.tmp")]);
        assert!(!found.contains(&"sub/d.tmp".to_owned()), "{found:?}");
    }

    #[test]
    fn includes_alone_want_nothing_else() {
        assert_eq!(wanted(&[include("e.h5")]), ["sub/", "sub/deep/", "sub/deep/e.h5"]);
        assert_eq!(wanted(&[include("/tmp/")]), ["tmp/", "tmp/f.h5"]);
        assert_eq!(wanted(&[include("*.h5"), Rule::Line("/sub".to_owned())]), {
            ["a.h5", "b.tmp", "empty/", "tmp/", "tmp/f.h5"]
        });
    }

    #[test]
    fn a_class_that_is_not_closed_is_refused() {
        for pattern in ["[z", "a[b", "[]", "[!]", "x[]y", "ok[a]/[", "[\u{e4}"] {
            let error = Filter::new(&[exclude(pattern)]).unwrap_err();
            assert!(error.to_string().contains("has no ']'"), "{pattern}: {error}");
        }
        for pattern in ["[z]", "a[]b]", "[!]x]", "\\[z", "a]", "[^a]"] {
            assert!(Filter::new(&[exclude(pattern)]).is_ok(), "{pattern}");
        }
        assert!(Filter::new(&[Rule::Line("# [".to_owned())]).is_ok());
    }

    #[test]
    fn unmatched_rules_are_those_of_no_path() {
        let file = |path: &str| Entry { path: path.into(), ..Entry::default() };
        let directories = vec![Directory { path: b"sub".to_vec(), ..Directory::default() }];
        let contents = Contents { files: vec![file("a.h5"), file("sub/b")], directories, ..Contents::default() };
        let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap();
        let rules = [exclude("sub/"), exclude("*.tmp"), include("b"), include("a.h6"), Rule::Line("no".to_owned())];
        let unmatched = Filter::new(&rules).unwrap().unmatched(&manifest);
        assert_eq!(unmatched.into_iter().collect::<Vec<_>>(), [include("a.h6"), exclude("*.tmp")]);
    }

    #[test]
    fn a_rule_that_another_one_outdoes_has_matched_all_the_same() {
        let file = |path: &str| Entry { path: path.into(), ..Entry::default() };
        let contents = Contents { files: vec![file("a.h5"), file("b.h5")], ..Contents::default() };
        let manifest = Manifest::new(b"set".to_vec(), Kind::Directory, contents).unwrap();
        let rules = [exclude("a.*"), exclude("*.h5"), exclude("c.*")];
        let unmatched = Filter::new(&rules).unwrap().unmatched(&manifest);
        assert_eq!(unmatched.into_iter().collect::<Vec<_>>(), [exclude("c.*")]);
    }

    #[test]
    fn rules_are_bounded_in_number_in_bytes_and_in_what_comes_of_them() {
        let error = |rules: Vec<Rule>| Filter::new(&rules).unwrap_err();
        assert!(matches!(error(vec![exclude("x"); RULES_MAX + 1]), FilterError::TooMany { rules: 10_001, .. }));
        let long = "x".repeat(RULES_BYTES_MAX / 100);
        assert!(matches!(error(vec![exclude(&long); 101]), FilterError::TooMany { bytes: 1_058_985, .. }));
        let complex = error(vec![exclude(&"[!a]".repeat(1000)); 200]);
        assert_eq!(complex, FilterError::TooComplex);
        assert_eq!(check_size(&[exclude("abc"), Rule::Line("d".to_owned())], 2, 4), Ok(()));
        assert!(check_size(&[exclude("abc")], 2, 2).is_err() && check_size(&[exclude("abc")], 0, 3).is_err());
    }

    #[test]
    fn a_pattern_may_begin_with_what_means_something_in_a_line() {
        assert_eq!(wanted(&[exclude("#a"), exclude("!b")]).len(), 11);
        assert!(
            matches!(Filter::new(&[exclude("[z-a]")]), Err(FilterError::BadPattern { pattern, .. }) if pattern == "[z-a]")
        );
    }
}
