//! Status lines at the bottom of a terminal, which are redrawn in place.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use inhaul_base::table::{cut, width, wrapped};
use inhaul_mover::printable;

/// How large a terminal is, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Size that is assumed if a terminal does not report it.
const USUAL: Size = Size { columns: 80, rows: 24 };

impl Size {
    /// The size of the terminal now; it may be another one the next time.
    fn now() -> Self {
        match rustix::termios::tcgetwinsize(std::io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: usize::from(size.ws_col), rows: usize::from(size.ws_row) }
            }
            _ => USUAL,
        }
    }
}

/// The lines that are on the terminal now: other output must stand above them.
static SHOWN: Mutex<Option<Lines>> = Mutex::new(None);

/// Whether there is a terminal that can move its cursor.
pub(crate) fn is_there() -> bool {
    std::io::stderr().is_terminal() && !is_dumb()
}

/// Whether the terminal does nothing but print: it moves no cursor and has no colours.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the user's locale says that the terminal shows ASCII alone, as `LC_ALL=C` does. None that is set says nothing.
pub(crate) fn is_ascii() -> bool {
    static ASCII: OnceLock<bool> = OnceLock::new();
    *ASCII.get_or_init(|| !shows_utf8(|name| std::env::var_os(name)))
}

/// The locale by locale(7): the first variable that is set decides.
fn shows_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let locale = locale.map(|locale| locale.to_string_lossy().to_ascii_lowercase().replace('-', ""));
    locale.is_none_or(|locale| locale.contains("utf8"))
}

/// ASCII replacements of the characters that we draw with: eight heights of blocks, the rest of a bar, and the mark of
/// a cut.
pub(crate) fn drawn_in_ascii(c: char) -> Option<char> {
    match c {
        '\u{2581}'..='\u{2588}' => "._-=+*%#".chars().nth((c as usize) - 0x2581),
        '\u{2591}' => Some('-'),
        '\u{2026}' => Some('~'),
        _ => None,
    }
}

/// A line for a terminal that shows ASCII alone, as wide as it was.
pub(crate) fn to_ascii(line: &str) -> String {
    let plain = |c: char| drawn_in_ascii(c).unwrap_or(if c.is_ascii() { c } else { '?' });
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        let columns = if c.is_ascii() { 1 } else { width(c.encode_utf8(&mut [0; 4])) };
        text.extend(std::iter::repeat_n(plain(c), columns));
    }
    text
}

/// Draws lines in the place of the previous ones. `lines` makes them for the size that the terminal has now.
pub(crate) fn draw(lines: impl FnOnce(Size) -> Vec<String>) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let size = Size::now();
    let text = shown.get_or_insert_default().replace(lines(size), size);
    print(&text);
}

/// Takes the lines away.
pub(crate) fn clear() {
    if let Some(lines) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        print(&lines.erase(Size::now()));
    }
}

/// The text in lines that fit on the terminal, if standard error is one. Quoted text is not split.
pub(crate) fn by_words(text: &str) -> String {
    if !std::io::stderr().is_terminal() {
        return text.to_owned();
    }
    let columns = Size::now().columns;
    // Lines that begin with blanks are laid out already.
    let lines = |line: &str| if line.starts_with(' ') { vec![line.to_owned()] } else { wrapped(line, columns) };
    text.lines().flat_map(lines).collect::<Vec<_>>().join("\n")
}

/// Prints a line on standard error, above the lines that are drawn there if there are any.
pub(crate) fn print_above(line: &str) {
    match &mut *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(lines) => {
            let size = Size::now();
            let (erased, drawn) = (lines.erase(size), std::mem::take(&mut lines.drawn));
            print(&format!("{erased}{line}\n{}", lines.replace(drawn, size)));
        }
        None => print(&format!("{line}\n")),
    }
}

