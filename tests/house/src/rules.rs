//! Rules over one source file or manifest. Each returns what breaks it, as `LINE: WHAT`.

use std::path::Path;

use crate::source::{Source, line_of, words};

/// Whether the file is tests alone.
pub fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| {
            let stem = stem.to_string_lossy();
            stem == "tests" || stem.ends_with("_tests")
        })
}

/// Macros that mark unfinished or temporary code.
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Words by which a comment says that something is unfinished.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Lints that keep clocks, hidden randomness and hash-map iteration out; only an engine may lift them.
const DETERMINISM_LINTS: &[&str] = &["clippy::disallowed_methods", "clippy::disallowed_types"];

/// No unsafe code in the file. For every file that is not below `crates/udp/src/sys`.
pub fn unsafe_code(source: &Source) -> Vec<String> {
    let found = source.identifiers("unsafe");
    found.into_iter().map(|at| finding(&source.code, at, "unsafe code stands only in crates/udp/src/sys")).collect()
}

/// A crate guards itself against unsafe code: by the lints of its manifest, its own or inherited, or by its root.
pub fn unguarded(manifest: &str, root: &Source) -> Vec<String> {
    let mut lines = manifest.lines().map(str::trim);
    let inherits = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
    let denies = manifest.lines().any(|l| ["unsafe_code = \"deny\"", "unsafe_code = \"forbid\""].contains(&l.trim()));
    let guarded = ["forbid(unsafe_code", "deny(unsafe_code"].iter().any(|guard| root.code.contains(guard));
    if inherits || denies || guarded {
        Vec::new()
    } else {
        vec!["neither the crate's lints nor its root deny unsafe_code".to_owned()]
    }
}

/// Every lint that is silenced says why.
pub fn allow_without_reason(source: &Source) -> Vec<String> {
    silenced(source)
        .filter(|(_, arguments)| words(arguments, "reason").is_empty())
        .map(|(at, arguments)| {
            finding(&source.code, at, &format!("`{}` is silenced without a reason", arguments.trim()))
        })
        .collect()
}

/// The crate does not lift the ban on clocks, randomness and hash maps. For every crate but the engines.
pub fn lifts_determinism(source: &Source) -> Vec<String> {
    silenced(source)
        .filter(|(_, arguments)| DETERMINISM_LINTS.iter().any(|lint| arguments.contains(lint)))
        .map(|(at, _)| {
            finding(
                &source.code,
                at,
                "only an engine (udp, emu, session and the crates above it, cli) may use clocks and hash maps",
            )
        })
        .collect()
}

/// The file does not sleep. For every file that is not on the list of allowed ones.
pub fn sleeps(source: &Source) -> Vec<String> {
    let calls = |name: &str| {
        let found = source.identifiers(name).into_iter();
        let is_call =
            |at: &usize| source.code[at + name.len()..].starts_with('(') && !source.code[..*at].ends_with("fn ");
        let what = "sleeps: wait for an event, or for a condition with a deadline";
        found.filter(is_call).map(|at| finding(&source.code, at, what)).collect::<Vec<_>>()
    };
    ["sleep", "sleep_ms", "park_timeout"].iter().flat_map(|name| calls(name)).collect()
}

/// Nothing says of itself that it is unfinished.
pub fn unfinished(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for name in UNFINISHED_MACROS {
        for at in source.identifiers(name) {
            if source.code[at + name.len()..].starts_with('!') {
                found.push(finding(&source.code, at, &format!("{name}! is unfinished code")));
            }
        }
    }
    for word in UNFINISHED_WORDS {
        for at in words(&source.comments, word) {
            let what = format!("a comment says {word}: finish it or open an issue");
            found.push(finding(&source.comments, at, &what));
        }
    }
    found
}

/// The file of the protocol folder `folder` imports no other of the `folders`.
pub fn imports_sibling(source: &Source, folder: &str, folders: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for parent in ["crate", "super", "inhaul_protocols"] {
        for at in source.identifiers(parent) {
            let Some(path) = source.code[at + parent.len()..].strip_prefix("::") else { continue };
            for name in heads(path) {
                if name != folder && folders.iter().any(|other| other == name) {
                    let what = format!("protocol {folder} imports protocol {name}");
                    found.push(finding(&source.code, at, &what));
                }
            }
        }
    }
    found
}

/// The first names of a path, or of each path of a group: `a` of `a::b`, `a` and `c` of `{a::b, c}`.
fn heads(path: &str) -> Vec<&str> {
    let name = |path: &str| path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let Some(group) = path.strip_prefix('{') else { return vec![&path[..name(path)]] };
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut start = Some(0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = Some(at + 1),
            c if c.is_whitespace() => {}
            _ if start.take().is_some() => heads.push(&group[at..at + name(&group[at..])]),
            _ => {}
        }
    }
    heads
}

/// Each `allow(...)` and `expect(...)` of an attribute: its place, and the text between its parentheses.
fn silenced(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    ["allow", "expect"].into_iter().flat_map(move |word| {
        source.identifiers(word).into_iter().filter_map(move |at| {
            let arguments = source.code[at + word.len()..].strip_prefix('(')?;
            in_attribute(&source.code[..at]).then(|| (at, balanced(arguments)))
        })
    })
}

