//! `--include`, `--exclude` and `--exclude-from`: patterns in the order of the command line.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use inhaul_base::byte_text::text_of;
use inhaul_mover::{Filter, MoveError, Rule};

use super::address::any_bytes;

/// The patterns of the command line, in its order. If two match, the later one wins, regardless of their flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Include(String),
    Exclude(String),
    File(PathBuf),
}

impl Patterns {
    /// The filter that they make; reads the files.
    pub(crate) fn filter(&self) -> Result<Filter, MoveError> {
        Filter::new(&self.rules()?).map_err(|error| MoveError::Usage(error.to_string()))
    }

    /// The rules of that filter.
    pub(crate) fn rules(&self) -> Result<Vec<Rule>, MoveError> {
        let mut rules = Vec::new();
        for pattern in &self.0 {
            match pattern {
                Pattern::Include(pattern) => rules.push(Rule::Include(pattern.clone())),
                Pattern::Exclude(pattern) => rules.push(Rule::Exclude(pattern.clone())),
                Pattern::File(path) => {
                    let bytes = std::fs::read(path).map_err(|error| {
                        MoveError::Usage(format!("--exclude-from: '{}' cannot be read: {error}", path.display()))
                    })?;
                    // Names may be any bytes.
                    rules.extend(text_of(&bytes).lines().map(|line| Rule::Line(line.to_owned())));
                }
            }
        }
        Ok(rules)
    }
}

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let pattern = |name: &'static str, value, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .help(help)
                .action(ArgAction::Append)
                .value_parser(ValueParser::new(any_bytes()))
        };
        command
            .arg(pattern(
                "exclude",
                "PATTERN",
                "Leave out matching paths (.gitignore's syntax, relative to the data set); the last match wins",
            ))
            .arg(pattern(
                "include",
                "PATTERN",
                "Fetch matching files even if excluded. Without --exclude, fetch only these",
            ))
            .arg(
                pattern(
                    "exclude-from",
                    "FILE",
                    "Read patterns from a file: each line excludes, or includes if it begins with '!'",
                )
                .value_parser(value_parser!(PathBuf)),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        fn given<T: Clone + Send + Sync + 'static>(
            matches: &ArgMatches,
            name: &str,
            pattern: impl Fn(T) -> Pattern,
        ) -> Vec<(usize, Pattern)> {
            let values = matches.get_many::<T>(name).into_iter().flatten().cloned().map(pattern);
            matches.indices_of(name).into_iter().flatten().zip(values).collect()
        }
        let mut all = given(matches, "include", Pattern::Include);
        all.extend(given(matches, "exclude", Pattern::Exclude));
        all.extend(given(matches, "exclude-from", Pattern::File));
        all.sort_by_key(|(index, _)| *index);
        Ok(Self(all.into_iter().map(|(_, pattern)| pattern).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command as Chosen};
    use clap::Parser;

    fn patterns(line: &str) -> Patterns {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Chosen::Get(get) = cli.command else { panic!("not get") };
        get.fetch.selection.patterns
    }

    #[test]
    fn patterns_keep_the_order_of_the_command_line() {
        let found = patterns("inhaul get --exclude *.tmp --include a.tmp --exclude-from f --exclude b inhaul://a/x .");
        let exclude = |text: &str| Pattern::Exclude(text.to_owned());
        let expected =
            vec![exclude("*.tmp"), Pattern::Include("a.tmp".to_owned()), Pattern::File("f".into()), exclude("b")];
        assert_eq!(found, Patterns(expected));
        assert_eq!(patterns("inhaul get inhaul://a/x ."), Patterns::default());
    }

    #[test]
    fn filter_names_a_file_that_is_not_there_and_a_pattern_that_makes_no_sense() {
        let error = |line: &str| patterns(line).filter().unwrap_err();
        let missing = error("inhaul get --exclude-from /no/such/file inhaul://a/x .");
        assert!(matches!(&missing, MoveError::Usage(text) if text.contains("/no/such/file")), "{missing}");
        let nonsense = error("inhaul get --exclude [z-a] inhaul://a/x .");
        assert!(matches!(&nonsense, MoveError::Usage(text) if text.contains("'[z-a]'")), "{nonsense}");
    }
}
