//! Values of flags from environment variables and the configuration file. The command line's definition supplies the
//! names, so a new flag has its variable and its key without further code.
//!
//! The order is: command line, environment, file, built-in default. If a value from the environment or the file
//! conflicts with a flag on the command line, it is ignored.
//!
//! A command line is completed before it is parsed. Values become defaults: they may be set and not needed. Flags
//! without a value count as typed: the flags that they need must be there.

mod file;
mod setting;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::options::contradict;
use crate::trust::TOKEN_VARIABLE;
use crate::usage;
use setting::{Origin, Setting, argument, flags, setting_error};

pub(crate) use setting::SettingsError;

/// The flags, by their identifiers, that have a command print JSON.
const JSON_FLAGS: [&str; 2] = ["json", "json_stream"];

/// Variables with a meaning that belong to no flag: places of the file and of keys, the host of `inhaul link`, the
/// secret of agents, tokens.
const OTHER_VARIABLES: [&str; 5] =
    ["INHAUL_CONFIG", "INHAUL_NODE", "INHAUL_LAB_SECRET", "INHAUL_STATE", TOKEN_VARIABLE];

/// The command that the program was started with.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) cli: Cli,
    /// Whether standard output is JSON.
    pub(crate) json: bool,
}

/// The command line, completed from environment and file.
///
/// # Errors
/// The fault of either, or the requested help.
pub(crate) fn parse(
    arguments: &[OsString],
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Invocation, SettingsError> {
    let plain = Cli::command();
    let matches = complete(plain, arguments, environment)?;
    let leaf = leaf_matches(&matches);
    let is_set = |id: &&str| leaf.try_get_one::<bool>(id).ok().flatten().copied().unwrap_or_default();
    let json = JSON_FLAGS.iter().any(is_set);
    Ok(Invocation { cli: Cli::from_arg_matches(&matches)?, json })
}

/// Whether a wrong command line requests JSON. Its words decide; else the environment or the file.
pub(crate) fn wants_json(arguments: &[OsString], environment: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let words = || arguments.iter().skip(1).take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let names = || words().filter(|word| !word.starts_with('-'));
    if words().any(|word| matches!(word, "--json" | "--json-stream")) {
        return true;
    }
    // The one command that has a short flag for it.
    if names().next() == Some("bench") && words().any(|word| word.starts_with('-') && word.ends_with('J')) {
        return true;
    }
    let plain = Cli::command();
    let mut settings = from_environment(&plain, environment).unwrap_or_default();
    settings.extend(file::read(&plain, None, environment).unwrap_or_default());
    let is_of = |setting: &Setting| {
        names().zip(&setting.command).filter(|(word, name)| word == name).count() == setting.command.len()
    };
    let is_json =
        |setting: &Setting| JSON_FLAGS.contains(&setting.flag.replace('-', "_").as_str()) && setting.values == ["true"];
    settings.iter().any(|setting| is_json(setting) && is_of(setting))
}

fn complete(
    plain: Command,
    arguments: &[OsString],
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<ArgMatches, SettingsError> {
    let first_look = plain.clone().ignore_errors(true).try_get_matches_from(arguments);
    // Help needs no settings, and tells of a broken file's cure.
    let Ok(first_look) = first_look else { return Ok(plain.try_get_matches_from(arguments)?) };
    let mut settings = from_environment(&plain, environment)?;
    let chosen = first_look.get_one::<PathBuf>("config").cloned();
    for setting in file::read(&plain, chosen, environment)? {
        if !settings.iter().any(|other| (&other.command, &other.flag) == (&setting.command, &setting.flag)) {
            settings.push(setting);
        }
    }
    for setting in &settings {
        check(&plain, setting)?;
    }
    let command = chain(&first_look);
    let leaf = leaf_matches(&first_look);
    settings.retain(|setting| setting.command.is_empty() || setting.command == command);
    let settings = without_conflicts(&plain, &command, settings, leaf)?;
    let (command_line, completed) = apply(plain, &command, arguments, settings);
    Ok(completed.try_get_matches_from(command_line)?)
}

/// The names of the command that was given.
fn chain(matches: &ArgMatches) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = matches;
    while let Some((name, inner)) = at.subcommand() {
        names.push(name.to_owned());
        at = inner;
    }
    names
}

fn leaf_matches(matches: &ArgMatches) -> &ArgMatches {
    let mut at = matches;
    while let Some((_, inner)) = at.subcommand() {
        at = inner;
    }
    at
}

/// The command of these names below `top`.
fn find<'c>(top: &'c Command, names: &[String]) -> Option<&'c Command> {
    names.iter().try_fold(top, |at, name| at.find_subcommand(name))
}

