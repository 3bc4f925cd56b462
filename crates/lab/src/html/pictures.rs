//! Puts several pictures into one page: makes their ids unique, and stores glyphs that they share once.

use std::collections::BTreeSet;

/// The pictures of a page.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// The outlines of letters that the pictures use, a line of SVG each. All are of the one embedded font, so equal
    /// names mean equal outlines.
    letters: BTreeSet<String>,
    count: usize,
}

impl Pictures {
    /// An SVG document of [`crate::plot`] as a part of the page.
    ///
    /// `plot` writes every definition on a line of its own, and no quotes or brackets in texts, so its lines can be
    /// told apart.
    pub(super) fn part(&mut self, document: &str) -> String {
        self.count += 1;
        let window = format!("window{}", self.count);
        let mut part = String::with_capacity(document.len());
        for line in document.lines() {
            if line.starts_with("<path id=\"g") {
                self.letters.insert(line.to_owned());
                continue;
            }
            let line = line.replace("id=\"window\"", &format!("id=\"{window}\""));
            part.push_str(&line.replace("clip-path=\"url(#window)\"", &format!("clip-path=\"url(#{window})\"")));
            part.push('\n');
        }
        part
    }

    /// The letters of all pictures; nothing of it is seen.
    pub(super) fn letters(&self) -> String {
        let letters: Vec<&str> = self.letters.iter().map(String::as_str).collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"0\" height=\"0\" class=\"letters\" aria-hidden=\"true\"><defs>\n{}\n</defs></svg>\n",
            letters.join("\n")
        )
    }
}
