//! Corrects a wrong command line, step by step: each step corrects the first fault that the parser finds. The result is
//! suggested only if the parser accepts it.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command as Definition, CommandFactory, Parser};
use inhaul_base::{Bitrate, ParseUnitError};
use inhaul_identity::{Ticket, Token};
use inhaul_mover::{DEFAULT_PORT, Source};

use crate::args::{Cli, Command};
use crate::checksums;
use crate::dialect::{self, is_address};
use crate::foreign::{self, BOTH_WAYS, Fix};
use crate::hint::Hint;
use crate::near_miss::{near_miss, near_option};
use crate::options;
use crate::wrong::{Mend, Wrong};

/// Most lines that are tried.
const TRIES_MAX: usize = 200;

/// The fault of a line.
enum Fault {
    Parser(clap::Error),
    Words(Wrong),
}

/// The line that was meant by `arguments`; `None`: it cannot be told, or they are right.
pub(crate) fn mended(arguments: &[OsString]) -> Option<Hint> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<_>>()?;
    let words = [&["inhaul".to_owned()], words.get(1..)?].concat();
    let mut tries = TRIES_MAX;
    solve(words.clone(), &mut tries).filter(|solved| *solved != words).map(Hint::new)
}

/// Facts that the parser does not see: which places are addresses or local, by their position in the line.
///
/// # Errors
/// Their faults.
pub(crate) fn check(cli: &Cli) -> Result<(), Wrong> {
    match &cli.command {
        Command::Get(get) => get.fetch.split_places().map(drop),
        Command::Plan(plan) => plan.fetch.split_places().map(drop),
        Command::Put(put) => put.split_places().and_then(|_| put.carrier.for_server().map(drop)),
        Command::Copy(copy) => copy.split_places().and_then(|_| copy.carrier.for_server().map(drop)),
        _ => Ok(()),
    }
}

fn solve(words: Vec<String>, tries: &mut usize) -> Option<Vec<String>> {
    *tries = tries.checked_sub(1)?;
    let Some(fault) = fault(&words) else { return Some(words) };
    mends(&fault, &words).into_iter().filter(|mended| *mended != words).find_map(|mended| solve(mended, tries))
}

fn fault(words: &[String]) -> Option<Fault> {
    if let Some(word) = words.iter().find(|word| word.starts_with(['–', '—'])) {
        let dashes = if word.trim_start_matches(['–', '—', '-']).chars().nth(1).is_some() { "--" } else { "-" };
        let right = format!("{dashes}{}", word.trim_start_matches(['–', '—', '-']));
        return Some(Fault::Words(Wrong::new("a dash is no '-'").or(word, right)));
    }
    match Cli::try_parse_from(words) {
        Err(error) => Some(Fault::Parser(error)),
        Ok(cli) => check(&cli).err().map(Fault::Words),
    }
}

/// The fault of a checksum in the line that is not in our form. Nothing is suggested then: the suggestion would lack
/// the check.
pub(crate) fn faulty_checksum(arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let name = words.get(1).filter(|name| moves(name))?;
    let asked = checksums::ForeignChecksum::of(&words)?;
    asked.fault().or_else(|| {
        let text = "a checksum that a file must have is for 'inhaul get --expect ALGORITHM:DIGITS'";
        ["put", "copy"].contains(&name.as_str()).then(|| text.to_owned())
    })
}

/// Whether a command of this name moves files, here or elsewhere.
fn moves(name: &str) -> bool {
    ["get", "plan", "put", "copy"].contains(&name) || foreign::command(name) == Some("get")
}

/// A warning about words that are valid here but mean something else in other programs.
pub(crate) fn read_otherwise(arguments: &[OsString]) -> Option<&'static str> {
    let is_get = arguments.get(1).is_some_and(|name| name == "get" || name == "copy");
    let given = || arguments.iter().take_while(|word| *word != "--");
    let text = "'-nc' is --dry-run and --checksum: nothing is fetched; wget's -nc is --existing keep";
    (is_get && given().any(|word| word == "-nc")).then_some(text)
}