/// One write, so that no terminal shows half of it. A terminal that has gone away shows nothing.
fn print(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The drawn lines; the cursor is in the line below them.
#[derive(Debug, Default)]
struct Lines {
    drawn: Vec<String>,
}

impl Lines {
    /// What takes them away. A terminal that has become narrower since shows a line in several rows.
    fn erase(&self, size: Size) -> String {
        let rows_of = |line: &String| width(line).div_ceil(size.columns).max(1);
        match self.drawn.iter().map(rows_of).sum() {
            0 => String::new(),
            // Up, and away with all from there to the end of the screen.
            rows => format!("\r\x1b[{}A\x1b[J", rows.min(size.rows)),
        }
    }

    /// What draws `lines` in the place of the old ones: each cut at the edge of the terminal, and no more than it has
    /// rows for.
    fn replace(&mut self, lines: Vec<String>, size: Size) -> String {
        let mut text = self.erase(size);
        self.drawn = lines.into_iter().take(size.rows.saturating_sub(1)).map(|line| shown(&line, size)).collect();
        for line in &self.drawn {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// A line as it is drawn: always one line, with any content.
fn shown(line: &str, size: Size) -> String {
    let line = cut(&printable(line.as_bytes()), size.columns);
    if is_ascii() { to_ascii(&line) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(columns: usize, rows: usize) -> Size {
        Size { columns, rows }
    }

    #[test]
    fn lines_are_drawn_in_the_place_of_the_old_ones() {
        let mut lines = Lines::default();
        assert_eq!(lines.replace(vec!["a".to_owned(), "b".to_owned()], size(80, 24)), "a\nb\n");
        assert_eq!(lines.replace(vec!["c".to_owned()], size(80, 24)), "\r\x1b[2A\x1b[Jc\n");
        assert_eq!(lines.erase(size(80, 24)), "\r\x1b[1A\x1b[J");
    }

    #[test]
    fn lines_are_cut_at_the_edge_and_at_the_last_row() {
        let mut lines = Lines::default();
        let drawn = lines.replace(vec!["x".repeat(30); 9], size(20, 4));
        assert_eq!(drawn, format!("{}…\n", "x".repeat(19)).repeat(3));
    }

    #[test]
    fn lines_take_more_rows_when_the_terminal_became_narrower() {
        let mut lines = Lines::default();
        lines.replace(vec!["x".repeat(80), String::new(), "y".repeat(30)], size(80, 24));
        // Two rows, an empty one, and one; when it is wide again, three.
        assert_eq!(lines.erase(size(40, 24)), "\r\x1b[4A\x1b[J");
        assert_eq!(lines.erase(size(160, 24)), "\r\x1b[3A\x1b[J");
        assert_eq!(lines.erase(size(1, 24)), "\r\x1b[24A\x1b[J", "no further up than the screen has rows");
    }

    #[test]
    fn locale_says_what_a_terminal_shows() {
        let shows = |set: &[(&str, &str)]| {
            shows_utf8(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)))
        };
        assert!(
            shows(&[]) && shows(&[("LANG", "")]) && shows(&[("LANG", "de_DE.UTF-8")]) && shows(&[("LC_ALL", "C.utf8")])
        );
        assert!(!shows(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]) && !shows(&[("LC_CTYPE", "POSIX")]));
        assert!(shows(&[("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]) && !shows(&[("LANG", "de_DE@euro")]));
        assert_eq!(to_ascii("\u{2581}\u{2582}\u{2583}\u{2584}\u{2585}\u{2586}\u{2587}\u{2588}"), "._-=+*%#");
        let line = "\u{2588}\u{2588}\u{2591}  64 %  x\u{2026} \u{6771}e\u{301} a";
        let ascii = to_ascii(line);
        assert_eq!(ascii, "##-  64 %  x~ ??e a");
        assert_eq!(width(&ascii), width(line));
    }

    #[test]
    fn lines_do_nothing_to_the_terminal() {
        let mut lines = Lines::default();
        assert_eq!(lines.replace(vec!["a\x1b[2Jb\nc".to_owned()], size(80, 24)), "a\\u{1b}[2Jb\\nc\n");
    }
}
