//! `inhaul man`: the manual pages. Each command has a page, made from the command line's definition. Each document of
//! `docs/` has one too.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueHint};
use clap_mangen::Man as Mangen;
use inhaul_mover::MoveError;

use crate::roff::{escaped, from_markdown, verbatim};

pub(crate) const EXAMPLES: &str = "\
Pages about commands go to DIR/man1. Pages about file formats go to DIR/man5, and all
others to DIR/man7.

Examples:
  Write the pages for this user, and read one:
    inhaul man ~/.local/share/man && man inhaul-get
  Read about the output of --json:
    man inhaul-json";

/// The command line of `inhaul man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Directory to write the pages to; made if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// What docs/ has: a document, the section of the manual that it belongs to, and its text.
const DOCUMENTS: &[(&str, u8, &str)] = &[
    ("coming-from", 7, include_str!("../docs/coming-from.md")),
    ("config", 5, include_str!("../docs/config.md")),
    ("doctor", 7, include_str!("../docs/doctor.md")),
    ("exit-codes", 7, EXIT_CODES),
    ("fallback", 7, include_str!("../docs/fallback.md")),
    ("filesystems", 7, include_str!("../docs/filesystems.md")),
    ("install", 7, include_str!("../docs/install.md")),
    ("integrity", 7, include_str!("../docs/integrity.md")),
    ("json", 5, include_str!("../docs/json.md")),
    ("library", 7, include_str!("../docs/library.md")),
    ("link", 7, include_str!("../docs/link.md")),
    ("mirrors", 7, include_str!("../docs/mirrors.md")),
    ("net", 7, include_str!("../docs/net.md")),
    ("papers", 7, include_str!("../docs/papers.md")),
    ("plan", 7, include_str!("../docs/plan.md")),
    ("progress", 7, include_str!("../docs/progress.md")),
    ("put", 7, include_str!("../docs/put.md")),
    ("python", 7, include_str!("../docs/python.md")),
    ("python-lab", 7, include_str!("../docs/python-lab.md")),
    ("report", 7, include_str!("../docs/report.md")),
    ("resume", 7, include_str!("../docs/resume.md")),
    ("scenario", 5, include_str!("../docs/scenario.md")),
    ("security", 7, include_str!("../docs/security.md")),
    ("serve", 7, include_str!("../docs/serve.md")),
    ("sources", 7, include_str!("../docs/sources.md")),
    ("trees", 7, include_str!("../docs/trees.md")),
    ("udt", 7, include_str!("../docs/udt.md")),
];

const EXIT_CODES: &str = include_str!("../docs/exit-codes.md");

/// Further documents for a reader of a command's page, beside the ones in its help.
const RELATED: &[(&str, &[&str])] = &[
    ("inhaul-get", &["trees", "filesystems", "coming-from", "mirrors", "resume", "integrity", "progress"]),
    ("inhaul-put", &["put", "trees", "filesystems", "resume"]),
    ("inhaul-copy", &["put", "trees", "filesystems", "resume"]),
    ("inhaul-serve", &["serve", "security", "put"]),
    ("inhaul-plan", &["plan"]),
    ("inhaul-verify", &["integrity"]),
    ("inhaul-manifest", &["integrity"]),
    ("inhaul-ls", &["mirrors"]),
    ("inhaul-doctor", &["doctor"]),
    ("inhaul-token-make", &["security"]),
    ("inhaul-key-show", &["security"]),
    ("inhaul-udt-send", &["udt"]),
    ("inhaul-udt-receive", &["udt"]),
];

/// Writes the manual of `program`.
pub(crate) fn run(args: &Man, program: Command) -> Result<(), MoveError> {
    let directory = &args.directory;
    write_all(program, directory).map_err(|error| MoveError::Destination {
        detail: format!("man pages cannot be written to {}: {error}; choose another directory", directory.display()),
    })
}

