//! Runs a program under filters that do what systemd's do for a unit: `confine UNIT PROGRAM ARGUMENT...`
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use inhaul_hostile_tests::Unit;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(unit), Some(program)) = (words.next(), words.next()) else {
        eprintln!("usage: confine UNIT PROGRAM ARGUMENT...");
        return ExitCode::FAILURE;
    };
    for filter in Unit::read(Path::new(&unit)).filters() {
        if let Err(error) = seccompiler::apply_filter(&filter) {
            eprintln!("confine: {error}");
            return ExitCode::FAILURE;
        }
    }
    let error = Command::new(program).args(words).exec();
    eprintln!("confine: {error}");
    ExitCode::FAILURE
}
