//! The READMEs of experiments, which are Markdown, as HTML.

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::markup::Markup;

/// The lines between the title and the first heading: the subject of the experiment.
pub(super) fn introduction(readme: &str) -> &str {
    let body =
        readme.trim_start().strip_prefix("# ").and_then(|rest| rest.split_once('\n')).map_or("", |(_, body)| body);
    body.split("\n## ").next().unwrap_or("").trim()
}

/// The headings of the second level, each with the text below it.
pub(super) fn sections(readme: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = readme.split("\n## ").skip(1);
    sections
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .map(|(name, body)| (name.trim(), body.trim()))
}

/// The text under `## heading`; `None` if there is no such heading.
pub(super) fn section<'a>(readme: &'a str, heading: &str) -> Option<&'a str> {
    sections(readme).find(|(name, _)| *name == heading).map(|(_, body)| body)
}

/// Writes Markdown. Comments are left out: they are for checks of figures. Of links only the text stays: they lead to
/// files that are not beside the page.
pub(super) fn write(page: &mut Markup, markdown: &str) {
    inside(page, &mut Parser::new_ext(markdown, Options::ENABLE_TABLES));
}

/// Writes events up to the end of the element that they are in.
fn inside<'a>(page: &mut Markup, events: &mut impl Iterator<Item = Event<'a>>) {
    while let Some(event) = events.next() {
        match event {
            Event::End(_) => return,
            Event::Start(tag) => element(page, &tag, events),
            Event::Text(text) => page.text(&text),
            Event::Code(code) => page.leaf("code", &[], &code),
            Event::SoftBreak => page.text(" "),
            Event::HardBreak => page.void("br", &[]),
            // Comments and other raw markup.
            _ => {}
        }
    }
}

fn element<'a>(page: &mut Markup, tag: &Tag<'_>, events: &mut impl Iterator<Item = Event<'a>>) {
    match tag {
        Tag::Table(_) => page.element("div", &[("class", "scroll")], |scroll| {
            scroll.element("table", &[], |table| inside(table, events));
        }),
        Tag::TableHead => page.element("thead", &[], |head| {
            head.element("tr", &[], |row| {
                while let Some(Event::Start(Tag::TableCell)) = events.next() {
                    row.element("th", &[("scope", "col")], |cell| inside(cell, events));
                }
            });
        }),
        Tag::CodeBlock(_) => page.element("pre", &[], |pre| pre.element("code", &[], |code| inside(code, events))),
        tag => match name(tag) {
            Some(name) => page.element(name, &[], |element| inside(element, events)),
            None => inside(page, events),
        },
    }
}

/// The element for a tag; `None`: only its content is written.
fn name(tag: &Tag<'_>) -> Option<&'static str> {
    Some(match tag {
        Tag::Paragraph => "p",
        Tag::Heading { .. } => "h3",
        Tag::List(None) => "ul",
        Tag::List(Some(_)) => "ol",
        Tag::Item => "li",
        Tag::TableRow => "tr",
        Tag::TableCell => "td",
        Tag::Emphasis => "em",
        Tag::Strong => "strong",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Title\n\nWhat it is.\n\n## How\n\n- one `a`\n  goes on\n- two\n\n## What did not come out\n\nIt `b` < c.\nMore.\n";

    fn html(markdown: &str) -> String {
        let mut page = Markup::default();
        write(&mut page, markdown);
        page.finish()
    }

    #[test]
    fn introduction_and_section_cut_the_text() {
        assert_eq!(introduction(README), "What it is.");
        assert_eq!(section(README, "What did not come out"), Some("It `b` < c.\nMore."));
        assert_eq!(section(README, "How"), Some("- one `a`\n  goes on\n- two"));
        assert_eq!(section(README, "none"), None);
        assert_eq!((introduction(""), introduction("no title\n## x")), ("", ""));
        assert_eq!(sections(README).map(|(name, _)| name).collect::<Vec<_>>(), ["How", "What did not come out"]);
    }

    #[test]
    fn write_knows_the_markdown_of_readmes() {
        assert_eq!(html("It `b` < c.\nMore."), "<p>It <code>b</code> &lt; c. More.</p>\n");
        assert_eq!(html("- one `a`\n  b\n- two"), "<ul><li>one <code>a</code> b</li>\n<li>two</li>\n</ul>\n");
        assert_eq!(html("a\n\n<!-- given: 5 s\n-->\n\nb"), "<p>a</p>\n<p>b</p>\n");
        assert_eq!(html("an odd ` tick"), "<p>an odd ` tick</p>\n");
        assert_eq!(html("**So** [it](../x.md) is."), "<p><strong>So</strong> it is.</p>\n");
        assert_eq!(html("    inhaul lab <X>"), "<pre><code>inhaul lab &lt;X&gt;</code></pre>\n");
        let table = html("| a | b |\n|---|---|\n| 1 | 2 |\n");
        assert!(table.contains("<thead><tr><th scope=\"col\">a</th>") && table.contains("<tr><td>1</td>"), "{table}");
    }

    #[test]
    fn markup_in_a_readme_is_left_out() {
        assert_eq!(html("a <script>b</script> c"), "<p>a b c</p>\n");
        assert!(!html("<script>\nalert(1)\n</script>\n").contains("script"));
    }
}
