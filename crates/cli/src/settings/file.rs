//! The configuration file: a TOML table for each command, a key for each flag.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Command};
use toml_edit::{Document, Item, TableLike, Value};

use super::setting::{Origin, Setting, SettingsError, argument, flags, setting_error};
use crate::near_miss::near_miss;

/// The settings of the `chosen` file, else of the file that the environment names, else of the file at its usual place,
/// if it exists.
pub(super) fn read(
    top: &Command,
    chosen: Option<PathBuf>,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, SettingsError> {
    let named = chosen.or_else(|| environment("INHAUL_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(|| default_file(environment)) else { return Ok(Vec::new()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(top, &path, &text),
        // No setting names a file: an unreadable home directory has none for this user.
        Err(_) if !must_exist && std::fs::symlink_metadata(&path).is_err() => Ok(Vec::new()),
        Err(error) => Err(setting_error(format!("the configuration file {} cannot be read: {error}", path.display()))),
    }
}

/// Where the file is looked for when none is named: XDG Base Directory Specification.
fn default_file(environment: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(directory.join(Path::new("inhaul/config.toml")))
}

/// The settings in `text`; names that are no flags are refused.
pub(super) fn parse(top: &Command, path: &Path, text: &str) -> Result<Vec<Setting>, SettingsError> {
    let document = Document::parse(text)
        .map_err(|error| setting_error(format!("{}: {}", path.display(), error.to_string().trim_end())))?;
    let mut reading = Reading { path, text, settings: Vec::new() };
    reading.table(top, &[], document.as_table())?;
    Ok(reading.settings)
}

struct Reading<'t> {
    path: &'t Path,
    text: &'t str,
    settings: Vec<Setting>,
}

impl Reading<'_> {
    fn table(&mut self, command: &Command, names: &[String], table: &dyn TableLike) -> Result<(), SettingsError> {
        for (key, item) in table.iter() {
            let span = table.get_key_value(key).and_then(|(key, _)| key.span()).or_else(|| item.span());
            let origin = self.origin(span);
            let inner = command.find_subcommand(key).filter(|inner| !inner.is_hide_set());
            match (item.as_table_like(), inner) {
                (Some(table), Some(inner)) => self.table(inner, &[names, &[key.to_owned()]].concat(), table)?,
                (Some(_), None) => return Err(unknown(&origin, "command", names, key, commands(command))),
                (None, _) => {
                    let Some(arg) = argument(command, key) else {
                        let known = flags(command).map(|(_, long)| long);
                        return Err(unknown(&origin, "flag", names, key, known));
                    };
                    let values = values(item, arg.get_action())
                        .map_err(|wanted| setting_error(format!("{origin}: '{key}' is {wanted}")))?;
                    self.settings.push(Setting { command: names.to_vec(), flag: key.to_owned(), values, origin });
                }
            }
        }
        Ok(())
    }

    fn origin(&self, span: Option<std::ops::Range<usize>>) -> Origin {
        let before = span.and_then(|span| self.text.get(..span.start)).unwrap_or_default();
        Origin::File(self.path.to_path_buf(), before.matches('\n').count() + 1)
    }
}

fn commands(command: &Command) -> impl Iterator<Item = &str> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Command::get_name)
}

fn unknown<'n>(
    origin: &Origin,
    what: &str,
    names: &[String],
    key: &str,
    known: impl Iterator<Item = &'n str>,
) -> SettingsError {
    let of = [&["inhaul".to_owned()], names].concat().join(" ");
    let hint =
        near_miss(key, known).map_or_else(|| format!("see '{of} --help'"), |name| format!("did you mean '{name}'?"));
    setting_error(format!("{origin}: '{of}' has no {what} '{key}'; {hint}"))
}

/// The value that a key of the file gives a flag; an error names the expected form.
fn values(item: &Item, action: &ArgAction) -> Result<Vec<String>, &'static str> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        Value::Float(number) => Some(number.value().to_string()),
        _ => None,
    };
    match action {
        ArgAction::SetTrue => item.as_bool().map(|on| vec![on.to_string()]).ok_or("true or false, without quotes"),
        ArgAction::Count => match item.as_integer() {
            Some(count @ 0..=9) => Ok(vec![count.to_string()]),
            _ => Err("a number from 0 to 9"),
        },
        ArgAction::Append => match item.as_array() {
            Some(array) => array.iter().map(scalar).collect::<Option<_>>().ok_or("a list of texts or numbers"),
            None => item.as_value().and_then(scalar).map(|one| vec![one]).ok_or("a text, or a list of texts"),
        },
        _ => item.as_value().and_then(scalar).map(|one| vec![one]).ok_or("a text or a number"),
    }
}
