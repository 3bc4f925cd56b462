//! The message for a wrong command line: the cause in one line, then where to read more.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;
use crate::foreign;
use crate::near_miss::{near_miss, near_option};

/// The fault, and the help to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// The cause, in one line.
    pub(crate) message: String,
    /// How the command is used, and where its help is; lines for people.
    pub(crate) hint: String,
}

/// Explains an error of the parser in the command line `arguments`.
pub(crate) fn explain(error: &clap::Error, arguments: &[OsString]) -> Explanation {
    let top = Cli::command();
    let (names, command) = command_given(&top, arguments);
    let whole = [&["inhaul"], &names[..]].concat().join(" ");
    let message = message(error, &whole, command);
    let message = match crate::mend::faulty_checksum(arguments) {
        Some(fault) => format!("{message}; {fault}"),
        None => message,
    };
    let usage = match error.kind() {
        ErrorKind::MissingRequiredArgument | ErrorKind::TooFewValues => format!("{}\n", usage_of(command, &whole)),
        _ => String::new(),
    };
    Explanation { message, hint: format!("{usage}'{whole} --help' explains it and has examples.") }
}

/// The cause, of an error in `command`, which users call `whole`.
pub(crate) fn message(error: &clap::Error, whole: &str, command: &Command) -> String {
    let argument = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let value = text(error, ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidUtf8 => {
            "an argument is not UTF-8: in an address, write each such byte as %XX, as 'inhaul ls --json' does"
                .to_owned()
        }
        ErrorKind::UnknownArgument => unknown_option(whole, command, &argument),
        ErrorKind::InvalidSubcommand => {
            unknown_command(whole, command, &text(error, ContextKind::InvalidSubcommand).unwrap_or_default())
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("'{whole}' needs a command")
        }
        ErrorKind::MissingRequiredArgument => format!("missing: {}", plain(&argument)),
        ErrorKind::InvalidValue if value.is_empty() => format!("{} needs a value", plain(&argument)),
        ErrorKind::InvalidValue => {
            let possible = strings(error, ContextKind::ValidValue);
            let near = near_miss(&value, possible.iter().map(String::as_str));
            let meant = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            format!("{}'{value}' is none of {}{meant}", of(&argument), possible.join(", "))
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            let quoted = format!("'{value}'");
            // Our own errors quote the value.
            let value = if why.contains(&quoted) { String::new() } else { format!("{quoted} is not possible: ") };
            format!("{}{value}{why}", of(&argument))
        }
        ErrorKind::TooManyValues if argument == "--checksum" => {
            "--checksum has no value here: --expect ALGORITHM:DIGITS is the checksum that a file must have".to_owned()
        }
        ErrorKind::TooManyValues => format!("{} has no value", plain(&argument)),
        ErrorKind::WrongNumberOfValues => {
            let wanted = number(error, ContextKind::ExpectedNumValues);
            format!("{} needs {wanted} values", plain(&argument))
        }
        ErrorKind::TooFewValues => format!("missing: {}", plain(&argument)),
        ErrorKind::ArgumentConflict => {
            let others = text(error, ContextKind::PriorArg).unwrap_or_default();
            match plain(&others) {
                other if other == plain(&argument) => format!("{other} can be given only once"),
                other => format!("{} cannot be used with {other}", plain(&argument)),
            }
        }
        _ => first_lines(error),
    }
}

/// The parser's own message, in one line.
fn first_lines(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

fn unknown_option(whole: &str, command: &Command, argument: &str) -> String {
    let option = argument.split('=').next().unwrap_or_default();
    if !option.starts_with('-') {
        return format!("'{argument}' is one argument too many for '{whole}'");
    }
    let lacks = format!("'{whole}' has no option {option}");
    if let Some(answer) = foreign::answer(command.get_name(), option) {
        return format!("{lacks}: {answer}");
    }
    let known = command.get_arguments().filter_map(Arg::get_long);
    match option.strip_prefix("--").and_then(|name| near_option(name, known)) {
        Some(near) => format!("{lacks}; did you mean --{near}?"),
        None => lacks,
    }
}

fn unknown_command(whole: &str, command: &Command, name: &str) -> String {
    if crate::options::is_remote(name) {
        return format!("'{name}' is no command: 'inhaul get SOURCE DEST' fetches, 'inhaul put PATH DEST' brings");
    }
    let is_top = whole == "inhaul";
    let known = command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Command::get_name);
    let near = foreign::command(name).filter(|_| is_top).or_else(|| near_miss(name, known));
    let meant = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    format!("'{whole}' has no command '{name}'{meant}")
}

/// The command that the words of the line lead to, and its names below `top`.
fn command_given<'c>(top: &'c Command, arguments: &'c [OsString]) -> (Vec<&'c str>, &'c Command) {
    let (mut names, mut at) = (Vec::new(), top);
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let takes_value = |arg: &Arg| arg.get_action().takes_values() && arg.get_long() == word.strip_prefix("--");
        if at.get_arguments().chain(top.get_arguments()).any(takes_value) {
            words.next();
        } else if let Some(inner) = at.find_subcommand(word) {
            names.push(word);
            at = inner;
        } else if !word.starts_with('-') {
            break;
        }
    }
    (names, at)
}