/// Possible intended lines, the likeliest first.
fn mends(fault: &Fault, words: &[String]) -> Vec<Vec<String>> {
    let ours = |name: &String| Cli::command().find_subcommand(name).is_some();
    if words.get(1).is_some_and(ours)
        && let Some(asked) = checksums::ForeignChecksum::of(words)
    {
        return asked.expected(words).into_iter().collect();
    }
    let error = match fault {
        Fault::Words(wrong) => return wrong.mend.iter().map(|mend| with(mend, words)).collect(),
        Fault::Parser(error) => error,
    };
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => unknown_option(&context(ContextKind::InvalidArg), words),
        ErrorKind::InvalidSubcommand => unknown_command(&context(ContextKind::InvalidSubcommand), words),
        ErrorKind::InvalidValue => {
            let value = context(ContextKind::InvalidValue);
            let possible = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(possible)) => possible.clone(),
                _ => Vec::new(),
            };
            let near = near_miss(&value, possible.iter().map(String::as_str));
            near.map(|near| replaced(words, &value, near)).into_iter().collect()
        }
        ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue);
            let Some(source) = error.source() else { return Vec::new() };
            if let Some(wrong) = source.downcast_ref::<Wrong>() {
                return wrong.mend.iter().map(|mend| with(mend, words)).collect();
            }
            let rights = if source.is::<ParseUnitError>() { rates(&value) } else { Vec::new() };
            rights.iter().map(|right| replaced(words, &value, right)).collect()
        }
        ErrorKind::TooManyValues => {
            let argument = context(ContextKind::InvalidArg);
            vec![replaced(words, &format!("{argument}={}", context(ContextKind::InvalidValue)), &argument)]
        }
        // rsync's -h, among other letters, asks for no help.
        ErrorKind::DisplayHelp => without("-h", words, |_| false).map(|left| left.words).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn with(mend: &Mend, words: &[String]) -> Vec<String> {
    match mend {
        Mend::Word { wrong, right } => replaced(words, wrong, right),
        Mend::Append(word) => [words, &[(*word).to_owned()]].concat(),
        Mend::Command(name) => [&words[..1], &[(*name).to_owned()], words.get(2..).unwrap_or_default()].concat(),
    }
}

/// The line with another word or value in the place of this one.
fn replaced(words: &[String], wrong: &str, right: &str) -> Vec<String> {
    let behind = |word: &str| {
        let option = word.strip_suffix(wrong)?;
        (option.starts_with('-') && (option.ends_with('=') || option.len() == 2)).then(|| format!("{option}{right}"))
    };
    let word =
        |word: &String| if word == wrong { right.to_owned() } else { behind(word).unwrap_or_else(|| word.clone()) };
    words.iter().map(word).collect()
}

fn unknown_command(name: &str, words: &[String]) -> Vec<Vec<String>> {
    let Some(at) = words.iter().position(|word| word == name) else { return Vec::new() };
    let instead = |command: &str| {
        let command = command.split(' ').map(str::to_owned).collect::<Vec<_>>();
        [&words[..at], &command, &words[at + 1..]].concat()
    };
    if options::is_remote(name) {
        return vec![[&words[..at], &["get".to_owned()], &words[at..]].concat()];
    }
    // rclone's own commands are those of the line.
    if at == 1 && name == "rclone" {
        return rclone(words);
    }
    let translated = dialect::of(name).filter(|_| at == 1).map(|dialect| dialect.translate(&words[at + 1..]));
    if let Some(translated) = translated {
        let commands: &[&str] = match (translated.command, foreign::command(name)) {
            (Some(command), _) => &[command],
            (None, _) if BOTH_WAYS.contains(&name) => &["get", "put", "copy"],
            (None, Some("bench")) => &["bench"],
            (None, _) => &["get"],
        };
        let line = |command: &&str| [&words[..at], &[(*command).to_owned()], &translated.words].concat();
        return commands.iter().map(line).collect();
    }
    if BOTH_WAYS.contains(&name) {
        return ["get", "put", "copy"].map(instead).into();
    }
    let top = Cli::command();
    let definition = definition(&top, &words[..at]);
    let known = definition.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Definition::get_name);
    let near = foreign::command(name).filter(|_| at == 1).or_else(|| near_miss(name, known));
    near.map(instead).into_iter().collect()
}

