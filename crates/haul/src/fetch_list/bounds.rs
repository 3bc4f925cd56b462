//! What a Metalink's elements may be, looked at in one pass before the document is read.
//!
//! A reader of XML compares each attribute of an element with those before it, and each name space with those in
//! scope: time that grows with the square of their number. Metalink 4 needs at most three attributes on an element and
//! five levels of elements, so there is a limit to both.

use super::item::FetchListError;

/// Most attributes of one element, name spaces included.
pub(super) const ATTRIBUTES_MAX: usize = 32;
/// Most elements that lie in each other.
pub(super) const DEPTH_MAX: usize = 32;
/// Most name spaces that elements which lie in each other declare together.
const NAMESPACES_MAX: usize = 32;
/// Longest tag, in bytes: the longest path of a file fits, each of its characters written as a number.
const TAG_BYTES_MAX: usize = 64 << 10;

/// Looks at the tags of `text`. What is no XML is left to the reader.
pub(super) fn check(text: &str) -> Result<(), FetchListError> {
    let mut lines = Lines::new(text.as_bytes());
    let mut rest = text.as_bytes();
    // Of each element that is open: the name spaces that it declares.
    let mut open: Vec<usize> = Vec::new();
    let mut namespaces = 0;
    while let Some(start) = rest.iter().position(|&byte| byte == b'<') {
        rest = &rest[start..];
        let line = |lines: &mut Lines<'_>| lines.at(text.len() - rest.len());
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].iter().find_map(|(begin, end)| {
            let inside = rest.strip_prefix(begin.as_bytes())?;
            Some(
                inside
                    .windows(end.len())
                    .position(|window| window == end.as_bytes())
                    .map(|at| &inside[at + end.len()..]),
            )
        });
        match skipped {
            Some(Some(behind)) => {
                rest = behind;
                continue;
            }
            // It has no end: the reader says so.
            Some(None) => return Ok(()),
            None => {}
        }
        let Some(tag) = Tag::read(rest) else { return Ok(()) };
        if tag.bytes > TAG_BYTES_MAX {
            return Err(FetchListError::TooLong { line: line(&mut lines), what: "a tag", most: TAG_BYTES_MAX });
        }
        if tag.attributes > ATTRIBUTES_MAX {
            let (what, most) = ("attributes of one element", ATTRIBUTES_MAX);
            return Err(FetchListError::TooMany { line: line(&mut lines), what, most });
        }
        match tag.kind {
            TagKind::End => namespaces -= open.pop().unwrap_or_default(),
            TagKind::Start | TagKind::Empty => {
                if namespaces + tag.namespaces > NAMESPACES_MAX {
                    let (what, most) = ("name spaces in one place", NAMESPACES_MAX);
                    return Err(FetchListError::TooMany { line: line(&mut lines), what, most });
                }
                if open.len() >= DEPTH_MAX {
                    let (what, most) = ("elements in each other", DEPTH_MAX);
                    return Err(FetchListError::TooMany { line: line(&mut lines), what, most });
                }
                if tag.kind == TagKind::Start {
                    open.push(tag.namespaces);
                    namespaces += tag.namespaces;
                }
            }
        }
        rest = &rest[tag.bytes..];
    }
    Ok(())
}

/// What a tag is.
struct Tag {
    kind: TagKind,
    bytes: usize,
    attributes: usize,
    namespaces: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagKind {
    Start,
    End,
    Empty,
}

impl Tag {
    /// The tag that `text` begins with; `None` if it has no end.
    fn read(text: &[u8]) -> Option<Self> {
        let (mut attributes, mut namespaces, mut quote) = (0, 0, None);
        let mut name = 1;
        for (at, &byte) in text.iter().enumerate().skip(1) {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => {
                    attributes += 1;
                    namespaces += usize::from(text[name..at].starts_with(b"xmlns"));
                }
                (None, b' ' | b'\t' | b'\r' | b'\n') => name = at + 1,
                (None, b'>') => {
                    let kind = match (text.get(1), text[at - 1]) {
                        (Some(b'/'), _) => TagKind::End,
                        (_, b'/') => TagKind::Empty,
                        _ => TagKind::Start,
                    };
                    return Some(Self { kind, bytes: at + 1, attributes, namespaces });
                }
                (None, _) => {}
            }
        }
        None
    }
}

/// Counts lines, once over the whole text: places are asked for in the order of the text.
pub(super) struct Lines<'t> {
    text: &'t [u8],
    passed: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    pub(super) const fn new(text: &'t [u8]) -> Self {
        Self { text, passed: 0, line: 1 }
    }

    /// The line of the byte at `place`, no earlier than the one that was asked for before.
    pub(super) fn at(&mut self, place: usize) -> usize {
        if let Some(passed) = self.text.get(self.passed..place) {
            self.line += passed.iter().filter(|byte| **byte == b'\n').count();
            self.passed = place;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_takes_what_lists_have() {
        let text = "<?xml version='1.0'?>\n<!-- <a <b --><metalink xmlns='x' xmlns:y=\"y\"><file name='a=b > c'><![CDATA[<<]]>\
                    <url/></file><file\nname=\"d\"/></metalink>";
        assert_eq!(check(text), Ok(()));
        for odd in ["", "<", "<a", "<!--", "<![CDATA[", "<?", "</a></a>", "<a b='", "=<=>=", "<>", "</>"] {
            assert_eq!(check(odd), Ok(()), "{odd}: the reader has to say what is wrong");
        }
        let many = format!("<a>{}</a>", "<b c='1' xmlns='x'/><b xmlns='y'></b>".repeat(1000));
        assert_eq!(check(&many), Ok(()), "elements beside each other count alone");
    }

    #[test]
    fn check_refuses_what_no_list_has() {
        let attributes = |count| (0..count).map(|k| format!(" a{k}='1'")).collect::<String>();
        assert_eq!(check(&format!("\n<a{}/>", attributes(ATTRIBUTES_MAX))), Ok(()));
        let most = ATTRIBUTES_MAX;
        let error = check(&format!("\n<a{}/>", attributes(most + 1))).unwrap_err();
        assert_eq!(error, FetchListError::TooMany { line: 2, what: "attributes of one element", most });
        assert_eq!(check(&("<a>".repeat(DEPTH_MAX) + &"</a>".repeat(DEPTH_MAX))), Ok(()));
        let deep = check(&"\n<a>".repeat(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(deep, FetchListError::TooMany { line: 34, what: "elements in each other", most: DEPTH_MAX });
        let spaces = (0..20).map(|k| format!(" xmlns:a{k}='1'")).collect::<String>();
        let error = check(&format!("<a{spaces}><b{spaces}/></a>")).unwrap_err();
        assert!(matches!(error, FetchListError::TooMany { what: "name spaces in one place", .. }), "{error}");
        let long = check(&format!("<a b='{}'/>", "x".repeat(TAG_BYTES_MAX))).unwrap_err();
        assert!(matches!(long, FetchListError::TooLong { line: 1, .. }), "{long}");
    }
}
