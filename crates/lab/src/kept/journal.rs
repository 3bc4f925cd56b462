//! Keeps each run when it is finished, as a line of a file. So hours of work survive an early end of the program, and
//! the same command continues.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::run_of_json;
use crate::result::RunResult;

/// Bytes of a journal that are read; runs beyond them are made again.
const JOURNAL_MAX: u64 = 256 << 20;

/// The inputs of a journal's runs, apart from case and seed. Runs of another identity are not taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `PAPER/ITEM`.
    pub experiment: String,
    /// Its backend and options, in words.
    pub backend: String,
    /// See [`Kept::control`](super::Kept::control).
    pub control: String,
    /// See [`Kept::set`](super::Kept::set).
    pub set: Vec<String>,
    /// See [`Origin::version`](super::Origin::version).
    pub version: String,
    /// See [`Origin::commit`](super::Origin::commit). If the source was changed since that commit, or the commit is
    /// not known, the program that made the runs is unknown. Then no run is taken over.
    pub commit: Option<String>,
}

/// The file, and its content when it was opened.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    known: Vec<RunResult>,
    /// How long those runs took, in seconds.
    took_s: f64,
    /// The file, and the first error of writing to it.
    writing: Mutex<(File, Option<io::Error>)>,
}

impl Journal {
    /// Opens `directory/PAPER/ITEM/NAME.unfinished.jsonl`, or begins it.
    ///
    /// Runs of another program or of other settings are replaced, and an incomplete last line is left out: its run is
    /// made again.
    ///
    /// # Errors
    /// When the system will not read or write there.
    pub fn open(directory: &Path, name: &str, identity: &Identity) -> io::Result<Self> {
        let folder = directory.join(&identity.experiment);
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.unfinished.jsonl"));
        let (known, took_s) = if identity.is_certain() { read(&path, identity) } else { (Vec::new(), 0.0) };
        // Written anew, because unreadable lines must not stay between readable ones.
        let mut text = to_line(identity)?;
        for run in &known {
            text.push_str(&to_line(&Line { took_s, run })?);
        }
        fs::write(&path, text)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, known, took_s, writing: Mutex::new((file, None)) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs that it held when it was opened.
    pub fn runs(&self) -> &[RunResult] {
        &self.known
    }

    /// How long these took, in seconds.
    pub fn took_s(&self) -> f64 {
        self.took_s
    }

    /// Adds a run that finished `elapsed_s` after the journal was opened, if it is valid; others are made again the next
    /// time. An error is kept for [`close`](Self::close), because the run itself is not the cause.
    pub fn finished(&self, run: &RunResult, elapsed_s: f64) {
        let Ok(mut writing) = self.writing.lock() else { return };
        let (file, error) = &mut *writing;
        if run.valid && error.is_none() {
            let line = Line { took_s: self.took_s + elapsed_s, run };
            *error = to_line(&line).and_then(|line| file.write_all(line.as_bytes())).err();
        }
    }

    /// A run that it held when it was opened.
    pub fn known(&self, case: &str, seed: u64) -> Option<RunResult> {
        self.known.iter().find(|run| run.case == case && run.seed == seed).cloned()
    }

    /// Ends it. With `remove` the file goes, as the result is kept elsewhere.
    ///
    /// # Errors
    /// When a run could not be written, or the file cannot be removed.
    pub fn close(self, remove: bool) -> io::Result<()> {
        let (_, error) = self.writing.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if remove { fs::remove_file(&self.path) } else { error.map_or(Ok(()), Err) }
    }
}

/// A finished run, and how long all runs had taken by then.
#[derive(Serialize)]
struct Line<'a> {
    took_s: f64,
    #[serde(flatten)]
    run: &'a RunResult,
}

/// The time of a line.
#[derive(Default, Deserialize)]
struct Took {
    #[serde(default)]
    took_s: f64,
}

impl Identity {
    fn is_certain(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| !commit.ends_with("-dirty"))
    }
}

fn to_line(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value).map_err(io::Error::other)? + "\n")
}