fn usage_of(command: &Command, whole: &str) -> String {
    let usage = command.clone().bin_name(whole).render_usage().to_string();
    usage.replacen("Usage:", "usage:", 1)
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(" ")),
        _ => None,
    }
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

fn number(error: &clap::Error, kind: ContextKind) -> isize {
    match error.get(kind) {
        Some(ContextValue::Number(number)) => *number,
        _ => 1,
    }
}

/// Arguments as the parser writes them, for people: `<SOURCE> [DEST]...` becomes `<SOURCE> and <DEST>`. Of an option
/// with a value, like `--listen <ADDRESS>`, only the option is kept.
fn plain(arguments: &str) -> String {
    let words = arguments.split(' ').map(|word| word.trim_end_matches("..."));
    let is_option = arguments.starts_with('-');
    let words = words.filter(|word| !is_option || word.starts_with('-'));
    let bare = |word: &str| match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        Some(inner) if !inner.contains(['[', ':']) => format!("<{inner}>"),
        _ => word.to_owned(),
    };
    words.map(bare).collect::<Vec<_>>().join(" and ")
}

/// `--flag: ` before a message about its value; empty for arguments without a flag.
fn of(argument: &str) -> String {
    if argument.starts_with('-') { format!("{}: ", plain(argument)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn explained(line: &str) -> Explanation {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        explain(&Cli::try_parse_from(&arguments).unwrap_err(), &arguments)
    }

    #[test]
    fn message_names_the_cause_and_what_to_write() {
        for (line, words) in [
            ("inhaul gte x .", "'inhaul' has no command 'gte'; did you mean 'get'?"),
            ("inhaul fetch x .", "'inhaul' has no command 'fetch'; did you mean 'get'?"),
            ("inhaul frobnicate", "'inhaul' has no command 'frobnicate'"),
            ("inhaul lab rnu", "'inhaul lab' has no command 'rnu'; did you mean 'run'?"),
            ("inhaul inhaul://a/x .", "'inhaul://a/x' is no command: 'inhaul get SOURCE DEST' fetches"),
            ("inhaul get inhaul://a/x . --bwlimit 10M", "'inhaul get' has no option --bwlimit: --receive-rate 850M"),
            ("inhaul get inhaul://a/x . --bwlimit=10M", "'inhaul get' has no option --bwlimit: --receive-rate 850M"),
            ("inhaul get -avz inhaul://a/x .", "'inhaul get' has no option -a: links, times and permissions"),
            ("inhaul get inhaul://a/x . --recieve-rate 3M", "--recieve-rate; did you mean --receive-rate?"),
            ("inhaul get inhaul://a/x . --nonsense", "'inhaul get' has no option --nonsense"),
            ("inhaul get inhaul://a/x . --receive-rate 850", "--receive-rate: '850' has no unit: a rate is in bits"),
            ("inhaul get inhaul://a/x . --receive-rate", "--receive-rate needs a value"),
            ("inhaul get inhaul://a/x . --mtu 10", "--mtu: '10' is not possible: 10 is not in 576..=65535"),
            (
                "inhaul get inhaul://a/x . --existing kepe",
                "--existing: 'kepe' is none of refuse, replace, update, keep; did",
            ),
            ("inhaul get inhaul://a/x . --json --json-stream", "--json cannot be used with --json-stream"),
            ("inhaul get inhaul://a/x . --json --json", "--json can be given only once"),
            ("inhaul serve d --listen 5001", "--listen: '5001' names no address: write '[::]:5001'"),
            ("inhaul bench -c host", "'inhaul bench' has no option -c: name the servers without an option"),
            ("inhaul bench a:0", "'0' is no port"),
            ("inhaul doctor a b", "'b' is one argument too many for 'inhaul doctor'"),
            ("inhaul get", "missing: <SOURCE> and <DEST>"),
            ("inhaul put a", "missing: <PATH> and <DEST>"),
            ("inhaul ls", "missing: <SOURCE>"),
            ("inhaul bench", "missing: <HOST[:PORT]>"),
            ("inhaul link run s.toml --on host", "--on needs 2 values"),
            ("inhaul lab", "'inhaul lab' needs a command"),
        ] {
            let found = explained(line).message;
            assert!(found.starts_with(words) || found.ends_with(words) || found.contains(words), "{line}: {found}");
            assert_eq!(found.lines().count(), 1, "{line}: {found}");
        }
    }

    #[test]
    fn hint_leads_to_the_help_of_the_command() {
        assert_eq!(explained("inhaul gte").hint, "'inhaul --help' explains it and has examples.");
        let hint = explained("inhaul --log info lab run").hint;
        assert!(hint.starts_with("usage: inhaul lab run [OPTIONS]"), "{hint}");
        assert!(hint.ends_with("'inhaul lab run --help' explains it and has examples."), "{hint}");
        assert!(explained("inhaul get").hint.contains("\n       inhaul get [OPTIONS] --metalink"));
    }
}
