//! All output of the program: lines and JSON on standard output, messages on standard error.
//!
//! Control characters that a peer put into a name or a message have no effect: see [`inhaul_mover::printable`]. A
//! closed standard output is no error: the program's purpose is not its output. Standard output that cannot be written
//! for another reason, as on a full disk, is an error at the end ([`failure`]).

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use inhaul_mover::{ErrorKind, is_obeyed, is_output_closed, printable, printable_lines};
use serde::Serialize;

use crate::terminal;

/// Why standard output could not be written the first time.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints lines on standard output at once, even to a pipe.
pub(crate) fn announce(lines: &str) {
    let mut lines = printable_lines(lines);
    // Our own characters, in tables that are cut and in lines of blocks. Names and JSON stay unchanged.
    if terminal::is_ascii() && !lines.starts_with('{') && io::stdout().is_terminal() {
        lines = lines.chars().map(|c| terminal::drawn_in_ascii(c).unwrap_or(c)).collect();
    }
    let mut out = io::stdout().lock();
    note(writeln!(out, "{lines}").and_then(|()| out.flush()));
}

/// Prints bytes on standard output unchanged: a format that programs read.
pub(crate) fn announce_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    note(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Takes note of how writing to standard output went.
pub(crate) fn note(written: io::Result<()>) {
    // Without standard output, the runtime opens /dev/null in its place: all output was lost.
    let written = written.and_then(|()| if is_output_closed() { Err(closed()) } else { Ok(()) });
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        _ => {}
    }
}

/// The error of writing to standard output that was closed when the program began.
pub(crate) fn closed() -> io::Error {
    io::Error::other("it is closed")
}

/// The exit kind and the message, if standard output could not be written.
pub(crate) fn failure() -> Option<(ErrorKind, String)> {
    let error = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let full = error.kind() == io::ErrorKind::StorageFull || is_output_closed();
    let kind = if full { ErrorKind::NoSpace } else { ErrorKind::Destination };
    Some((kind, format!("standard output cannot be written ({error}): what is there is not all")))
}

/// Prints lines on standard error, above the progress display.
pub(crate) fn say(lines: &str) {
    terminal::print_above(&printable_lines(lines.trim_end_matches('\n')));
}

/// Prints a question on standard error, with the cursor behind it.
pub(crate) fn ask_on_stderr(question: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(printable_lines(question).as_bytes()).and_then(|()| err.flush());
}

/// Prints a message on standard error, always on one line; on a terminal, wrapped at words.
pub(crate) fn warn(message: &str) {
    say(&terminal::by_words(&format!("inhaul: {}", printable(message.as_bytes()))));
}

/// One line of JSON. Our own structures always have one: their keys are strings and their numbers are finite. Control
/// characters are written as their numbers, which programs read as the same.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|error| {
        format!("{{\"status\":\"failed\",\"error\":{{\"code\":\"internal\",\"message\":\"{error}\"}}}}")
    });
    if !json.contains(is_obeyed) {
        return json;
    }
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if is_obeyed(c) {
            // They can occur only within strings.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_same_to_a_program_and_nothing_to_a_terminal() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\n\u{e0041}\u{e9}";
        let json = to_json(&text);
        assert_eq!(json, "\"a\\u009b31m\\u007f\\u202e\\n\\udb40\\udc41\u{e9}\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
