//! Converts the Markdown of this project's documents to roff, the language of man pages.

/// A page from a document: its first heading is the page's subject, the others are its sections. `refer` makes a
/// reference of a link's target, if it has one.
pub(crate) fn from_markdown(text: &str, refer: &dyn Fn(&str) -> Option<String>) -> String {
    let mut writer = Writer { out: String::new(), refer };
    let mut lines = text.lines().peekable();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut headings: Vec<String> = Vec::new();
    while let Some(line) = lines.next() {
        let is_table = line.starts_with('|');
        let item = item(line);
        if line.trim().is_empty() || line.starts_with('#') || line.starts_with("```") || is_table || item.is_some() {
            writer.paragraph(&mut paragraph);
        }
        if let Some(heading) = line.strip_prefix("### ") {
            writer.control("SS", heading);
        } else if let Some(heading) = line.strip_prefix("## ") {
            writer.control("SH", &heading.to_uppercase());
        } else if line.starts_with("# ") || line.trim().is_empty() {
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            writer.code(&code);
        } else if paragraph.is_empty() && line.starts_with("    ") {
            let mut code = vec![&line[4..]];
            while let Some(next) = lines.next_if(|next| next.starts_with("    ")) {
                code.push(&next[4..]);
            }
            writer.code(&code);
        } else if is_table {
            let cells = cells(line);
            match lines.next_if(|next| next.starts_with("|--") || next.starts_with("|:")) {
                Some(_) => headings = cells,
                None => writer.row(&headings, &cells),
            }
        } else if let Some((mark, first)) = item {
            let mut text = first.to_owned();
            while let Some(next) =
                lines.next_if(|next| next.starts_with("  ") && self::item(next.trim_start()).is_none())
            {
                text = format!("{text} {}", next.trim());
            }
            writer.item(mark, &text);
        } else {
            paragraph.push(line);
        }
    }
    writer.paragraph(&mut paragraph);
    writer.out
}

/// Text that a formatter shows as it is.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // At the start of a line these would begin a request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// Lines that stay as they are.
pub(crate) fn verbatim<'t>(lines: impl IntoIterator<Item = &'t str>) -> String {
    let lines: String = lines.into_iter().map(|line| format!("{}\n", escaped(line))).collect();
    format!(".PP\n.RS 4\n.nf\n{lines}.fi\n.RE\n")
}

/// The mark of a list's item, and its first line.
fn item(line: &str) -> Option<(&str, &str)> {
    if let Some(text) = line.strip_prefix("- ").or(line.strip_prefix("* ")) {
        return Some(("\\(bu", text));
    }
    let (number, text) = line.split_once(". ")?;
    (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit())).then_some((number, text))
}

fn cells(line: &str) -> Vec<String> {
    // A pipe that is meant is written as '\|'.
    let line = line.trim().trim_matches('|').replace("\\|", "\u{1}");
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

struct Writer<'r> {
    out: String,
    refer: &'r dyn Fn(&str) -> Option<String>,
}

