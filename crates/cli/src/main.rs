//! `inhaul`: the command line of the bulk data mover.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "the command line waits and tells the time to people")]

mod args;
mod bench;
mod completions;
mod copy;
mod doctor;
mod exit;
mod filter;
mod foreign;
mod get;
mod lab;
mod link;
mod logs;
mod ls;
mod man;
mod plan;
mod progress;
mod protocols;
mod put;
mod retry;
mod roff;
mod serve;
mod settings;
mod stream;
mod summary;
mod terminal;
mod transfer;
mod usage;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inhaul_mover::{Ask, MoveError, NetOptions, Stop};

use crate::args::{Command, Control, Transport, Wire};
use crate::exit::Failure;
use crate::settings::{Asked, SettingsError};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let Asked { cli, json } = match settings::parse(&arguments, &settings::environment) {
        Ok(asked) => asked,
        Err(error) => return refuse(error, &arguments),
    };
    logs::start(cli.program.log, cli.program.verbose);
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in settings::unknown_variables(variables) {
        log::warn!("{warning}");
    }
    match run(&cli.command) {
        Ok(()) => ExitCode::from(exit::COMPLETE),
        Err(failure) => failure.tell(json),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Get(args) => get::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Put(args) => put::run(args),
        Command::Copy(args) => copy::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Manifest(args) => verify::manifest(args),
        Command::Ls(args) => ls::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Protocols(args) => {
            protocols::run(args);
            Ok(())
        }
        Command::Completions(args) => {
            completions::run(args);
            Ok(())
        }
        Command::Man(args) => Ok(man::run(args)?),
        Command::Lab(command) => Ok(lab::run(command)?),
        Command::Link(command) => Ok(link::run(command)?),
    }
}

/// Says what is wrong with a command line or a setting, or shows the help that was asked for.
fn refuse(error: SettingsError, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let failure = match error {
        SettingsError::Setting(message) => Failure::usage(message),
        SettingsError::CommandLine(error) => match error.kind() {
            DisplayHelp | DisplayVersion => error.exit(),
            DisplayHelpOnMissingArgumentOrSubcommand => {
                eprint!("{error}");
                Failure::usage(usage::explain(&error, arguments).message)
            }
            _ => {
                let usage::Explanation { message, hint } = usage::explain(&error, arguments);
                Failure::usage(message).with_hint(hint)
            }
        },
    };
    failure.tell(settings::wants_json(arguments, &settings::environment))
}

/// A flag that Ctrl-C or SIGTERM sets; the second time the program ends at once.
fn stop_on_signals() -> Result<Stop, MoveError> {
    let stop = Stop::new();
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // In this order: the first signal finds the flag not set yet.
        let flag: Arc<AtomicBool> = stop.flag();
        let interrupted = i32::from(exit::code(inhaul_mover::ErrorKind::Interrupted));
        signal_hook::flag::register_conditional_shutdown(signal, interrupted, Arc::clone(&flag)).map_err(system)?;
        signal_hook::flag::register(signal, flag).map_err(system)?;
    }
    // A file beyond the user's limit (ulimit -f) is an error of the call that makes it, and not the end of the program.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map_err(system)?;
    Ok(stop)
}

/// A flag that a signal sets, rather than ends the program.
fn ask_by_signal(signal: i32) -> Result<Ask, MoveError> {
    let ask = Ask::default();
    let system = |source| MoveError::System { what: "cannot handle signals", source };
    signal_hook::flag::register(signal, ask.flag()).map_err(system)?;
    Ok(ask)
}

/// What the options that every command shares come to.
fn net_options(wire: &Wire, transport: &Transport) -> NetOptions {
    let mut parameters = transport.set.clone();
    if transport.control == Control::Paper {
        parameters.push(("control".to_owned(), "paper".to_owned()));
    }
    NetOptions {
        mtu: wire.mtu,
        offload: !wire.no_offload,
        cpu: wire.cpu,
        transport: transport.transport.clone(),
        parameters,
    }
}
