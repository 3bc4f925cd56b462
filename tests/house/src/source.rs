//! A Rust source file as the rules look at it: its code without its comments, and the other way round.

/// A source file taken apart. Both views keep the file's line breaks, so that line numbers agree.
#[derive(Debug)]
pub struct Source {
    /// The code: comments and the insides of string and character literals are blanks.
    pub code: String,
    /// The comments: everything else is blanks.
    pub comments: String,
}

/// The kind of a stretch of a file.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Takes `text` apart. Text that is no valid Rust gives some answer, never a panic.
    pub fn parse(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut source = Self { code: String::new(), comments: String::new() };
        let mut at = 0;
        while at < chars.len() {
            let (part, len) = next_part(&chars, at);
            let end = (at + len).min(chars.len());
            source.append(part, &chars[at..end]);
            at = end;
        }
        source
    }

    fn append(&mut self, part: Part, chars: &[char]) {
        let last = chars.len().saturating_sub(1);
        for (i, &c) in chars.iter().enumerate() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            // The quotes around a literal stay: "there is a string here" is code.
            let quote = part == Part::Literal && (i == 0 || i == last);
            self.code.push(if part == Part::Code || quote { c } else { blank });
            self.comments.push(if part == Part::Comment { c } else { blank });
        }
    }

    /// Where the identifier `word` stands in the code, in bytes.
    pub fn identifiers(&self, word: &str) -> Vec<usize> {
        words(&self.code, word)
    }
}

/// The number of the line, from 1, in which the byte at `offset` of `text` stands.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

/// Where `word` stands in `text` as a whole word, in bytes.
pub(crate) fn words(text: &str, word: &str) -> Vec<usize> {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .map(|(start, _)| start)
        .filter(|&start| {
            !text[..start].chars().next_back().is_some_and(joins)
                && !text[start + word.len()..].chars().next().is_some_and(joins)
        })
        .collect()
}

/// What begins at `at`, and how many characters it has.
fn next_part(chars: &[char], at: usize) -> (Part, usize) {
    let rest = &chars[at..];
    let inside_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match rest {
        ['/', '/', ..] => (Part::Comment, rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => (Part::Comment, block_comment_len(rest)),
        ['"', ..] => (Part::Literal, quoted_len(rest, '"')),
        ['r', '"' | '#', ..] if !inside_word => raw_string(rest),
        // `br"` and `cr"`: the letter before is code, the raw string follows.
        ['b' | 'c', 'r', '"' | '#', ..] if !inside_word => {
            let (part, len) = raw_string(&rest[1..]);
            (part, len + 1)
        }
        ['\'', '\\', ..] => (Part::Literal, quoted_len(rest, '\'')),
        ['\'', _, '\'', ..] => (Part::Literal, 3),
        _ => (Part::Code, 1),
    }
}

/// Length of the block comment at the start of `rest`; block comments nest.
fn block_comment_len(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of the literal at the start of `rest` that ends with `quote`, escapes minded.
fn quoted_len(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The raw string at the start of `rest`, which is an `r`; a raw identifier (`r#type`) is code.
fn raw_string(rest: &[char]) -> (Part, usize) {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    let open = 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return (Part::Code, 1);
    }
    let closes = |at: usize| rest[at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let end = (open + 1..rest.len()).find(|&at| closes(at)).map_or(rest.len(), |at| at + 1 + hashes);
    (Part::Literal, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are left of the code.
    fn code(text: &str) -> String {
        Source::parse(text).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn comments(text: &str) -> String {
        Source::parse(text).comments.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn parse_splits_comments_from_code() {
        let text = "let a = 1; // one\n/* two /* nested */ still */ let b = 2; /// three";
        assert_eq!(code(text), "let a = 1; let b = 2;");
        assert_eq!(comments(text), "// one /* two /* nested */ still */ /// three");
    }

    #[test]
    fn parse_blanks_literals_of_every_kind() {
        assert_eq!(code(r#"f("a // b", 'c', b'\'', "\"d")"#), "f(\" \", ' ', b' ', \" \")");
        assert_eq!(code(r###"f(r#"a "b" // c"#, br"d")"###).replace(' ', ""), "f(r#,b\")");
        assert_eq!(comments(r#"f("// not a comment")"#), "");
    }

    #[test]
    fn parse_keeps_lifetimes_and_raw_identifiers() {
        assert_eq!(code("fn f<'a>(r#type: &'a str) -> &'a str"), "fn f<'a>(r#type: &'a str) -> &'a str");
    }

    #[test]
    fn parse_survives_text_that_breaks_off() {
        for text in ["\"open", "/* open", "r#\"open", "'\\", "r#", "b"] {
            assert_eq!(Source::parse(text).code.chars().count(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn line_of_counts_lines_across_comments() {
        let source = Source::parse("/* a\nb */\nlet here = 1;");
        assert_eq!(line_of(&source.code, source.identifiers("here")[0]), 3);
    }

    #[test]
    fn identifiers_finds_whole_words_only() {
        assert_eq!(Source::parse("unsafe_code; is_unsafe; unsafe {}").identifiers("unsafe"), [24]);
    }
}
