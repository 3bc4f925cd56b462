//! The modules of a crate, and which of them uses which.
//!
//! A module is a file. It has an arrow to another when its code, outside of tests, names something that the other
//! one defines: by a path that begins with `crate`, `super` or `self`, with the name of a child, or with a name
//! that a `use` has brought in. Names are followed to their definition. If a module re-exports a name with `pub use`,
//! or a child reaches a `use` of its parent by `super::`, the arrow leads to the module that defines the name, not to
//! the one that re-exports it. So a parent that declares its children and re-exports their names has no arrow to them;
//! a parent that itself uses the names has.
//!
//! Methods leave no arrow, because their calls name no module. A module may therefore be spread over files: a child
//! that adds an `impl` to a type of its parent has an arrow to it, and the parent, which calls the methods, has
//! none back.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::tokens::{group_len, tokens, without_tests};

/// A module by its names below the root: empty for the root itself.
pub type Path = Vec<String>;

/// Names that are being followed, each in a module: a name that leads to itself leads nowhere.
type Trail = Vec<(Path, String)>;

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Modules {
    modules: BTreeMap<Path, Module>,
}

/// The content of a file.
#[derive(Debug, Default)]
struct Module {
    /// What `use` names: the name that it has here, and its path.
    imports: Vec<Import>,
    /// Names defined here, outside of blocks.
    defined: BTreeSet<String>,
    /// The modules that are declared here.
    declared: BTreeSet<String>,
    /// Paths in the code, but for those of `use`.
    paths: Vec<Path>,
    /// All words of the code that stand alone or begin a path, but for those of `use`.
    words: BTreeSet<String>,
}

#[derive(Debug)]
struct Import {
    /// The name that it has here; `None`: all names of a module (`*`).
    name: Option<String>,
    path: Path,
    is_public: bool,
}

/// The target of a path.
enum Target {
    Module(Path),
    /// Something that this module defines.
    In(Path),
}

impl Modules {
    /// Reads the files of a crate, each with its path below `src` and its text. Files that no `mod` declares
    /// outside of tests are none.
    pub fn parse<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        let mut modules: BTreeMap<Path, Module> =
            files.into_iter().map(|(file, text)| (path_of(file), Module::parse(text))).collect();
        let mut declared = BTreeSet::from([Path::new()]);
        // In this order parents come before their children.
        for (path, module) in &modules {
            if declared.contains(path) {
                declared.extend(module.declared.iter().map(|name| [&path[..], std::slice::from_ref(name)].concat()));
            }
        }
        modules.retain(|path, _| declared.contains(path));
        Self { modules }
    }

    /// All modules.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.modules.keys()
    }

    /// Which module uses which.
    pub fn arrows(&self) -> BTreeSet<(Path, Path)> {
        let mut arrows = BTreeSet::new();
        for (from, module) in &self.modules {
            let targets = module.imports.iter().filter_map(|import| {
                let to = match (self.resolve(from, &import.path, &mut Trail::new())?, &import.name) {
                    (Target::In(to), _) | (Target::Module(to), None) => to,
                    // A module's name alone uses nothing of it; the paths that begin with it do.
                    (Target::Module(_), Some(_)) => return None,
                };
                let is_own_child = to.len() > from.len() && to.starts_with(from);
                let is_used = import.name.as_ref().is_some_and(|name| module.words.contains(name));
                (!(import.is_public && is_own_child) || is_used).then_some(to)
            });
            let of_code = module.paths.iter().filter_map(|path| match self.resolve(from, path, &mut Trail::new())? {
                Target::In(to) => Some(to),
                Target::Module(_) => None,
            });
            arrows.extend(targets.chain(of_code).filter(|to| to != from).map(|to| (from.clone(), to)));
        }
        arrows
    }

    /// The target of a path in the module `at`; `None`: out of the crate.
    fn resolve(&self, at: &Path, path: &[String], trail: &mut Trail) -> Option<Target> {
        let mut at = at.clone();
        let mut names = path.iter();
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                names.next();
            }
            "self" => {
                names.next();
            }
            "super" => {
                for _ in path.iter().take_while(|name| *name == "super") {
                    at.pop()?;
                    names.next();
                }
            }
            // A name that is unknown here is another crate's, or a local one.
            first => match self.look_up(&at, first, trail)? {
                Target::Module(module) => {
                    at = module;
                    names.next();
                }
                Target::In(module) => return Some(Target::In(module)),
            },
        }
        for name in names {
            match self.look_up(&at, name, trail) {
                Some(Target::Module(module)) => at = module,
                Some(Target::In(module)) => return Some(Target::In(module)),
                // Defined by a macro.
                None if !self.hands_on(&at, name) => return Some(Target::In(at)),
                None => return None,
            }
        }
        Some(Target::Module(at))
    }

    /// The meaning of a name in a module; `None`: it is unknown there, or another crate's.
    fn look_up(&self, at: &Path, name: &str, trail: &mut Trail) -> Option<Target> {
        let child = [&at[..], &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if trail.iter().any(|(module, followed)| module == at && followed == name) {
            return None;
        }
        trail.push((at.clone(), name.to_owned()));
        let found = self.follow(at, name, trail);
        trail.pop();
        found
    }

    /// The same for a name that is not a child's.
    fn follow(&self, at: &Path, name: &str, trail: &mut Trail) -> Option<Target> {
        let module = self.modules.get(at)?;
        // A `use` is about something else if it leads to itself: `use log;` names a crate.
        let other = |import: &&Import| import.path.len() > 1 || import.path[0] != name;
        if let Some(import) = module.imports.iter().filter(other).find(|import| import.name.as_deref() == Some(name)) {
            return self.resolve(at, &import.path, trail);
        }
        if module.defined.contains(name) {
            return Some(Target::In(at.clone()));
        }
        let all = module.imports.iter().filter(|import| import.name.is_none());
        all.filter_map(|import| match self.resolve(at, &import.path, trail)? {
            Target::Module(from) if from != *at => self.look_up(&from, name, trail),
            _ => None,
        })
        .next()
    }

    /// Whether the module has the name by a `use` from another crate.
    fn hands_on(&self, at: &Path, name: &str) -> bool {
        let imports = self.modules.get(at).map_or(&[][..], |module| &module.imports);
        imports.iter().any(|import| import.name.as_deref() == Some(name))
    }
}