/// `rclone [OPTIONS] COMMAND ...`, where COMMAND is one of ours, or means one.
fn rclone(words: &[String]) -> Vec<Vec<String>> {
    let Some(dialect) = dialect::of("rclone") else { return Vec::new() };
    let mut line = dialect.translate(&words[2..]).words;
    let Some(at) = line.iter().position(|word| !word.starts_with('-')) else { return Vec::new() };
    let name = line.remove(at);
    // What rclone prints is standard output's.
    line.extend((name == "cat").then(|| "-".to_owned()));
    let with = |command: &str| [&words[..1], &[command.to_owned()], &line].concat();
    match foreign::command(&name) {
        _ if name == "copy" || BOTH_WAYS.contains(&&*name) => ["get", "put", "copy"].map(with).into(),
        Some("ls") => vec![with("ls")],
        Some("get") => vec![with("get")],
        _ if name == "ls" => vec![with("ls")],
        _ => Vec::new(),
    }
}

/// The command that these words name.
fn definition<'c>(top: &'c Definition, words: &[String]) -> &'c Definition {
    words.iter().skip(1).fold(top, |at, word| at.find_subcommand(word).unwrap_or(at))
}

fn unknown_option(argument: &str, words: &[String]) -> Vec<Vec<String>> {
    let option = argument.split('=').next().unwrap_or_default();
    // Two letters that are one option of wget.
    if let Some(at) = words.iter().position(|word| ["-nc", "-nd", "-nH", "-np", "-nv"].contains(&word.as_str())) {
        let new: &[String] = match words[at].as_str() {
            "-nc" => &["--existing=keep".to_owned()],
            "-nv" => &["--quiet".to_owned()],
            _ => &[],
        };
        return vec![[&words[..at], new, &words[at + 1..]].concat()];
    }
    let top = Cli::command();
    let command = definition(&top, &words[..words.len().min(3)]);
    let fixes = foreign::fixes(command.get_name(), option);
    if fixes.is_empty()
        && let Some(name) = option.strip_prefix("--")
        && let Some(near) = near_option(name, command.get_arguments().filter_map(Arg::get_long))
    {
        let near = |word: &String| match word.strip_prefix(option) {
            Some(rest) if rest.is_empty() || rest.starts_with('=') => format!("--{near}{rest}"),
            _ => word.clone(),
        };
        return vec![words.iter().map(near).collect()];
    }
    fixes.iter().flat_map(|fix| fixed(*fix, option, words)).collect()
}

/// A line without an option, the option's place, and its value, if it has one.
struct Without {
    words: Vec<String>,
    at: usize,
    value: Option<String>,
}

/// Takes the option out; with the word behind it, if `is_value` says that this belongs to it.
fn without(option: &str, words: &[String], is_value: impl Fn(&str) -> bool) -> Option<Without> {
    let is_long = option.starts_with("--");
    let letter = option.trim_start_matches('-');
    let is_it = |word: &String| {
        word == option
            || is_long && word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
            || !is_long && word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
    };
    let at = words.iter().position(|word| word == option).or_else(|| words.iter().position(is_it))?;
    let (mut rest, word) = (words.to_vec(), words[at].clone());
    let next = words.get(at + 1).filter(|next| is_value(next)).cloned();
    if word == option {
        let value = next.inspect(|_| drop(rest.remove(at + 1)));
        rest.remove(at);
        return Some(Without { words: rest, at, value });
    }
    if let Some((_, value)) = word.split_once('=').filter(|_| is_long) {
        rest.remove(at);
        return Some(Without { words: rest, at, value: Some(value.to_owned()) });
    }
    // One of several letters, or a letter with its value.
    let (before, behind) = word.split_once(letter)?;
    let value = if behind.is_empty() { next.inspect(|_| drop(rest.remove(at + 1))) } else { Some(behind.to_owned()) };
    let own = value.filter(|value| is_value(value));
    let left = if behind.is_empty() || own.as_deref() == Some(behind) {
        before.to_owned()
    } else {
        format!("{before}{behind}")
    };
    if left == "-" {
        rest.remove(at);
    } else {
        rest[at] = left;
    }
    Some(Without { words: rest, at, value: own })
}

/// Whether a word is a number, with a unit or without: no host and no path.
fn is_number(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    let number = &word[..word.len() - unit.len()];
    let is_unit = |unit: &str| unit.len() <= 5 && unit.chars().all(|c| c.is_ascii_alphabetic());
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().filter(|c| !c.is_ascii_digit()).count() <= 1
        && is_unit(unit.trim_end_matches("/s"))
}