/// The runs of that identity, and how long they took. Unreadable ones count as missing, because they can be made again.
fn read(path: &Path, identity: &Identity) -> (Vec<RunResult>, f64) {
    let mut text = Vec::new();
    let whole = File::open(path).and_then(|file| file.take(JOURNAL_MAX).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let same =
        lines.next().and_then(|line| serde_json::from_str(line).ok()).is_some_and(|first: Identity| first == *identity);
    if whole.is_err() || !same {
        return (Vec::new(), 0.0);
    }
    let mut took_s = 0.0;
    let runs = lines.filter_map(|line| {
        let run = run_of_json(line).ok().filter(|run| run.valid)?;
        let took: Took = serde_json::from_str(line).unwrap_or_default();
        took_s = took.took_s.max(took_s);
        Some(run)
    });
    (runs.collect(), took_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            experiment: "a/b".to_owned(),
            backend: "sim".to_owned(),
            control: "default".to_owned(),
            set: vec![],
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
        }
    }

    fn run(seed: u64, valid: bool) -> RunResult {
        RunResult { seed, valid, ..RunResult::default() }
    }

    /// A journal of the runs 1 and 3, and of 2, which is not valid.
    fn written(directory: &Path) -> PathBuf {
        let journal = Journal::open(directory, "sim", &identity()).unwrap();
        assert!(journal.runs().is_empty());
        for run in [run(1, true), run(2, false), run(3, true)] {
            journal.finished(&run, run.seed as f64);
        }
        let path = journal.path().to_owned();
        journal.close(false).unwrap();
        path
    }

    fn seeds(directory: &Path, identity: &Identity) -> Vec<u64> {
        Journal::open(directory, "sim", identity).unwrap().runs().iter().map(|run| run.seed).collect()
    }

    #[test]
    fn open_finds_the_valid_runs_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        assert_eq!(path, directory.path().join("a/b/sim.unfinished.jsonl"));
        assert_eq!(seeds(directory.path(), &identity()), [1, 3]);
        assert_eq!(seeds(directory.path(), &identity()), [1, 3], "opening loses nothing");
        let journal = Journal::open(directory.path(), "sim", &identity()).unwrap();
        assert_eq!(journal.took_s(), 3.0, "the time of the last valid run");
        journal.finished(&run(5, true), 2.0);
        journal.close(false).unwrap();
        assert_eq!(Journal::open(directory.path(), "sim", &identity()).unwrap().took_s(), 5.0, "parts add up");
    }

    #[test]
    fn open_takes_over_no_runs_of_another_identity() {
        let others: [fn(&mut Identity); 3] = [
            |other| other.commit = Some("ffffffffffff".to_owned()),
            |other| other.set = vec!["duration=1 s".to_owned()],
            |other| other.backend = "emu".to_owned(),
        ];
        for change in others {
            let directory = tempfile::tempdir().unwrap();
            written(directory.path());
            let mut other = identity();
            change(&mut other);
            assert!(seeds(directory.path(), &other).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn open_takes_over_nothing_where_the_source_is_not_certain() {
        for commit in [None, Some("0123456789ab-dirty".to_owned())] {
            let directory = tempfile::tempdir().unwrap();
            let uncertain = Identity { commit, ..identity() };
            let journal = Journal::open(directory.path(), "sim", &uncertain).unwrap();
            journal.finished(&run(1, true), 1.0);
            journal.close(false).unwrap();
            assert!(seeds(directory.path(), &uncertain).is_empty(), "{uncertain:?}");
        }
    }

    #[test]
    fn open_leaves_out_what_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        assert_eq!(seeds(directory.path(), &identity()), [1], "the last line breaks off");
        let journal = Journal::open(directory.path(), "sim", &identity()).unwrap();
        journal.finished(&run(4, true), 1.0);
        journal.close(false).unwrap();
        assert_eq!(seeds(directory.path(), &identity()), [1, 4], "and later lines are complete");
    }

    #[test]
    fn close_removes_what_is_kept_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        Journal::open(directory.path(), "sim", &identity()).unwrap().close(true).unwrap();
        assert!(!path.exists());
    }
}
