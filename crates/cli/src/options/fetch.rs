//! Arguments about sources, destination and files. `get` and `plan` share them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use inhaul_base::Bitrate;
use inhaul_base::byte_text::bytes_of;
use inhaul_mover::{Existing, FetchListFormat, Source};

use super::address::{any_bytes, as_text, is_remote, source_not_here};
use super::headings::RATES;
use super::network::{Transport, Wire};
use super::patterns::Patterns;
use super::security::Security;
use super::values::Checksum;
use crate::wrong::{Mend, Wrong};

/// Options of commands that fetch.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "DEST"], value_hint = ValueHint::AnyPath)]
    #[arg(value_parser = any_bytes())]
    #[arg(
        help = "What to fetch, as [inhaul://]HOST[:PORT][,HOST[:PORT]...]/PATH; last, the destination: DIR/ or a new name"
    )]
    pub(crate) places: Vec<String>,
    /// Fetch the files that a Metalink 4 file names (RFC 5854), without any SOURCE; '-' reads standard input
    #[arg(long, value_name = "FILE", help_heading = "Source options")]
    pub(crate) metalink: Option<PathBuf>,
    /// Fetch the files of a list, without any SOURCE; the format is that of aria2's input files; '-' reads standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with = "metalink", help_heading = "Source options")]
    pub(crate) input_file: Option<PathBuf>,
    /// The file's published checksum, as sha256:DIGITS, blake3:, sha512: or a weaker one, like md5: or adler32:; a file
    /// that differs does not land
    #[arg(long, value_name = "CHECKSUM", conflicts_with_all = ["metalink", "input_file"], help_heading = "Source options")]
    pub(crate) expect: Option<Checksum>,
    /// Limit on the rate that this host receives from all senders, headers included [default: measured]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    pub(crate) receive_rate: Option<Bitrate>,
    /// Limit of each sender, headers included [default: no limit]
    #[arg(long, value_name = "RATE", help_heading = RATES)]
    pub(crate) rate: Option<Bitrate>,
    #[command(flatten)]
    pub(crate) transport: Transport,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) security: Security,
    #[command(flatten)]
    pub(crate) wire: Wire,
}

/// Which files of a data set are fetched, and what happens to existing files.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "File options")]
pub(crate) struct Selection {
    #[command(flatten)]
    pub(crate) patterns: Patterns,
    /// What to do if a file exists and differs; a file of the same size and time is always kept
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub(crate) existing: ExistingArg,
    /// The same as --existing replace
    #[arg(long, conflicts_with = "existing")]
    pub(crate) overwrite: bool,
    /// Compare existing files by size and BLAKE3 hash instead of size and time; reads them at both ends
    #[arg(long, short = 'c')]
    pub(crate) checksum: bool,
    /// Keep owner and group, by number; needs root
    #[arg(long)]
    pub(crate) owner: bool,
    /// Also transfer extended attributes (user.*)
    #[arg(long, short = 'X')]
    pub(crate) xattrs: bool,
}

/// See [`Existing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExistingArg {
    /// Fetch nothing at all; the error names the file
    #[default]
    Refuse,
    /// Replace it
    Replace,
    /// Replace it if it is older
    Update,
    /// Keep it
    Keep,
}

impl From<ExistingArg> for Existing {
    fn from(arg: ExistingArg) -> Self {
        match arg {
            ExistingArg::Refuse => Self::Refuse,
            ExistingArg::Replace => Self::Replace,
            ExistingArg::Update => Self::Update,
            ExistingArg::Keep => Self::Keep,
        }
    }
}

impl Selection {
    /// What happens to files that exist and differ.
    pub(crate) fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replace } else { self.existing.into() }
    }
}

impl Fetch {
    /// The list to read, if there is one, and its format.
    pub(crate) fn list(&self) -> Option<(FetchListFormat, &Path)> {
        let metalink = self.metalink.as_deref().map(|path| (FetchListFormat::Metalink, path));
        metalink.or(self.input_file.as_deref().map(|path| (FetchListFormat::InputFile, path)))
    }

