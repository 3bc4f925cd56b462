//! Makes a wrong command line right, step by step: each step mends what the parser finds wrong first. What comes out is
//! suggested only if the parser takes it.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command as Definition, CommandFactory, Parser};
use inhaul_base::{Bitrate, ParseUnitError};
use inhaul_mover::{DEFAULT_PORT, Source};

use crate::args::{Cli, Command};
use crate::foreign::{self, BOTH_WAYS, Fix};
use crate::hint::Hint;
use crate::near_miss::near_miss;
use crate::options;
use crate::wrong::{Mend, Wrong};

/// Most lines that are tried.
const TRIES_MAX: usize = 200;

/// What is wrong with a line.
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

/// What the parser does not see: places that are addresses or local, by their place in the line.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn check(cli: &Cli) -> Result<(), Wrong> {
    match &cli.command {
        Command::Get(get) => get.fetch.split_places().map(drop),
        Command::Plan(plan) => plan.fetch.split_places().map(drop),
        Command::Put(put) => put.split_places().map(drop),
        Command::Copy(copy) => copy.split_places().map(drop),
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

/// Lines that may be what was meant, the likeliest first.
fn mends(fault: &Fault, words: &[String]) -> Vec<Vec<String>> {
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
            vec![
                checksum(words),
                replaced(words, &format!("{argument}={}", context(ContextKind::InvalidValue)), &argument),
            ]
        }
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
    if BOTH_WAYS.contains(&name) {
        return ["get", "put", "copy"].map(instead).into();
    }
    let top = Cli::command();
    let definition = definition(&top, &words[..at]);
    let known = definition.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Definition::get_name);
    let near = foreign::command(name).filter(|_| at == 1).or_else(|| near_miss(name, known));
    near.map(instead).into_iter().collect()
}

/// The command that these words name.
fn definition<'c>(top: &'c Definition, words: &[String]) -> &'c Definition {
    words.iter().skip(1).fold(top, |at, word| at.find_subcommand(word).unwrap_or(at))
}

fn unknown_option(argument: &str, words: &[String]) -> Vec<Vec<String>> {
    let option = argument.split('=').next().unwrap_or_default();
    let top = Cli::command();
    let command = definition(&top, &words[..words.len().min(3)]);
    let fixes = foreign::fixes(command.get_name(), option);
    if fixes.is_empty()
        && let Some(name) = option.strip_prefix("--")
        && let Some(near) = near_miss(name, command.get_arguments().filter_map(Arg::get_long))
    {
        let near = |word: &String| match word.strip_prefix(option) {
            Some(rest) if rest.is_empty() || rest.starts_with('=') => format!("--{near}{rest}"),
            _ => word.clone(),
        };
        return vec![words.iter().map(near).collect()];
    }
    fixes.iter().flat_map(|fix| fixed(*fix, option, words)).collect()
}

/// A line without an option, the option's place, and its value: what stands behind it, if it has any.
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

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && !options::is_remote(word) && !word.contains('/')
}

fn is_word(word: &str) -> bool {
    word == "-" || !word.starts_with('-')
}

fn fixed(fix: Fix, option: &str, words: &[String]) -> Vec<Vec<String>> {
    let inserted = |left: Without, new: &[String]| [&left.words[..left.at], new, &left.words[left.at..]].concat();
    let lines = match fix {
        Fix::Drop => without(option, words, is_number).map(|left| left.words),
        Fix::DropNumber => without(option, words, is_number).filter(|left| left.value.is_some()).map(|left| left.words),
        Fix::DropValue => without(option, words, is_word).map(|left| left.words),
        Fix::Flag(flag) => without(option, words, |_| false).map(|left| inserted(left, &[flag.to_owned()])),
        Fix::Rename(name) => without(option, words, is_word).and_then(|left| {
            let value = left.value.clone()?;
            Some(inserted(left, &[name.to_owned(), value]))
        }),
        Fix::Rate(name) => without(option, words, is_word).and_then(|left| {
            let rate = rate_of_others(option, left.value.as_deref()?)?;
            Some(inserted(left, &[name.to_owned(), rate]))
        }),
        Fix::Last => last(option, words, false),
        Fix::LastDirectory => last(option, words, true),
        Fix::Port => without(option, words, is_number).and_then(|left| {
            let port = left.value?.parse().ok().filter(|port| *port != 0)?;
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

/// The option's value as the last argument; of two that name a file and its directory, both.
fn last(option: &str, words: &[String], is_directory: bool) -> Option<Vec<String>> {
    const DIRECTORIES: [&str; 5] = ["-d", "--dir", "--directory-prefix", "--output-dir", "-P"];
    const FILES: [&str; 5] = ["-o", "--out", "-O", "--output-document", "--output"];
    let left = without(option, words, is_word)?;
    let value = left.value?;
    let others: &[&str] = if is_directory { &FILES } else { &DIRECTORIES };
    let is_there =
        |option: &&&str| left.words.iter().any(|word| word == **option || word.starts_with(&format!("{option}=")));
    let other = others.iter().find(is_there).and_then(|option| without(option, &left.words, is_word));
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
    let is_bench = words.get(1).is_some_and(|command| command == "bench");
    let mut found = false;
    let words = words.iter().enumerate().map(|(at, word)| {
        // Of a bench, a server's name alone is an address, too.
        let is_server = is_bench && (at == 2 || at + 1 == words.len()) && !is_number(word);
        let source = match options::source(word) {
            Ok(source) if options::is_remote(word) || is_server => Some(source),
            Err(Wrong { mend: Some(Mend::Word { right, .. }), .. }) => options::source(&right).ok(),
            _ => None,
        };
        let Some(mut source) = source else { return word.clone() };
        found = true;
        source.mirrors.iter_mut().filter(|server| server.port == DEFAULT_PORT).for_each(|server| server.port = port);
        if is_bench { source.mirrors[0].to_string() } else { source_text(&source, word) }
    });
    let words = words.collect();
    found.then_some(words)
}

fn source_text(source: &Source, word: &str) -> String {
    let slash = if word.ends_with('/') && !source.path.is_empty() { "/" } else { "" };
    format!("{}{slash}", source.to_secret_text())
}

/// `--checksum sha-256=DIGITS`, as aria2 has it.
fn checksum(words: &[String]) -> Vec<String> {
    let of = |word: &String| match word.strip_prefix("--checksum=").and_then(|sum| sum.split_once('=')) {
        Some((algorithm, digits)) => format!("--expect={}:{digits}", algorithm.replace('-', "")),
        None => word.clone(),
    };
    words.iter().map(of).collect()
}

/// Rates that may be meant by a text that is none: bytes in a second, a number without a unit, a comma.
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