/// The commands that users meet, with their names; the program itself first.
fn user_commands(top: &Command) -> Vec<(Vec<String>, &Command)> {
    fn walk<'c>(names: &[String], at: &'c Command, into: &mut Vec<(Vec<String>, &'c Command)>) {
        into.push((names.to_vec(), at));
        for inner in at.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            walk(&[names, &[inner.get_name().to_owned()]].concat(), inner, into);
        }
    }
    let mut commands = Vec::new();
    walk(&[], top, &mut commands);
    commands
}

/// The variable of a flag: `INHAUL_GET_RECEIVE_RATE` of `inhaul get --receive-rate`.
fn variable(command: &[String], flag: &str) -> String {
    let words: Vec<&str> = ["inhaul"].into_iter().chain(command.iter().map(String::as_str)).chain([flag]).collect();
    words.join("_").to_uppercase().replace('-', "_")
}

fn from_environment(
    top: &Command,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, SettingsError> {
    let mut settings = Vec::new();
    for (names, command) in user_commands(top) {
        for (arg, flag) in flags(command) {
            let name = variable(&names, flag);
            let Some(text) = environment(&name).filter(|text| !text.is_empty()) else { continue };
            let text = text.into_string().map_err(|_| setting_error(format!("variable {name} is no UTF-8")))?;
            let origin = Origin::Variable(name);
            let values = match arg.get_action() {
                ArgAction::SetTrue => vec![truth(&text).ok_or_else(|| not_boolean(&origin, &text))?.to_string()],
                // One value a line.
                ArgAction::Append => text.lines().map(str::to_owned).collect(),
                _ => vec![text],
            };
            settings.push(Setting { command: names.clone(), flag: flag.to_owned(), values, origin });
        }
    }
    Ok(settings)
}

/// Warnings about variables among `names` that look like this program's, but belong to no flag.
pub(crate) fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let top = Cli::command();
    let of_command = |(names, command): (Vec<String>, &Command)| -> Vec<String> {
        flags(command).map(|(_, flag)| variable(&names, flag)).collect()
    };
    let mut known: Vec<String> = user_commands(&top).into_iter().flat_map(of_command).collect();
    known.extend(OTHER_VARIABLES.map(str::to_owned));
    let commands = user_commands(&top);
    let is_top = |(names, _): &&(Vec<String>, &Command)| names.len() == 1;
    let others = commands.iter().filter(is_top).map(|(names, _)| names[0].to_uppercase().replace('-', "_"));
    let commonest: Vec<String> = ["GET".to_owned()].into_iter().chain(others).collect();
    let about = |name: String| {
        // A flag of several commands, without a command: the first of them is the commonest.
        let flag = name.strip_prefix("INHAUL").unwrap_or_default();
        let of_first = commonest.iter().map(|command| format!("INHAUL_{command}{flag}")).find(|v| known.contains(v));
        if let Some(meant) = of_first {
            return format!("the variable {name} is for no flag: write the command before the flag, as in {meant}");
        }
        let likeness = |other: &&String| strsim::jaro_winkler(&name, other);
        let closest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let meant = closest.map_or_else(String::new, |closest| format!("; is {closest} meant?"));
        format!("the variable {name} is for no flag{meant}")
    };
    names.filter(|name| name.starts_with("INHAUL_") && !known.contains(name)).map(about).collect()
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn not_boolean(origin: &Origin, text: &str) -> SettingsError {
    setting_error(format!("{origin}: '{text}' is neither true nor false"))
}

/// Tries a value with its command, so that an error names the place where the value stands.
fn check(top: &Command, setting: &Setting) -> Result<(), SettingsError> {
    let Some(command) = find(top, &setting.command) else { return Ok(()) };
    let Some(arg) = argument(command, &setting.flag) else { return Ok(()) };
    if is_counted(arg) {
        return Ok(());
    }
    let line = trial(arg, setting);
    let Err(error) = command.clone().no_binary_name(true).disable_help_subcommand(true).try_get_matches_from(line)
    else {
        return Ok(());
    };
    if !is_about_a_value(error.kind()) {
        return Ok(());
    }
    let message = usage::message(&error, &setting.command.join(" "), command);
    Err(setting_error(format!("{}: {message}", setting.origin)))
}

/// Whether an error is about a value, not about other or missing words of the command line.
fn is_about_a_value(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::TooFewValues
            | ErrorKind::TooManyValues
    )
}

/// The flag and its values as on a command line.
fn trial(arg: &Arg, setting: &Setting) -> Vec<String> {
    let long = format!("--{}", setting.flag);
    match values_at_once(arg) {
        1 => setting.values.iter().map(|value| format!("{long}={value}")).collect(),
        at_once => {
            setting.values.chunks(at_once).flat_map(|values| [std::slice::from_ref(&long), values].concat()).collect()
        }
    }
}

/// How many values the flag takes each time.
fn values_at_once(arg: &Arg) -> usize {
    arg.get_num_args().map_or(1, |range| range.min_values()).max(1)
}