/// The module that a file below `src` is.
fn path_of(file: &str) -> Path {
    let names = file.strip_suffix(".rs").unwrap_or(file).split('/').map(str::to_owned);
    let mut path: Path = names.collect();
    let is_root = path.len() == 1 && (path[0] == "lib" || path[0] == "main");
    if is_root || path.last().is_some_and(|name| name == "mod") {
        path.pop();
    }
    path
}

/// Words that name what follows.
const DEFINES: [&str; 10] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

impl Module {
    fn parse(text: &str) -> Self {
        let source = Source::parse(text);
        let tokens = without_tests(&tokens(&source.code));
        let mut module = Self::default();
        // The blocks that are open, and whether each is one of a module within the file.
        let mut blocks: Vec<bool> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let token = tokens[at];
            let next = tokens.get(at + 1).copied().unwrap_or_default();
            let inner = blocks.iter().filter(|is_module| **is_module).count();
            match token {
                "use" if next != "<" => {
                    let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
                    let end = tokens[at..].iter().position(|token| *token == ";").map_or(tokens.len(), |len| at + len);
                    read_use(&tokens[at + 1..end], &mut Path::new(), &mut |name, path| {
                        let path = below(path, inner);
                        module.imports.push(Import { name, path, is_public });
                    });
                    at = end;
                    continue;
                }
                "{" => {
                    let is_module = at > 1 && tokens[at - 2] == "mod" && is_name(tokens[at - 1]);
                    blocks.push(is_module);
                }
                "}" => {
                    blocks.pop();
                }
                "mod" if is_name(next) && tokens.get(at + 2) == Some(&";") => {
                    module.declared.insert(next.to_owned());
                }
                _ if is_name(token) => {
                    let before = at.checked_sub(1).map_or("", |before| tokens[before]);
                    if DEFINES.contains(&before) || (before == "!" && at > 1 && tokens[at - 2] == "macro_rules") {
                        if blocks.is_empty() {
                            module.defined.insert(token.to_owned());
                        }
                    } else if !matches!(before, "." | "::") {
                        let path = path_at(&tokens[at..]);
                        module.words.insert(token.to_owned());
                        at += 2 * (path.len() - 1);
                        if path.len() > 1 {
                            module.paths.push(below(path, inner));
                        }
                    }
                }
                _ => {}
            }
            at += 1;
        }
        module
    }
}

/// The path as it is seen from the file, of one in a module so deep within it.
fn below(path: Path, depth: usize) -> Path {
    let supers = path.iter().take_while(|name| *name == "super").count();
    if depth == 0 || supers == 0 {
        return path;
    }
    let left = supers.saturating_sub(depth);
    let start = if left == 0 { vec!["self".to_owned()] } else { vec!["super".to_owned(); left] };
    [&start[..], &path[supers..]].concat()
}

/// The names at the start that `::` joins.
fn path_at(tokens: &[&str]) -> Path {
    let mut path = vec![tokens[0].to_owned()];
    let mut at = 1;
    while tokens.get(at) == Some(&"::") && tokens.get(at + 1).is_some_and(|name| is_name(name)) {
        path.push(tokens[at + 1].to_owned());
        at += 2;
    }
    path
}

/// Reads the text behind `use`: each name with its path, or `None` for all names of a module.
fn read_use(tokens: &[&str], prefix: &mut Path, found: &mut dyn FnMut(Option<String>, Path)) {
    let depth = prefix.len();
    let mut at = 0;
    // A leading `::` is another crate's.
    while let Some(&token) = tokens.get(at) {
        match token {
            "::" => at += 1,
            "{" => {
                let group = &tokens[at + 1..at + group_len(&tokens[at..]) - 1];
                for part in split_at_commas(group) {
                    read_use(part, &mut prefix.clone(), found);
                }
                break;
            }
            "*" => {
                found(None, prefix.clone());
                break;
            }
            "self" if depth > 0 => {
                found(Some(alias(&tokens[at..]).unwrap_or(&prefix[depth - 1]).to_owned()), prefix.clone());
                break;
            }
            name => {
                prefix.push(name.to_owned());
                if tokens.get(at + 1) != Some(&"::") {
                    found(Some(alias(&tokens[at..]).unwrap_or(name).to_owned()), prefix.clone());
                    break;
                }
                at += 1;
            }
        }
    }
}