/// The words of a line that are no options, and no values of options, by their places.
fn places(words: &[String]) -> Vec<usize> {
    let top = Cli::command();
    let command = definition(&top, &words[..words.len().min(3)]);
    let takes_value = |word: &str| {
        let is_it = |arg: &Arg| match word.strip_prefix("--") {
            Some(name) => arg.get_long() == Some(name),
            None => arg.get_short().is_some() && arg.get_short() == word.chars().last(),
        };
        let all = || command.get_arguments().chain(top.get_arguments());
        all().any(|arg| arg.get_action().takes_values() && !arg.is_positional() && is_it(arg))
    };
    let mut found = Vec::new();
    let mut at = 2;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "--" => return found.into_iter().chain(at + 1..words.len()).collect(),
            "-" => found.push(at),
            word if word.starts_with('-') => at += usize::from(takes_value(word)),
            _ => found.push(at),
        }
        at += 1;
    }
    found
}

/// Whether the line has a source besides a word that was taken out of it.
fn has_source(words: &[String]) -> bool {
    let places = places(words);
    let (last, others) = places.split_last().map_or((None, &[][..]), |(last, others)| (Some(last), others));
    last.is_some_and(|at| words[*at].contains("://") || words[*at].contains('#'))
        || others.iter().any(|at| is_address(&words[*at]) || options::source(&words[*at]).is_ok())
}

/// Whether curl's -H or -A has this value: a header, or the name of a browser.
fn is_header(word: &str) -> bool {
    let name = word.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let known = ["accept", "authorization", "cookie", "host", "range", "referer", "user-agent", "content-type"];
    word.contains(' ') || known.contains(&name.as_str()) || name.starts_with("x-") || word.starts_with('@')
}

/// Whether curl's -u has this value: a user, and a password behind a colon.
fn is_user(word: &str) -> bool {
    !word.contains(['/', '#', '@']) && word.split_once(':').is_some_and(|(user, _)| !user.is_empty())
}

fn is_proxy(word: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    word.contains("://") || word.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port))
}

fn is_word(word: &str) -> bool {
    word == "-" || !word.starts_with('-')
}

fn fixed(fix: Fix, option: &str, words: &[String]) -> Vec<Vec<String>> {
    let inserted = |left: Without, new: &[String]| [&left.words[..left.at], new, &left.words[left.at..]].concat();
    let lines = match fix {
        Fix::Drop => without(option, words, is_number).map(|left| left.words),
        Fix::DropFlag => without(option, words, is_word)
            .filter(|left| !left.value.as_deref().is_some_and(is_number))
            .and_then(|_| without(option, words, |_| false))
            .map(|left| left.words),
        Fix::DropNumber => without(option, words, is_number).filter(|left| left.value.is_some()).map(|left| left.words),
        Fix::DropValue => without(option, words, is_word).map(|left| left.words),
        Fix::Flag(flag) => without(option, words, |_| false).map(|left| match left.value.as_deref() {
            // `--allow-overwrite=false` asks for the opposite.
            Some("false" | "no" | "off" | "0") => left.words,
            _ => inserted(left, &[flag.to_owned()]),
        }),
        Fix::Rename(name) => without(option, words, is_word).and_then(|left| {
            let value = left.value.clone()?;
            Some(inserted(left, &[name.to_owned(), value]))
        }),
        Fix::Rate(name) => without(option, words, is_word).and_then(|left| {
            let rate = rate_of_others(option, left.value.as_deref()?)?;
            Some(inserted(left, &[name.to_owned(), rate]))
        }),
        Fix::Listen => without(option, words, is_word).and_then(|left| {
            let is_server = left.words.iter().any(|word| word == "--server" || word == "-s");
            let value = left.value.clone().filter(|_| is_server)?;
            Some(inserted(left, &["--listen".to_owned(), value]))
        }),
        Fix::Header => valued(option, words, is_header).map(|left| left.words),
        Fix::Credentials => valued(option, words, is_user).map(|left| left.words),
        Fix::Proxy => valued(option, words, is_proxy).and_then(|left| {
            let value = left.value.clone()?;
            let value = if value.contains("://") { value } else { format!("http://{value}") };
            Some(inserted(left, &["--proxy".to_owned(), value]))
        }),
        Fix::OnlyDirectory => without(option, words, is_word).and_then(|left| {
            let is_only = matches!(places(&left.words)[..], [at] if is_source(&left.words[at]));
            last(option, words, true)
                .filter(|_| is_only && command_of(words).is_some_and(|name| name != "put" && name != "copy"))
        }),
        Fix::Look => without(option, words, |_| false).and_then(|left| look(&left.words)),
        Fix::Upload => valued(option, words, |_| true).and_then(|left| {
            let value = left.value.clone()?;
            let at = *places(&left.words).first()?;
            let (before, behind) = left.words.split_at(at);
            Some([&before[..1], &["put".to_owned()], &before[2..], &[value], behind].concat())
        }),
        Fix::Token => without(option, words, is_word).and_then(|left| with_token(left, option)),
        Fix::Last => last(option, words, false),
        Fix::LastDirectory => last(option, words, true),
        Fix::Port => without(option, words, is_number).and_then(|left| {
            let port = left.value.filter(|value| is_number(value))?.parse().ok().filter(|port| *port != 0)?;
            with_port(&left.words, port)
        }),
        Fix::Trust => without(option, words, |_| false).map(|left| {
            if left.words.iter().any(|word| word.contains('#')) {
                left.words
            } else {
                inserted(left, &["--accept-new".to_owned()])
            }
        }),
    };
    lines.into_iter().collect()
}