impl Writer<'_> {
    fn control(&mut self, name: &str, text: &str) {
        let text = escaped(&text.replace('`', "")).replace('"', "\\(dq");
        self.out.push_str(&format!(".{name} \"{text}\"\n"));
    }

    fn paragraph(&mut self, lines: &mut Vec<&str>) {
        if !lines.is_empty() {
            let text = self.inline(&lines.join(" "));
            self.out.push_str(&format!(".PP\n{text}\n"));
            lines.clear();
        }
    }

    fn code(&mut self, lines: &[&str]) {
        self.out.push_str(&verbatim(lines.iter().copied()));
    }

    fn item(&mut self, mark: &str, text: &str) {
        let text = self.inline(text);
        self.out.push_str(&format!(".IP {mark} 4\n{text}\n"));
    }

    /// A row of a table: its first cell is the subject of the others.
    fn row(&mut self, headings: &[String], cells: &[String]) {
        let Some((first, others)) = cells.split_first() else { return };
        let tag = self.inline(first);
        let mut said = Vec::new();
        for (index, cell) in others.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            // With more than two columns, each cell needs its heading, except the last: that is the explanation.
            let heading = headings.get(index + 1).filter(|heading| !heading.is_empty() && index + 1 < others.len());
            let cell = self.inline(cell);
            said.push(match heading {
                Some(heading) => format!("({}: {cell})", self.inline(heading)),
                None => cell,
            });
        }
        let tag = if tag.is_empty() { "\\&".to_owned() } else { tag };
        self.out
            .push_str(&format!(".TP\n{tag}\n{}\n", if said.is_empty() { "\\&".to_owned() } else { said.join("\n") }));
    }

    /// Code and strong words in bold, links as references.
    fn inline(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['`', '[', '*', '!']) {
            let (before, from) = rest.split_at(at);
            out.push_str(&plain(before));
            rest = self.marked(from, &mut out);
        }
        out.push_str(&plain(rest));
        let starts_a_request = out.starts_with(['.', '\'']);
        if starts_a_request { format!("\\&{out}") } else { out }
    }

    /// Writes the marked piece at the beginning of `from`, and returns the rest.
    fn marked<'t>(&self, from: &'t str, out: &mut String) -> &'t str {
        if let Some((inner, after)) = from.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
            out.push_str(&format!("\\fB{}\\fR", self.inline(inner)));
            return after;
        }
        if let Some((code, after)) = from.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
            out.push_str(&format!("\\fB{}\\fR", plain(code)));
            return after;
        }
        // A picture has no place on a page.
        let link = from.strip_prefix("![").or(from.strip_prefix('[')).and_then(|rest| rest.split_once("]("));
        if let Some((text, (target, after))) = link.and_then(|(text, rest)| Some((text, rest.split_once(')')?)))
            && !text.contains('[')
        {
            out.push_str(&match (self.refer)(target) {
                _ if from.starts_with('!') => String::new(),
                Some(page) if text == target => page,
                Some(page) => format!("{} ({page})", self.inline(text)),
                None if target.contains("://") => format!("{} <{}>", self.inline(text), plain(target)),
                None => self.inline(text),
            });
            return after;
        }
        out.push_str(&plain(&from[..1]));
        &from[1..]
    }
}

/// Text in the middle of a line.
fn plain(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> String {
        from_markdown(text, &|target| (target == "json.md").then(|| "inhaul\\-json(5)".to_owned()))
    }

    #[test]
    fn paragraphs_and_sections() {
        assert_eq!(
            made("# Title\n\nOne\ntwo.\n\n## A `part`\n\n.dot\n"),
            ".PP\nOne two.\n.SH \"A PART\"\n.PP\n\\&.dot\n"
        );
    }

    #[test]
    fn words_in_bold_and_links() {
        assert_eq!(
            made(
                "Use `--json` or **both**: [json.md](json.md), [this](json.md), [other](x.md), [web](https://a/b-c) [x] 2 * 3!"
            ),
            ".PP\nUse \\fB\\-\\-json\\fR or \\fBboth\\fR: inhaul\\-json(5), this (inhaul\\-json(5)), other, web <https://a/b\\-c> [x] 2 * 3!\n"
        );
    }

    #[test]
    fn code_stays_as_it_is() {
        let expected = ".PP\n.RS 4\n.nf\n\\&.a\\e\\-b\n  c\n.fi\n.RE\n";
        assert_eq!(made("```text\n.a\\-b\n  c\n```"), expected);
        assert_eq!(made("    .a\\-b\n      c"), expected);
    }

    #[test]
    fn lists_have_items_of_several_lines() {
        assert_eq!(
            made("- one\n  more\n- two\n\n1. first"),
            ".IP \\(bu 4\none more\n.IP \\(bu 4\ntwo\n.IP 1 4\nfirst\n"
        );
    }

    #[test]
    fn tables_become_terms_with_what_is_said_of_them() {
        assert_eq!(
            made("| field | unit | meaning |\n|---|---|---|\n| `a_b` | s | What \\| it is. |\n| `c` | | Else. |\n"),
            ".TP\n\\fBa_b\\fR\n(unit: s)\nWhat | it is.\n.TP\n\\fBc\\fR\nElse.\n"
        );
        assert_eq!(made("| | |\n|---|---|\n| a | b |"), ".TP\na\nb\n");
    }
}