/// The name behind `as`.
fn alias<'t>(tokens: &[&'t str]) -> Option<&'t str> {
    (tokens.get(1) == Some(&"as")).then(|| tokens.get(2).copied())?
}

fn split_at_commas<'s, 't>(tokens: &'s [&'t str]) -> Vec<&'s [&'t str]> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < tokens.len() {
        match tokens[at] {
            "{" => at += group_len(&tokens[at..]),
            "," => {
                parts.push(&tokens[from..at]);
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    parts.push(&tokens[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

fn is_name(token: &str) -> bool {
    token.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows as `from -> to`; the root is `crate`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let name = |path: &Path| if path.is_empty() { "crate".to_owned() } else { path.join("::") };
        let modules = Modules::parse(files.iter().copied());
        modules.arrows().iter().map(|(from, to)| format!("{} -> {}", name(from), name(to))).collect()
    }

    #[test]
    fn arrows_follow_paths_of_every_form() {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let b = ("b.rs", "pub struct B;");
        for code in [
            "use crate::b::B;",
            "use super::b::B;",
            "use crate::{b::{B as X}, c};",
            "use crate::b::{self, B};",
            "use crate::b; fn f() { b::B }",
            "use crate::b as other; fn f() { other::B }",
            "fn f(b: crate::b::B) {}",
            "#[arg(value_parser = crate::b::read)] struct A;",
            "use crate::b::*;",
            "mod inner { use super::super::b::B; }",
        ] {
            assert_eq!(arrows(&[root, ("a.rs", code), b, ("c.rs", "")]), ["a -> b"], "{code}");
        }
    }

    #[test]
    fn arrows_come_from_code_that_is_no_test() {
        let root = ("main.rs", "mod a; mod b; #[cfg(test)] mod tests;");
        for code in [
            "// use crate::b::B;",
            "fn f() { \"crate::b::B\" }",
            "#[cfg(test)] mod tests { use crate::b::B; }",
            "use std::b::B; fn f(x: X) { x.b::<B>() }",
            "use crate::b;",
            "fn b() { other::b::B }",
        ] {
            assert_eq!(
                arrows(&[root, ("a.rs", code), ("b.rs", ""), ("tests.rs", "use crate::a::A;")]),
                [""; 0],
                "{code}"
            );
        }
    }

    #[test]
    fn arrows_lead_to_where_a_name_is_defined() {
        let files = [
            ("lib.rs", "mod a; mod b; mod outer; pub use outer::Inner; pub struct Own;"),
            ("a.rs", "use crate::outer::Inner;"),
            ("b.rs", "use crate::{Inner, Own};"),
            ("outer/mod.rs", "mod inner; pub use inner::*;"),
            ("outer/inner.rs", "pub struct Inner;"),
        ];
        assert_eq!(arrows(&files), ["a -> outer::inner", "b -> crate", "b -> outer::inner"]);
    }

    #[test]
    fn arrows_of_a_child_go_past_what_its_parent_has_from_elsewhere() {
        let files = [
            ("lib.rs", "mod parent; mod other;"),
            ("parent.rs", "mod child; use crate::other::Other; fn f() { child::f() }"),
            ("parent/child.rs", "use super::Other;"),
            ("other.rs", "pub struct Other;"),
        ];
        assert_eq!(arrows(&files), ["parent -> other", "parent -> parent::child", "parent::child -> other"]);
    }

    #[test]
    fn arrows_of_a_parent_are_what_it_uses_and_not_what_it_hands_on() {
        let child = ("a/child.rs", "use super::Own;");
        let root = ("lib.rs", "mod a;");
        let handed_on = ("a.rs", "mod child; pub(crate) use child::Child; pub struct Own;");
        assert_eq!(arrows(&[root, handed_on, child]), ["a::child -> a"]);
        let used = ("a.rs", "mod child; pub(crate) use child::Child; pub struct Own(Child);");
        assert_eq!(arrows(&[root, used, child]), ["a -> a::child", "a::child -> a"]);
    }

    #[test]
    fn arrows_end_where_names_hand_each_other_on() {
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "pub use crate::b::X;"), ("b.rs", "pub use crate::a::X;")];
        assert_eq!(arrows(&files), [""; 0]);
    }

    #[test]
    fn names_of_other_crates_are_not_sought_again_and_again() {
        let code = "use other::one::*; use other::two::*; use third::*; use fourth::five::*; fn f() { other::g() }";
        assert_eq!(arrows(&[("lib.rs", "mod a;"), ("a.rs", code)]), [""; 0]);
    }
}