/// Writes each page to the directory of its section: man1, man5 and man7.
fn write_all(program: Command, directory: &Path) -> io::Result<()> {
    for page in pages(program)? {
        let section = directory.join(format!("man{}", page.section));
        std::fs::create_dir_all(&section)?;
        std::fs::write(section.join(format!("{}.{}", page.name, page.section)), page.text)?;
    }
    Ok(())
}

struct Page {
    name: String,
    section: u8,
    text: String,
}

fn pages(mut program: Command) -> io::Result<Vec<Page>> {
    program.build();
    let mut pages = Vec::new();
    of_commands(&program, "inhaul", &mut pages)?;
    pages.extend(DOCUMENTS.iter().map(|(name, section, text)| of_document(name, *section, text)));
    Ok(pages)
}

/// Commands as users meet them, each with those below it.
fn of_commands(command: &Command, name: &str, into: &mut Vec<Page>) -> io::Result<()> {
    into.push(Page { name: name.to_owned(), section: 1, text: of_command(command, name)? });
    for inner in commands_below(command) {
        of_commands(inner, &format!("{name}-{}", inner.get_name()), into)?;
    }
    Ok(())
}

fn commands_below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn of_command(command: &Command, name: &str) -> io::Result<String> {
    let words = name.replace('-', " ");
    let version = concat!("inhaul ", env!("CARGO_PKG_VERSION"));
    let man =
        Mangen::new(command.clone().name(name.to_owned()).bin_name(words.clone())).source(version).manual("inhaul");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    let mut text = into_text(page)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    text += &format!(".SH NAME\n{} \\- {}\n", escaped(name), escaped(&about));
    let usage = command.clone().bin_name(words).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    text += &format!(".SH SYNOPSIS\n{}", verbatim(usage));
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = after.split_once("Examples:\n").unwrap_or((&after, ""));
    if !notes.trim().is_empty() {
        text += ".SH DESCRIPTION\n";
        text += &paragraphs(notes);
    }
    let mut options = Vec::new();
    man.render_options_section(&mut options)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut options)?;
    }
    text += &into_text(options)?;
    if !examples.is_empty() {
        text += &format!(".SH EXAMPLES\n{}", verbatim(examples.lines()));
    }
    text += &closing_sections(command, name);
    Ok(with_references(&text))
}

/// Text of a help: paragraphs, and lines that are indented or in columns as they are.
fn paragraphs(text: &str) -> String {
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let is_verbatim = |block: &str| block.lines().any(|line| line.starts_with("  "));
    blocks
        .map(|block| {
            if is_verbatim(block) {
                verbatim(block.lines())
            } else {
                format!(".PP\n{}\n", escaped(&block.replace('\n', " ")))
            }
        })
        .collect()
}

fn into_text(page: Vec<u8>) -> io::Result<String> {
    String::from_utf8(page).map_err(io::Error::other)
}

/// EXIT STATUS, ENVIRONMENT, FILES and SEE ALSO.
fn closing_sections(command: &Command, name: &str) -> String {
    let mut text = ".SH EXIT STATUS\n".to_owned();
    for (code, meaning) in exit_codes() {
        text += &format!(".TP\n{code}\n{}\n", escaped(&meaning));
    }
    text += ".SH ENVIRONMENT\n.PP\nEvery option can have its value from a variable: INHAUL_, the command, the option, in capitals. ";
    text += "inhaul\\-config(5) explains it.\n";
    let own =
        command.get_arguments().filter_map(|arg| arg.get_long()).find(|long| !matches!(*long, "help" | "version"));
    let example =
        own.map(|long| (format!("{name}-{long}").to_uppercase().replace('-', "_"), format!("Like --{long}.")));
    let variables = [
        ("INHAUL_CONFIG", "The configuration file, like --config."),
        ("INHAUL_LAB_SECRET", "The secret that 'inhaul lab' and its agents share."),
        ("INHAUL_TOKEN", "Tokens for servers, as --token-file reads them: inhaul-security(7)."),
        ("INHAUL_STATE", "Where keys, known hosts and tokens are kept: inhaul-security(7)."),
        ("INHAUL_NODE", "Set by 'inhaul link' for the commands that it runs: the host that they are in."),
        ("NO_COLOR", "When set, logs have no colours."),
        ("XDG_CONFIG_HOME", "Where the configuration file is looked for, else in ~/.config."),
        ("XDG_CACHE_HOME", "Where digests of large files are kept, else in ~/.cache."),
    ];
    let variables = variables.map(|(name, meaning)| (name.to_owned(), meaning.to_owned()));
    for (variable, meaning) in example.into_iter().chain(variables) {
        text += &format!(".TP\n{variable}\n{}\n", escaped(&meaning));
    }
    text += ".SH FILES\n";
    for (file, meaning) in [
        ("~/.config/inhaul/config.toml", "Values for options: inhaul-config(5)."),
        ("~/.local/state/inhaul", "Keys, known hosts, authorised keys, tokens and the audit log: inhaul-security(7)."),
        ("~/.cache/inhaul/digests", "Digests of large files that were sent, so that they are not read again."),
        ("NAME.partial", "At the destination: a file that is not complete yet."),
        ("NAME.inhaul", "At the destination: the journal of verified data. inhaul-resume(7) explains it."),
    ] {
        text += &format!(".TP\n{}\n{}\n", escaped(file), escaped(meaning));
    }
    text += &format!(".SH SEE ALSO\n{}\n", see_also(command, name).join(",\n"));
    text
}

