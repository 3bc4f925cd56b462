//! Parts of the READMEs of experiments as HTML: paragraphs, lists and `code`, which is the Markdown that these parts
//! use.

use super::markup::Markup;

/// The lines between the title and the first heading: what the experiment is about.
pub(super) fn introduction(readme: &str) -> &str {
    let body =
        readme.trim_start().strip_prefix("# ").and_then(|rest| rest.split_once('\n')).map_or("", |(_, body)| body);
    body.split("\n## ").next().unwrap_or("").trim()
}

/// What stands under `## heading`; `None` if there is no such heading.
pub(super) fn section<'a>(readme: &'a str, heading: &str) -> Option<&'a str> {
    let sections = readme.split("\n## ").skip(1);
    let mut bodies = sections.filter_map(|section| section.split_once('\n'));
    bodies.find(|(name, _)| name.trim() == heading).map(|(_, body)| body.trim())
}

/// Writes paragraphs and lists. Comments are for those who check the figures.
pub(super) fn write(page: &mut Markup, markdown: &str) {
    let blocks = markdown.split("\n\n").map(str::trim);
    for block in blocks.filter(|block| !block.is_empty() && !block.starts_with("<!--")) {
        if let Some(list) = block.strip_prefix("- ") {
            page.element("ul", &[], |ul| {
                for item in list.split("\n- ") {
                    ul.element("li", &[], |li| inline(li, item));
                }
            });
        } else {
            page.element("p", &[], |p| inline(p, block));
        }
    }
}

/// Text with `code` between backticks. A backtick without a second one is text.
fn inline(page: &mut Markup, text: &str) {
    let mut rest = text;
    while let Some((before, code, after)) = next_code(rest) {
        page.text(before);
        page.leaf("code", &[], code);
        rest = after;
    }
    page.text(rest);
}

fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
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
    }

    #[test]
    fn write_knows_paragraphs_lists_and_code() {
        assert_eq!(html("It `b` < c.\nMore."), "<p>It <code>b</code> &lt; c. More.</p>\n");
        assert_eq!(html("- one `a`\n  b\n- two"), "<ul><li>one <code>a</code>   b</li>\n<li>two</li>\n</ul>\n");
        assert_eq!(html("a\n\n<!-- given: 5 s\n-->\n\nb"), "<p>a</p>\n<p>b</p>\n");
        assert_eq!(html("an odd ` tick"), "<p>an odd ` tick</p>\n");
    }
}
