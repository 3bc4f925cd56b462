//! docs/coming-from.md: each of its lines is answered with the one beside it, and that one works when it is pasted.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use crate::common::{Server, run, run_in};

const DOCUMENT: &str = include_str!("../../docs/coming-from.md");
/// The file that is fetched, and its SHA-256 (FIPS 180-2, B.1).
const CONTENT: &[u8] = b"abc";
const DIGITS: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// Rows that the document has at least.
const ROWS_MIN: usize = 50;

/// The lines of the document and their answers.
fn rows() -> Vec<(&'static str, &'static str)> {
    let cells = |row: &'static str| {
        let cells = row.strip_prefix("| `")?.strip_suffix("` |")?;
        cells.split_once("` | `")
    };
    DOCUMENT.lines().filter_map(cells).collect()
}

/// The servers that stand behind the names of the document, and secrets for them.
struct Servers {
    /// dtn1, and dtn2, which may fetch from it.
    files: [Server; 2],
    bench: Server,
    ticket: String,
    token: String,
    directory: tempfile::TempDir,
    /// Held by who puts: several lines bring the same.
    putting: Mutex<()>,
}

impl Servers {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir_all(data.join("run7")).unwrap();
        for name in ["run7/a", "100%", "run#7"] {
            std::fs::write(data.join(name), CONTENT).unwrap();
        }
        let [data, inbox, second] = ["data", "inbox", "second"].map(|name| directory.path().join(name));
        for place in [&inbox, &second] {
            std::fs::create_dir_all(place).unwrap();
        }
        let [data, inbox, second] = [&data, &inbox, &second].map(|path| path.to_str().unwrap());
        let serve = ["serve", data, "--listen", "127.0.0.1:0", "--grace", "0", "--accept-puts"];
        let dtn1 = Server::start(&[&serve[..], &[inbox]].concat());
        let dtn2 = Server::start(&[&serve[..], &[second, "--accept-copies-from", &dtn1.address]].concat());
        let bench = Server::start(&["bench", "--server", "--listen", "127.0.0.1:0"]);
        let made = run(&["token", "make", "--read", "/"]).stdout;
        let (ticket, token) = made.trim().split_once('#').unwrap().1.split_once('.').unwrap();
        Self {
            files: [dtn1, dtn2],
            bench,
            ticket: ticket.to_owned(),
            token: token.to_owned(),
            directory,
            putting: Mutex::default(),
        }
    }

    /// The words of a line of the document, with the secrets that it names.
    fn words(&self, line: &str) -> Vec<String> {
        let (first, half) = self.ticket.split_at(self.ticket.len() / 2);
        let mut line = line.to_owned();
        let names = [("TICKET", &*self.ticket), ("TOKEN", &self.token), ("FIRST", first), ("HALF", half)];
        for (name, value) in names.into_iter().chain([("DIGITS", DIGITS)]) {
            line = line.replace(name, value);
        }
        shlex::split(&line).unwrap()
    }

    /// A word with the servers of this test in the place of names that no host has.
    fn with_servers(&self, word: &str, is_bench: bool) -> String {
        let dtn1 = if is_bench { &self.bench.address } else { &self.files[0].address };
        let names = [("[::]:5001", "127.0.0.1:0"), ("dtn1:5001", dtn1), ("dtn1", dtn1), ("[::1]", dtn1)];
        let names = names.into_iter().chain([("dtn2", &*self.files[1].address)]);
        let word = names.fold(word.to_owned(), |word, (name, address)| word.replace(name, address));
        word.replace("/srv/data", self.directory.path().join("data").to_str().unwrap())
    }

    /// A directory like the one assumed by the document's lines.
    fn here(&self) -> tempfile::TempDir {
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir(here.path().join("new")).unwrap();
        std::fs::write(here.path().join("new/f"), CONTENT).unwrap();
        // The same in all: existing files are kept.
        let file = std::fs::File::options().write(true).open(here.path().join("new/f")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        std::fs::write(here.path().join("list"), format!("inhaul://{}/run7/a\n", self.files[0].address)).unwrap();
        here
    }

    /// The fault of a row, if it has one.
    fn try_row(&self, line: &str, answer: &str) -> Result<(), String> {
        let here = self.here();
        let words = self.words(line);
        let outcome = run_in(here.path(), &words[1..]);
        // wget makes a missing directory: existing files do not change the answer.
        let empty = run_in(tempfile::tempdir().unwrap().path(), &words[1..]);
        if empty.stderr != outcome.stderr {
            return Err(format!("{line}\n  is answered in an empty directory with\n{}", empty.stderr));
        }
        let found = outcome.stderr.lines().skip_while(|line| *line != "Try:").nth(1).map(str::trim);
        let expected = self.words(answer);
        if outcome.code != Some(2) || found.and_then(shlex::split) != Some(expected.clone()) {
            return Err(format!("{line}\n  exit {:?}, not answered with: {answer}\n{}", outcome.code, outcome.stderr));
        }
        self.try_answer(&expected, here.path()).map_err(|why| format!("{line}\n  {answer}\n{why}"))
    }

    fn try_answer(&self, answer: &[String], here: &Path) -> Result<(), String> {
        let command = answer[1].as_str();
        let mut words: Vec<String> =
            answer[1..].iter().map(|word| self.with_servers(word, command == "bench")).collect();
        if command == "serve" {
            if !words.iter().any(|word| word == "--listen") {
                words.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
            }
            // It panics unless the server listens.
            drop(Server::start(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            return Ok(());
        }
        let _putting = (command == "put").then(|| self.putting.lock().unwrap());
        let outcome = run_in(here, &words);
        match outcome.code {
            Some(0) => Ok(()),
            code => Err(format!("  exit {code:?} of {words:?}\n{}", outcome.stderr)),
        }
    }
}

#[test]
fn each_line_is_answered_with_one_that_works() {
    let rows = rows();
    assert!(rows.len() >= ROWS_MIN, "{} rows", rows.len());
    let all = DOCUMENT.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows.len(), all, "a row that cannot be read is not tried");
    let (servers, next) = (Servers::start(), AtomicUsize::new(0));
    let work = || {
        let mut wrong = Vec::new();
        while let Some((line, answer)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.extend(servers.try_row(line, answer).err());
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_ticket_that_was_cut_off_and_one_of_another_server_are_told() {
    let servers = Servers::start();
    let address = &servers.files[0].address;
    let cut = run(&["ls", &format!("{address}/run7#{}", &servers.ticket[..servers.ticket.len() - 3])]);
    assert_eq!(cut.code, Some(2), "{}", cut.stderr);
    assert!(cut.stderr.contains("no ticket") && !cut.stderr.contains("Try:"), "{}", cut.stderr);
    // A fingerprint of another key: the same with its first character changed.
    let other = if servers.ticket.starts_with('A') { "B" } else { "A" };
    let other = format!("{address}/run7#{other}{}", &servers.ticket[1..]);
    let outcome = run(&["ls", &other]);
    assert_eq!(outcome.code, Some(17), "{}", outcome.stderr);
}