/// The codes of docs/exit-codes.md, with a short meaning of each.
fn exit_codes() -> Vec<(u8, String)> {
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let code = cells.next()?.parse().ok()?;
        let name = cells.next()?.trim_matches('`').to_owned();
        let meaning = without_references(&cells.next()?.replace('`', ""));
        // The page of all codes has the rest.
        let short =
            meaning.split(". ").flat_map(|text| text.split(';')).next().unwrap_or_default().trim_end_matches('.');
        Some((code, if name.is_empty() { format!("{short}.") } else { format!("{name}: {short}.") }))
    };
    EXIT_CODES.lines().filter_map(row).collect()
}

/// The text without links in brackets.
fn without_references(text: &str) -> String {
    match text.split_once(" ([").and_then(|(before, rest)| Some((before, rest.split_once("))")?.1))) {
        Some((before, after)) => format!("{before}{}", without_references(after)),
        None => text.to_owned(),
    }
}

fn see_also(command: &Command, name: &str) -> Vec<String> {
    let mut pages = Vec::new();
    if let Some((above, _)) = name.rsplit_once('-').filter(|_| !name.ends_with("kernel-cc")) {
        pages.push(format!("{}(1)", escaped(above)));
    }
    pages.extend(
        commands_below(command).map(|inner| format!("{}(1)", escaped(&format!("{name}-{}", inner.get_name())))),
    );
    let related = RELATED.iter().find(|(page, _)| *page == name).map_or(&[][..], |(_, documents)| documents);
    let of_lab = ["scenario", "report", "net"].iter().filter(|_| name.starts_with("inhaul-lab"));
    let of_link = ["link", "scenario"].iter().filter(|_| name.starts_with("inhaul-link"));
    let all = DOCUMENTS.iter().map(|(document, ..)| document).filter(|_| name == "inhaul");
    let general = ["config", "exit-codes", "json"].iter().filter(|_| name != "inhaul");
    for document in related.iter().chain(of_lab).chain(of_link).chain(all).chain(general) {
        pages.extend(reference(document));
    }
    pages
}

/// How a page refers to the page of a document.
fn reference(document: &str) -> Option<String> {
    let (name, section, _) = DOCUMENTS.iter().find(|(name, ..)| *name == document)?;
    Some(format!("{}({section})", escaped(&format!("inhaul-{name}"))))
}

/// The page with documents that it names replaced by pages.
fn with_references(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, ..) in DOCUMENTS {
        if let Some(page) = reference(name) {
            text = text.replace(&format!("docs/{}.md", escaped(name)), &page);
        }
    }
    text
}

