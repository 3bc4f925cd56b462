//! `inhaul`: the command line of the bulk data mover.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![allow(clippy::disallowed_methods, reason = "the command line waits and tells the time to people")]

mod args;
mod bench;
mod checksums;
mod completions;
mod copy;
mod dialect;
mod doctor;
#[cfg(test)]
mod documented;
mod exit;
#[cfg(test)]
mod figures;
mod foreign;
mod get;
mod hint;
mod key;
mod lab;
mod link;
mod logs;
mod ls;
mod man;
mod mend;
mod metrics;
mod near_miss;
mod options;
mod output;
mod own_address;
mod plan;
mod progress;
mod protocols;
mod put;
mod roff;
mod running;
mod serve;
mod service;
mod settings;
mod signals;
mod stream;
mod summary;
mod terminal;
mod token;
mod transfer;
mod trust;
mod udt;
mod usage;
mod verify;
mod wrong;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory;
use inhaul_mover::{LimitsAnew, SessionLimits};

use crate::args::{Cli, Command};
use crate::exit::Failure;
use crate::settings::{Invocation, SettingsError};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let Invocation { cli, json } = match settings::parse(&arguments, &settings::environment) {
        Ok(asked) => asked,
        Err(error) => return refuse(error, &arguments),
    };
    if let Err(wrong) = mend::check(&cli) {
        let wrong = mend::faulty_checksum(&arguments).map_or(wrong, wrong::Wrong::new);
        let failure = Failure::from(wrong).with_line(mend::mended(&arguments));
        return failure.tell(json);
    }
    logs::start(cli.program.log, cli.program.verbose);
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in settings::unknown_variables(variables) {
        log::warn!("{warning}");
    }
    if let Some(warning) = mend::read_otherwise(&arguments) {
        output::warn(warning);
    }
    match run(&cli.command).and_then(|()| exit::check_output()) {
        Ok(()) => ExitCode::from(exit::COMPLETE),
        Err(failure) => failure.tell(json),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(args, LimitsAnew::by(limits_anew)),
        Command::Get(args) => get::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Put(args) => put::run(args),
        Command::Copy(args) => copy::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Manifest(args) => verify::manifest(args),
        Command::Ls(args) => ls::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Token(command) => token::run(command),
        Command::Key(command) => key::run(command),
        Command::Protocols(args) => {
            protocols::run(args);
            Ok(())
        }
        Command::Udt(command) => udt::run(command),
        Command::Completions(args) => {
            completions::run(args, &Cli::command());
            Ok(())
        }
        Command::Man(args) => Ok(man::run(args, Cli::command())?),
        Command::Lab(command) => Ok(lab::run(command)?),
        Command::Link(command) => Ok(link::run(command)?),
    }
}

/// The limits that a server has now: the configuration file may have changed.
fn limits_anew() -> Result<SessionLimits, String> {
    let arguments: Vec<_> = std::env::args_os().collect();
    match settings::parse(&arguments, &settings::environment) {
        Ok(Invocation { cli: Cli { command: Command::Serve(serve), .. }, .. }) => Ok(serve.limits()),
        Ok(_) => Err("they belong to another command".to_owned()),
        Err(SettingsError::Setting(message)) => Err(message),
        Err(SettingsError::CommandLine(error)) => Err(error.to_string()),
    }
}

/// Prints the fault of a command line or a setting, or the requested help.
fn refuse(error: SettingsError, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let failure = match error {
        SettingsError::Setting(message) => Failure::usage(message),
        SettingsError::CommandLine(error) => match error.kind() {
            DisplayHelp | DisplayVersion => {
                output::note(error.print());
                return exit::check_output()
                    .map_or_else(|failure| failure.tell(false), |()| ExitCode::from(exit::COMPLETE));
            }
            DisplayHelpOnMissingArgumentOrSubcommand => {
                output::say(&error.to_string());
                Failure::usage(usage::explain(&error, arguments).message)
            }
            _ => {
                let usage::Explanation { message, hint } = usage::explain(&error, arguments);
                Failure::usage(message).with_line(mend::mended(arguments)).with_hint(hint)
            }
        },
    };
    failure.tell(settings::wants_json(arguments, &settings::environment))
}