/// Takes the option out with its value, if this is one, and a source is left.
fn valued(option: &str, words: &[String], is_value: impl Fn(&str) -> bool) -> Option<Without> {
    let left = without(option, words, is_word)?;
    let is_only = || matches!(places(&left.words)[..], [at] if is_source(&left.words[at]));
    let fits = left.value.as_deref().is_some_and(is_value) && (has_source(&left.words) || is_only());
    fits.then_some(left)
}

fn command_of(words: &[String]) -> Option<&str> {
    words.get(1).map(String::as_str)
}

/// Whether a word may be a source, and is nothing here.
fn is_source(word: &str) -> bool {
    is_address(word) || !word.starts_with(['.', '/', '~']) && word.contains('/') && options::source(word).is_ok()
}

/// A listing instead of a line that has no place for data to land, without options that only a transfer has.
fn look(words: &[String]) -> Option<Vec<String>> {
    let [at] = places(words)[..] else { return None };
    let word = words.get(at).filter(|word| is_source(word))?;
    let carried = words.iter().skip(2).filter(|word| ["--accept-new", "--plaintext"].contains(&word.as_str()));
    Some(["inhaul", "ls", word].into_iter().map(str::to_owned).chain(carried.cloned()).collect())
}

/// The line with a token that was an option's value.
fn with_token(left: Without, option: &str) -> Option<Vec<String>> {
    let Without { words, at, value: Some(value) } = left else { return None };
    let is_token = value.parse::<Token>().is_ok();
    if !is_token && value.parse::<Ticket>().is_err() {
        let file = std::path::Path::new(&value).is_file() && option != "--ticket";
        return file.then(|| [&words[..at], &["--token-file".to_owned(), value], &words[at..]].concat());
    }
    let mut line = words.clone();
    let remote: Vec<usize> = addresses(&words);
    for at in &remote {
        let word = &words[*at];
        line[*at] = match word.split_once('#') {
            None if is_token => format!("{word}#.{value}"),
            None => format!("{word}#{value}"),
            Some((_, ticket)) if is_token && !ticket.contains('.') => format!("{word}.{value}"),
            Some(_) => return None,
        };
    }
    (!remote.is_empty()).then_some(line)
}

/// The places of the line at which addresses stand, by the command.
fn addresses(words: &[String]) -> Vec<usize> {
    let places = places(words);
    let last = places.last().copied();
    let is_one = |at: &usize| match command_of(words) {
        Some("get" | "plan") => Some(*at) != last || places.len() == 1 || is_address(&words[*at]),
        Some("put") => Some(*at) == last,
        Some("copy" | "ls" | "doctor" | "bench") => true,
        _ => false,
    };
    let is_local = |at: &usize| words[*at].starts_with(['.', '/', '~']);
    places.iter().copied().filter(|at| is_one(at) && !is_local(at)).collect()
}