/// Whether code that `before` leads up to stands in an attribute.
fn in_attribute(before: &str) -> bool {
    let opened = before.rfind("#[").max(before.rfind("#!["));
    opened.is_some_and(|at| {
        let brackets = |c: char| before[at..].matches(c).count();
        brackets('[') > brackets(']')
    })
}

/// The text up to the unmatched closing parenthesis.
fn balanced(text: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

fn finding(text: &str, at: usize, what: &str) -> String {
    format!("{}: {what}", line_of(text, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [&str; 0] = [];

    #[test]
    fn unsafe_code_is_seen_in_code_only() {
        assert_eq!(unsafe_code(&Source::parse("#![forbid(unsafe_code)] // unsafe { }\nlet s = \"unsafe\";")), NOTHING);
        let bad = Source::parse("fn f() {\n    unsafe { g() }\n}");
        assert_eq!(unsafe_code(&bad), ["2: unsafe code stands only in crates/udp/src/sys"]);
    }

    #[test]
    fn unguarded_accepts_lints_of_the_manifest_and_a_guard_in_the_root() {
        let inherits = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        let plain = "[package]\nname = \"a\"\nworkspace = true\n";
        assert_eq!(unguarded(inherits, &Source::parse("")), NOTHING);
        assert_eq!(unguarded("[lints.rust]\nunsafe_code = \"deny\"\n", &Source::parse("")), NOTHING);
        assert_eq!(unguarded("[lints.rust]\nunsafe_code = \"allow\"\n", &Source::parse("")).len(), 1);
        assert_eq!(unguarded(plain, &Source::parse("#![deny(unsafe_code)]")), NOTHING);
        assert_eq!(unguarded(plain, &Source::parse("// #![deny(unsafe_code)]")).len(), 1);
    }

    #[test]
    fn allow_without_reason_reads_every_form_of_attribute() {
        let good = r#"
            #![allow(clippy::disallowed_methods, reason = "the engine has the clock")]
            #[cfg_attr(test, expect(unused, reason = "(brackets)"))]
            fn f(result: Option<u8>) { policy.allow(1); result.expect("a value"); } // #[allow(dead_code)]
        "#;
        assert_eq!(allow_without_reason(&Source::parse(good)), NOTHING);
        for bad in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[cfg_attr(test, allow(dead_code))]",
            "#[expect(dead_code)]",
        ] {
            assert_eq!(
                allow_without_reason(&Source::parse(bad)),
                ["1: `dead_code` is silenced without a reason"],
                "{bad}"
            );
        }
    }

    #[test]
    fn lifts_determinism_sees_the_bans_among_other_lints() {
        assert_eq!(lifts_determinism(&Source::parse("#![allow(missing_docs, reason = \"r\")]")), NOTHING);
        let bad = Source::parse("#[allow(missing_docs, clippy::disallowed_types, reason = \"fast\")]");
        assert_eq!(
            lifts_determinism(&bad),
            ["1: only an engine (udp, emu, session and the crates above it, cli) may use clocks and hash maps"]
        );
    }

    #[test]
    fn sleeps_are_seen_in_every_form() {
        let good = "fn sleep() {} let sleep = 1; // sleep(1)\nrun(\"sleep(1)\"); poller.wait(asleep(2));";
        assert_eq!(sleeps(&Source::parse(good)), NOTHING);
        for bad in ["std::thread::sleep(TICK)", "use std::thread::sleep; sleep(x)", "thread::park_timeout(x)"] {
            let found = sleeps(&Source::parse(bad));
            assert_eq!(found, ["1: sleeps: wait for an event, or for a condition with a deadline"], "{bad}");
        }
    }

    #[test]
    fn unfinished_sees_macros_in_code_and_words_in_comments() {
        assert_eq!(unfinished(&Source::parse("let todo = 1; f(\"dbg!\", todo != 2)")), NOTHING);
        for name in UNFINISHED_MACROS {
            let bad = format!("\nfn f() {{ {name}!() }}");
            assert_eq!(unfinished(&Source::parse(&bad)), [format!("2: {name}! is unfinished code")]);
        }
        for word in UNFINISHED_WORDS {
            let bad = format!("// {word}: later");
            assert_eq!(unfinished(&Source::parse(&bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn imports_sibling_follows_paths_and_groups() {
        let folders = ["gtp", "udt", "tcp"].map(str::to_owned);
        let check = |text: &str| imports_sibling(&Source::parse(text), "gtp", &folders);
        assert_eq!(check("use crate::gtp::wire; use super::wire; use crate::registry; // crate::udt"), NOTHING);
        assert_eq!(check("use crate::udt::Header;"), ["1: protocol gtp imports protocol udt"]);
        assert_eq!(check("use super::super::tcp;"), ["1: protocol gtp imports protocol tcp"]);
        assert_eq!(check("let x = crate::udt::f();"), ["1: protocol gtp imports protocol udt"]);
        assert_eq!(
            check("use crate::{\n    gtp::{udt, wire},\n    tcp,\n    udt::{a, b},\n};"),
            ["1: protocol gtp imports protocol tcp", "1: protocol gtp imports protocol udt"]
        );
    }
}