/// Whether the flag has no value: it is a switch or a count.
fn is_counted(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count)
}

/// The settings that the command line leaves in force.
fn without_conflicts(
    top: &Command,
    names: &[String],
    settings: Vec<Setting>,
    given: &ArgMatches,
) -> Result<Vec<Setting>, SettingsError> {
    let mut built = top.clone();
    built.build();
    let Some(command) = find(&built, names) else { return Ok(Vec::new()) };
    let is_given =
        |id: &str| given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine);
    let conflict = |a: &Arg, b: &Arg| {
        let one_way = |a: &Arg, b: &Arg| command.get_arg_conflicts_with(a).iter().any(|arg| arg.get_id() == b.get_id());
        a.get_id() != b.get_id() && (one_way(a, b) || one_way(b, a))
    };
    let given_values: Vec<(&str, String)> = flags(command)
        .filter(|(arg, _)| is_given(arg.get_id().as_str()))
        .flat_map(|(arg, flag)| {
            let values = given.try_get_raw(arg.get_id().as_str()).ok().flatten().into_iter().flatten();
            values.map(move |value| (flag, value.to_string_lossy().into_owned()))
        })
        .collect();
    let mut kept: Vec<Setting> = Vec::new();
    // Variables come before the file, so existing values take precedence.
    for mut setting in settings {
        let Some(arg) = argument(command, &setting.flag) else { continue };
        let count = setting.values.len();
        let from_file = matches!(setting.origin, Origin::File(..));
        setting.values.retain(|value| {
            let is_beaten = |flag: &str, stronger: &str| contradict((&setting.flag, value), (flag, stronger));
            let variables = kept.iter().filter(|other| from_file && matches!(other.origin, Origin::Variable(_)));
            !given_values.iter().any(|(flag, stronger)| is_beaten(flag, stronger))
                && !variables
                    .flat_map(|other| other.values.iter().map(|v| (&other.flag, v)))
                    .any(|(f, v)| is_beaten(f, v))
        });
        if setting.values.is_empty() && count > 0 {
            continue;
        }
        let off = is_counted(arg) && setting.values == ["false"];
        let beaten = command.get_arguments().any(|other| is_given(other.get_id().as_str()) && conflict(arg, other));
        if off || beaten || is_given(arg.get_id().as_str()) {
            continue;
        }
        let rival = kept.iter().find(|other| {
            let values = || setting.values.iter().flat_map(|a| other.values.iter().map(move |b| (a, b)));
            argument(command, &other.flag).is_some_and(|other| conflict(arg, other))
                || values().any(|(a, b)| contradict((&setting.flag, a), (&other.flag, b)))
        });
        match (rival, &setting.origin) {
            (Some(Setting { origin: Origin::Variable(_), .. }), Origin::File(..)) => {}
            (Some(rival), origin) => {
                let message = format!(
                    "{origin}: '{}' cannot be set together with '{}', which {} sets; take one of them out",
                    setting.flag, rival.flag, rival.origin
                );
                return Err(setting_error(message));
            }
            (None, _) => kept.push(setting),
        }
    }
    Ok(kept)
}

/// Completes the command's definition by defaults and the command line by flags without a value. (Those count as
/// given, so that what needs them finds them; a value does not, so that it may lie ready for when it is needed.)
fn apply(
    mut top: Command,
    names: &[String],
    arguments: &[OsString],
    settings: Vec<Setting>,
) -> (Vec<OsString>, Command) {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let mut command_line = arguments[..end].to_vec();
    for setting in settings {
        let owner = if setting.command.is_empty() { &[] } else { names };
        let Some((id, counted, action_counts)) = find(&top, owner)
            .and_then(|command| argument(command, &setting.flag))
            .map(|arg| (arg.get_id().to_string(), is_counted(arg), matches!(arg.get_action(), ArgAction::Count)))
        else {
            continue;
        };
        if counted {
            let times = if action_counts { setting.values[0].parse().unwrap_or(0) } else { 1 };
            command_line.extend(std::iter::repeat_n(OsString::from(format!("--{}", setting.flag)), times));
        } else {
            top = with_argument(top, owner, &id, |arg| arg.required(false).default_values(setting.values));
        }
    }
    command_line.extend_from_slice(&arguments[end..]);
    (command_line, top)
}

/// The definition with one argument of the command `names` changed.
fn with_argument(top: Command, names: &[String], id: &str, change: impl FnOnce(Arg) -> Arg) -> Command {
    match names.split_first() {
        None => top.mut_arg(id, change),
        Some((first, rest)) => top.mut_subcommand(first, |inner| with_argument(inner, rest, id, change)),
    }
}

/// The variable of the environment, for [`parse`].
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(OsStr::new(name))
}

#[cfg(test)]
mod tests;