/// The option's value as the last argument; of two that name a file and its directory, both.
fn last(option: &str, words: &[String], is_directory: bool) -> Option<Vec<String>> {
    const DIRECTORIES: [&str; 5] = ["-d", "--dir", "--directory-prefix", "--output-dir", "-P"];
    const FILES: [&str; 5] = ["-o", "--out", "-O", "--output-document", "--output"];
    let left = without(option, words, is_word)?;
    let value = left.value?;
    // curl's -O has no value: the source stands behind it.
    if option == "-O" && (is_address(&value) || places(&left.words).is_empty()) {
        return None;
    }
    let others: &[&str] = if is_directory { &FILES } else { &DIRECTORIES };
    let is_there =
        |option: &&&str| left.words.iter().any(|word| word == **option || word.starts_with(&format!("{option}=")));
    let other = others.iter().find(is_there).and_then(|option| without(option, &left.words, is_word));
    let other = other.filter(|other| !other.value.as_deref().is_some_and(is_address));
    let in_directory = |directory: &str, file: &str| format!("{}/{file}", directory.trim_end_matches('/'));
    let (mut line, place) = match other {
        Some(Without { words, value: Some(other), .. }) if is_directory => (words, in_directory(&value, &other)),
        Some(Without { words, value: Some(other), .. }) => (words, in_directory(&other, &value)),
        _ if is_directory => (left.words, in_directory(&value, "")),
        _ => (left.words, value),
    };
    line.push(place);
    Some(line)
}

/// The line with a port in its addresses.
fn with_port(words: &[String], port: u16) -> Option<Vec<String>> {
    let is_bench = command_of(words) == Some("bench");
    let mut line = words.to_vec();
    let mut found = false;
    for at in addresses(words) {
        let word = &words[at];
        let mut source = match options::source(word) {
            Ok(source) => source,
            Err(Wrong { mend: Some(Mend::Word { right, .. }), .. }) => options::source(&right).ok()?,
            Err(_) => return None,
        };
        found = true;
        source.mirrors.iter_mut().filter(|server| server.port == DEFAULT_PORT).for_each(|server| server.port = port);
        let has_ticket = word.contains('#');
        line[at] = if is_bench && !has_ticket { source.mirrors[0].to_string() } else { source_text(&source, word) };
    }
    found.then_some(line)
}

fn source_text(source: &Source, word: &str) -> String {
    let slash = if word.ends_with('/') && !source.path.is_empty() { "/" } else { "" };
    format!("{}{slash}", source.to_secret_text())
}

/// Rates that a malformed text may mean: bytes in a second, a number without a unit, a comma.
fn rates(text: &str) -> Vec<String> {
    let text = text.replace(',', ".");
    let in_bits = || {
        let unit = text.strip_suffix("/s").or(text.strip_suffix("ps")).unwrap_or(&text);
        let number = unit.strip_suffix('B').filter(|number| !number.is_empty())?;
        let bytes = inhaul_base::parse_bytes(number.trim()).ok()?;
        bits(bytes as f64)
    };
    let candidates =
        [Some(text.clone()), in_bits(), Some(format!("{text}M")), Some(text.trim_end_matches("/s").to_owned())];
    candidates.into_iter().flatten().collect()
}

/// A rate in bytes, as other programs write it, in bits. rsync and rclone count KiB where there is no unit.
fn rate_of_others(option: &str, text: &str) -> Option<String> {
    if matches!(option, "--rate" | "--bandwidth" | "--bitrate" | "-b") && text.parse::<Bitrate>().is_ok() {
        return Some(text.to_owned());
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/');
    let unit = match text[number.len()..].to_ascii_lowercase().chars().next() {
        None if option == "--bwlimit" => 1024.0,
        None | Some('b') => 1.0,
        Some('k') => 1024.0,
        Some('m') => 1048576.0,
        Some('g') => 1073741824.0,
        Some(_) => return None,
    };
    bits(number.parse::<f64>().ok()? * unit)
}

fn bits(bytes: f64) -> Option<String> {
    let bps = bytes * 8.0;
    let text = match bps {
        _ if bps < 1.0 => return None,
        _ if bps < 1e6 => format!("{:.0}k", (bps / 1e3).max(1.0)),
        _ if bps < 1e10 => format!("{:.0}M", bps / 1e6),
        _ => format!("{:.0}G", bps / 1e9),
    };
    text.parse::<Bitrate>().ok().map(|_| text)
}

#[cfg(test)]
mod tests;
