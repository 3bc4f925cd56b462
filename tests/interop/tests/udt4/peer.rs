//! A program over libudt as the other side.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use inhaul_interop_tests::libudt::{self, LibudtError};

/// No test takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The program, built once. `None`, with a word why, where there is no compiler or no libudt.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| built(libudt::peer(directory()))).as_deref()
}

/// One of libudt's example programs, if their source is there too.
pub(crate) fn example(name: &str) -> Option<PathBuf> {
    built(libudt::example(directory(), name))
}

fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn built(program: Result<PathBuf, LibudtError>) -> Option<PathBuf> {
    match program {
        Ok(program) => Some(program),
        Err(LibudtError::Absent(why)) => {
            println!("SKIPPED: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A running peer. It is killed when it is dropped.
pub(crate) struct Peer {
    child: Child,
    lines: Receiver<String>,
    deadline: Instant,
}

impl Peer {
    /// Starts it; see `peer.cc` for the arguments.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Self {
        Self::with(program, &[], arguments)
    }

    /// Starts it with variables of its environment set.
    pub(crate) fn with(program: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, deadline: Instant::now() + PATIENCE }
    }

    /// The next line that it prints; `None` when it has ended.
    pub(crate) fn line(&self) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("libudt's side took longer than {PATIENCE:?}"),
        }
    }

    /// The port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        let line = self.line().unwrap();
        line.strip_prefix("port ").and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    /// All that it still prints, and that it ended well.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut lines: Vec<String> = std::iter::from_fn(|| self.line()).collect();
        assert_eq!(lines.pop().as_deref(), Some("done"), "libudt's side failed");
        assert!(self.child.wait().unwrap().success());
        lines
    }
}

impl Peer {
    /// Waits until it ends; says whether well.
    pub(crate) fn ended_well(mut self) -> bool {
        while self.line().is_some() {}
        self.child.wait().unwrap().success()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
