//! The tokens of Rust code, and the part of them outside of tests.

/// The words and signs of `code`, which has neither comments nor insides of literals
/// ([`crate::source::Source::code`]). Quotes and lifetimes' apostrophes are left out; `::` is one sign, every other
/// sign is a character.
pub(crate) fn tokens(code: &str) -> Vec<&str> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            c if in_word(c) => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        if !matches!(first, '"' | '\'') {
            tokens.push(&rest[..len]);
        }
        rest = rest[len..].trim_start();
    }
    tokens
}

/// The tokens without items, fields and statements that `#[cfg(test)]` keeps for tests.
pub(crate) fn without_tests<'t>(tokens: &[&'t str]) -> Vec<&'t str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = attribute_end(tokens, at) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        if !is_for_tests(&tokens[at..end]) {
            kept.extend(&tokens[at..end]);
            at = end;
            continue;
        }
        at = end;
        // Further attributes of the same item go with it.
        while let Some(end) = attribute_end(tokens, at) {
            at = end;
        }
        at += item_len(&tokens[at..]);
    }
    kept
}

/// Behind the `]` of the attribute that begins at `at`, if one does.
fn attribute_end(tokens: &[&str], at: usize) -> Option<usize> {
    if tokens.get(at) != Some(&"#") || tokens.get(at + 1) != Some(&"[") {
        return None;
    }
    Some(at + 1 + group_len(&tokens[at + 1..]))
}

fn is_for_tests(attribute: &[&str]) -> bool {
    let starts = |with: &[&str]| attribute[2..].starts_with(with);
    starts(&["cfg", "(", "test", ")"]) || starts(&["cfg", "(", "all", "(", "test", ","])
}

/// The length of the group of brackets that the first token opens.
pub(crate) fn group_len(tokens: &[&str]) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The length of the item, field or statement at the start: to its `;`, its block's end, or before what closes the
/// group it is in.
fn item_len(tokens: &[&str]) -> usize {
    let words =
        ["use", "const", "static", "type", "let", "mod", "fn", "impl", "struct", "enum", "trait", "macro_rules"];
    let keyword = tokens.iter().take(8).find(|token| words.contains(token)).copied();
    let ends_with_block = keyword.is_some_and(|word| !matches!(word, "use" | "const" | "static" | "type" | "let"))
        || tokens.iter().take(8).any(|token| *token == "fn");
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            ";" => return at + 1,
            "," if keyword.is_none() => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if ends_with_block => return at + group_len(&tokens[at..]),
            "(" | "[" | "{" => at += group_len(&tokens[at..]),
            _ => at += 1,
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_and_signs() {
        assert_eq!(tokens("use a::{b as c};"), ["use", "a", "::", "{", "b", "as", "c", "}", ";"]);
        assert_eq!(tokens("f::<'a>(\" \")"), ["f", "::", "<", "a", ">", "(", ")"]);
    }

    fn kept(code: &str) -> String {
        without_tests(&tokens(code)).join(" ")
    }

    #[test]
    fn without_tests_leaves_out_the_item_and_no_more() {
        for of_tests in [
            "mod tests { use super::*; fn f() { g() } }",
            "mod tests;",
            "use a::{b, c};",
            "#[allow(x)] pub(crate) fn f(x: [u8; 2]) -> u8 { g(x) }",
            "impl A { fn f() {} }",
            "const A: B = B { c: 1 };",
            "pub(super) const fn f() {}",
            "struct A;",
            "let a = if b { c } else { d };",
        ] {
            assert_eq!(kept(&format!("fn a() {{}} #[cfg(test)] {of_tests} fn b")), "fn a ( ) { } fn b", "{of_tests}");
        }
        assert_eq!(kept("struct A { #[cfg(test)] b: C, d: E }"), "struct A { d : E }");
        assert_eq!(kept("struct A { #[cfg(test)] b: C }"), "struct A { }");
    }

    #[test]
    fn without_tests_keeps_other_attributes_and_their_items() {
        for code in ["#[cfg(not(test))] fn f() {}", "#[derive(A)] struct B;", "#[cfg(unix)] mod a;"] {
            assert_eq!(kept(code), tokens(code).join(" "));
        }
    }
}