    /// The sources and the destination; an error names the fault of a source.
    pub(crate) fn split_places(&self) -> Result<(Vec<Source>, PathBuf), Wrong> {
        let Some((destination, sources)) = self.places.split_last() else {
            return Err(Wrong::new("a source and a destination are needed"));
        };
        // A local path may have a colon in it. A path on another host has a slash behind the colon, or a user before
        // it.
        let before = destination.split('/').next().unwrap_or_default();
        let is_host = before.ends_with(':') || before.contains('@') || destination.contains('#') && sources.is_empty();
        if destination.starts_with("inhaul://") || is_remote(destination) && is_host && !Path::new(destination).exists()
        {
            return Err(no_destination(sources, destination));
        }
        match (self.list(), sources) {
            (None, []) if is_remote(destination) => return Err(no_destination(sources, destination)),
            (None, []) => {
                let text = "is the destination: the source comes first, as HOST[:PORT]/PATH";
                let wrong = Wrong::new(format!("'{destination}' {text}"));
                // A name with a path behind it may be meant as the source.
                let is_source = destination.contains('/') && source_not_here(destination).is_ok();
                return Err(if is_source { wrong.with(Mend::Append(".")) } else { wrong });
            }
            (Some(_), [source, ..]) => {
                return Err(Wrong::new(format!("the list names the sources: '{source}' is one too many")));
            }
            _ => {}
        }
        let sources = sources.iter().map(|text| source_not_here(&as_text(&bytes_of(text))));
        let destination = PathBuf::from(OsStr::from_bytes(&bytes_of(destination)));
        Ok((sources.collect::<Result<_, _>>()?, destination))
    }
}

/// The error if the last argument is a source: says what is missing.
fn no_destination(sources: &[String], last: &str) -> Wrong {
    let is_local = |path: &String| !is_remote(path) && (path.starts_with(['/', '.']) || Path::new(path).exists());
    match sources {
        [] => {
            let quotes = "with '&', ';' or a blank in it, the address needs quotes";
            Wrong::new(format!("the destination is missing: '.' is this directory ({quotes})")).with(Mend::Append("."))
        }
        [path, ..] if is_local(path) => {
            Wrong::new(format!("'{last}' is on a server: 'inhaul put' brings files there")).with(Mend::Command("put"))
        }
        _ => {
            let how = "name a local path last, like '.', or have one server fetch from another by 'inhaul copy'";
            Wrong::new(format!("'{last}' stands in the destination's place: {how}")).with(Mend::Command("copy"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn get_takes_sources_and_then_the_destination() {
        let cli = Cli::try_parse_from(["inhaul", "get", "inhaul://a/x", "inhaul://b:1,c/y", "out", "--rate", "1.5G"])
            .unwrap();
        let Command::Get(get) = cli.command else { panic!("not get") };
        assert_eq!(get.fetch.rate, Some(Bitrate::from_bps(1_500_000_000)));
        let (sources, destination) = get.fetch.split_places().unwrap();
        assert_eq!(sources.iter().map(|s| s.mirrors.len()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(destination, PathBuf::from("out"));
    }

    #[test]
    fn a_local_destination_and_an_address_may_have_any_bytes() {
        let words = [&b"inhaul"[..], b"get", b"inhaul://a/x\xfe", b"n\xffn"].map(OsStr::from_bytes);
        let Command::Get(get) = Cli::try_parse_from(words).unwrap().command else { panic!("not get") };
        let (sources, destination) = get.fetch.split_places().unwrap();
        assert_eq!(destination.as_os_str().as_bytes(), b"n\xffn");
        assert_eq!(sources[0].to_string(), "inhaul://a:4321/x%FE");
    }

    #[test]
    fn get_refuses_a_source_in_the_destination_s_place() {
        let cli = Cli::try_parse_from(["inhaul", "get", "inhaul://a/x", "inhaul://b/y"]).unwrap();
        let Command::Get(get) = cli.command else { panic!("not get") };
        assert_eq!(get.fetch.split_places().unwrap_err().mend, Some(Mend::Command("copy")));
    }

    #[test]
    fn get_takes_sources_or_a_list_of_them() {
        let places = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Get(get) => get.fetch.split_places(),
            command => panic!("{command:?}"),
        };
        assert!(
            places("inhaul get inhaul://a/x")
                .unwrap_err()
                .message
                .contains("destination is missing: '.' is this directory")
        );
        assert_eq!(places("inhaul get Cargo.toml inhaul://a/").unwrap_err().mend, Some(Mend::Command("put")));
        assert!(places("inhaul get .").unwrap_err().message.contains("comes first"));
        assert_eq!(places("inhaul get --metalink m .").unwrap(), (Vec::new(), PathBuf::from(".")));
        assert!(places("inhaul get --input-file m inhaul://a/x .").unwrap_err().message.contains("one too many"));
    }
}
