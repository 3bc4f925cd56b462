//! What goes to standard output: lines, and JSON.

use std::io::Write;

use serde::Serialize;

/// Prints a line on standard output at once, even to a pipe. A reader that has gone away is not an error.
pub(crate) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// One line of JSON. Our own structures always have one: their keys are strings and their numbers are finite.
pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        format!("{{\"status\":\"failed\",\"error\":{{\"code\":\"internal\",\"message\":\"{error}\"}}}}")
    })
}
