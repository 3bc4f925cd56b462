//! Writes HTML that is well-formed XML as well, and in which no text can become markup: names of elements and
//! attributes are the program's own, and everything else is escaped.

use crate::plot::escape;

/// A page that grows.
#[derive(Debug, Default)]
pub(super) struct Markup {
    out: String,
}

/// Attributes of an element: names and values.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// An element and its content.
    pub(super) fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, inside: impl FnOnce(&mut Self)) {
        self.open(tag, attributes);
        self.out.push('>');
        inside(self);
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
        if is_block(tag) {
            self.out.push('\n');
        }
    }

    /// An element with a text inside.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |inside| inside.text(text));
    }

    /// An element that has nothing inside, like `meta`.
    pub(super) fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.out.push_str("/>\n");
    }

    /// Text, with all markup escaped.
    pub(super) fn text(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    /// Markup that this program made itself.
    pub(super) fn own(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    /// The written text.
    pub(super) fn finish(self) -> String {
        self.out
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(tag);
        for (name, value) in attributes {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            self.out.push_str(&escape(value));
            self.out.push('"');
        }
    }
}

/// Whether a line may end behind the element without a space being seen.
fn is_block(tag: &str) -> bool {
    !["a", "b", "code", "em", "small", "span", "strong"].contains(&tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_escapes_texts_and_values() {
        let mut page = Markup::default();
        page.element("p", &[("title", "\"><script>")], |p| p.leaf("code", &[], "</code>&\u{1}"));
        page.void("hr", &[]);
        let text = page.finish();
        let expected = "<p title=\"&quot;&gt;&lt;script&gt;\"><code>&lt;/code&gt;&amp; </code></p>\n<hr/>\n";
        assert_eq!(text, expected);
    }
}
