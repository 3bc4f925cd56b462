//! Two hosts and a link each way: the smallest grid, and how a program makes one.
//!
//!     two_hosts RATE ONE-WAY-DELAY-MS [spin] -- SERVER-COMMAND -- CLIENT-COMMAND
//!
//! The server's command runs in the host `b`, the client's in `a`; the report is printed as JSON.
#![allow(clippy::disallowed_methods, reason = "a program waits")]

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use inhaul_base::{Bitrate, Span};
use inhaul_emu::{
    Emulator, Grid, GridLink, Host, KEEPER_ARGUMENTS, Options, SpawnOptions, Stage, Stream, Wait, run_keeper,
};
use inhaul_link::{LinkSpec, QueueLimit};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The keeper of the namespaces is this program too.
    if let [link, keeper, stage] = &arguments[..]
        && [link, keeper] == KEEPER_ARGUMENTS
        && let Some(stage) = Stage::named(stage)
    {
        return run_keeper(stage);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("two_hosts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let mut parts = arguments.split(|word| word == "--");
    let (Some([rate, delay_ms, wait @ ..]), Some(server), Some(client)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err("write RATE DELAY-MS [spin] -- SERVER-COMMAND -- CLIENT-COMMAND".into());
    };
    let wait = if wait.is_empty() { Wait::Sleep } else { Wait::Spin };
    let emulator = Emulator::start(grid(rate.parse()?, delay_ms.parse()?), Options { wait, ..Options::default() })?;
    let show = || SpawnOptions { stdout: Stream::Inherit, stderr: Stream::Inherit, ..SpawnOptions::default() };
    let server = if server.is_empty() { None } else { Some(emulator.spawn("b", &command(server), show())?) };
    for _ in 0..100 {
        if server.is_none() || emulator.listens("b", None)? {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    emulator.begin();
    let status = emulator.spawn("a", &command(client), show())?.wait()?.status;
    let report = emulator.stop()?;
    println!("{status}\n{}", serde_json::to_string(&report)?);
    Ok(())
}

/// A link each way with a queue of one round-trip time.
fn grid(rate: Bitrate, delay_ms: u64) -> Grid {
    let delay = Span::from_millis(delay_ms);
    let spec = LinkSpec::drop_tail(rate, delay, QueueLimit::Bytes(rate.bytes_in(delay * 2).max(30_000)));
    let host = |name: &str| Host { name: name.to_owned(), mtu: 1500 };
    let link = |name: &str| GridLink { name: name.to_owned(), spec: spec.clone() };
    let paths = [((0, 1), vec![0]), ((1, 0), vec![1])].into_iter().collect();
    Grid { hosts: vec![host("a"), host("b")], links: vec![link("there"), link("back")], paths, ..Grid::default() }
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