fn of_document(name: &str, section: u8, text: &str) -> Page {
    let title = text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
    let refer = |target: &str| {
        let target = target.split('#').next().unwrap_or_default();
        reference(target.strip_suffix(".md")?)
    };
    let name = format!("inhaul-{name}");
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(
        ".TH {} {section} \"\" \"inhaul {version}\" \"inhaul\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n",
        escaped(&name),
        escaped(&name),
        escaped(&title.replace('`', "")),
    );
    let body = from_markdown(text, &refer);
    let text = format!("{head}{body}.SH SEE ALSO\ninhaul(1)\n");
    Page { name, section, text: with_references(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn pages() -> io::Result<Vec<Page>> {
        super::pages(Cli::command())
    }

    /// The names of every command that users meet, like `inhaul-lab-kernel-cc-load`.
    fn names(command: &Command, prefix: &str, into: &mut Vec<String>) {
        into.push(prefix.to_owned());
        for inner in commands_below(command) {
            names(inner, &format!("{prefix}-{}", inner.get_name()), into);
        }
    }

    fn page(name: &str, section: u8) -> String {
        let found = pages().unwrap().into_iter().find(|page| (page.name.as_str(), page.section) == (name, section));
        found.unwrap_or_else(|| panic!("no page {name}({section})")).text
    }

    #[test]
    fn every_command_has_a_page_and_every_document() {
        let mut expected = Vec::new();
        names(&Cli::command(), "inhaul", &mut expected);
        expected.sort_unstable();
        let pages = pages().unwrap();
        let mut found: Vec<&str> =
            pages.iter().filter(|page| page.section == 1).map(|page| page.name.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let files = std::fs::read_dir(docs).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut documents: Vec<String> = files.filter_map(|file| Some(file.strip_suffix(".md")?.to_owned())).collect();
        documents.sort_unstable();
        assert_eq!(DOCUMENTS.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), documents);
    }

    #[test]
    fn page_of_a_command_has_all_that_belongs_on_one() {
        for page in pages().unwrap().iter().filter(|page| page.section == 1) {
            let sections: Vec<&str> = page.text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
            for section in ["NAME", "SYNOPSIS", "OPTIONS", "\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "\"SEE ALSO\""] {
                let is_there = sections.iter().any(|found| found.trim_matches('"') == section.trim_matches('"'));
                assert!(is_there, "{}: {section} of {sections:?}", page.name);
            }
            assert!(!page.text.contains("docs/"), "{}: {}", page.name, page.text);
        }
        let page = page("inhaul-get", 1);
        for words in [
            "receive\\-rate",
            ".SH EXAMPLES\n",
            "inhaul get [OPTIONS] \\-\\-metalink <FILE> <DEST>\n",
            ".TP\n11\nudp\\-blocked: ",
            "INHAUL_GET_",
            "inhaul\\-json(5)",
            "inhaul\\-trees(7)",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn page_of_a_document_has_what_the_document_says() {
        let page = page("inhaul-json", 5);
        assert!(
            page.contains("\n.SH \"THE REPORT OF GET\"\n") && page.contains("\n.TP\n\\fBkept_bytes\\fR\n"),
            "{page}"
        );
        assert!(page.contains("inhaul\\-exit\\-codes(7)"), "{page}");
    }

    #[test]
    fn exit_codes_are_all_there_and_short() {
        let codes = exit_codes();
        assert_eq!(codes.iter().map(|(code, _)| *code).collect::<Vec<_>>(), (0..19).chain([130]).collect::<Vec<u8>>());
        assert_eq!(codes[4].1, "host-unknown: The host's name does not resolve.");
        assert!(codes.iter().all(|(_, text)| !text.contains(['[', '`'])), "{codes:?}");
    }

    #[test]
    fn pages_are_written_to_the_directories_of_their_sections() {
        let dir = tempfile::tempdir().unwrap();
        write_all(Cli::command(), dir.path()).unwrap();
        for file in ["man1/inhaul.1", "man1/inhaul-lab-run.1", "man5/inhaul-json.5", "man7/inhaul-exit-codes.7"] {
            assert!(dir.path().join(file).exists(), "{file}");
        }
    }
}
