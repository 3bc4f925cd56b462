//! The same setting in ns-3, by the program `ns3/dumbbell.cc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use inhaul_base::Span;
use serde::{Deserialize, Serialize};

use crate::{ACCESS_FACTOR, BOTTLENECK_DELAY, Loss, Outcome, PACKET_BYTES, SEGMENT_BYTES, Setting};

/// ns-3's packets are longer by a PPP header. Its bottleneck is faster in the same ratio, so that both carry as many
/// packets.
const PPP_BYTES: u64 = 2;
/// Names a program that was built from `dumbbell.cc` before, for example with a build of ns-3 of one's own.
pub const PROGRAM_VARIABLE: &str = "INHAUL_NS3_DUMBBELL";
/// Packages of pkg-config that the program needs; they name the others.
const PACKAGES: [&str; 3] = ["ns3-applications", "ns3-point-to-point", "ns3-internet"];

/// Why there is nothing from ns-3.
#[derive(Debug, thiserror::Error)]
pub enum Ns3Error {
    /// ns-3 is not installed.
    #[error("ns-3 is not installed (Debian: apt-get install g++ pkg-config libns3-dev): {0}")]
    Absent(String),
    /// The program does not compile.
    #[error("tests/interop/ns3/dumbbell.cc does not compile with the ns-3 that is installed:\n{0}")]
    Build(String),
    /// The program failed.
    #[error("the ns-3 program failed: {0}")]
    Run(String),
    /// The program's output has the wrong form.
    #[error("the ns-3 program printed what cannot be read: {0}")]
    Output(#[from] serde_json::Error),
    /// The file of kept outcomes cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The program's output beside the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The outcome of the setting.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long the simulation took, in seconds of a wall clock.
    pub wall_s: f64,
    /// Most memory that the process had, in KiB.
    pub memory_kib: u64,
}

/// ns-3's outcomes: simulated when asked for, or kept from before. ns-3 is deterministic, so a kept one is as good as
/// new.
pub struct Reference {
    program: Result<Program, Ns3Error>,
    kept: BTreeMap<String, Run>,
    file: Option<PathBuf>,
}

struct Program {
    path: PathBuf,
    /// Holds the program while it is needed.
    _folder: Option<tempfile::TempDir>,
}

impl Reference {
    /// The program that the environment variable [`PROGRAM_VARIABLE`] names; without it, one built with the ns-3 that
    /// is installed.
    pub fn new() -> Self {
        Self::named().unwrap_or_else(Self::installed)
    }

    /// The program that the environment variable [`PROGRAM_VARIABLE`] names, if it is set.
    pub fn named() -> Option<Self> {
        let path = std::env::var_os(PROGRAM_VARIABLE)?.into();
        Some(Self { program: Ok(Program { path, _folder: None }), kept: BTreeMap::new(), file: None })
    }

    /// The program, built with the ns-3 that is installed.
    pub fn installed() -> Self {
        Self { program: build(), kept: BTreeMap::new(), file: None }
    }

    /// Why nothing can be simulated, if so.
    pub fn unavailable(&self) -> Option<&Ns3Error> {
        self.program.as_ref().err()
    }

    /// Takes outcomes from `file` if it has them, and adds missing ones.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn keep_in(mut self, file: &Path) -> Result<Self, Ns3Error> {
        if file.exists() {
            let text = fs::read(file).map_err(|error| Ns3Error::File { path: file.into(), error })?;
            self.kept = serde_json::from_slice(&text)?;
        }
        self.file = Some(file.into());
        Ok(self)
    }

    /// The outcome of a setting under a seed in ns-3, with a sample each `step`.
    ///
    /// # Errors
    /// When it is not kept and cannot be simulated either.
    pub fn run(&mut self, setting: &Setting, seed: u64, step: Span) -> Result<Run, Ns3Error> {
        let arguments = arguments(setting, seed, step);
        let key = arguments.join(" ");
        if let Some(kept) = self.kept.get(&key) {
            return Ok(kept.clone());
        }
        let program = self.program.as_ref().map_err(|error| Ns3Error::Absent(error.to_string()))?;
        let output = Command::new(&program.path)
            .args(&arguments)
            .output()
            .map_err(|error| Ns3Error::Run(format!("{}: {error}", program.path.display())))?;
        if !output.status.success() {
            return Err(Ns3Error::Run(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))));
        }
        let run: Run = serde_json::from_slice(&output.stdout)?;
        if let Some(path) = &self.file {
            self.kept.insert(key, run.clone());
            let text = serde_json::to_vec(&self.kept)?;
            fs::write(path, text).map_err(|error| Ns3Error::File { path: path.clone(), error })?;
        }
        Ok(run)
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

/// The setting as the program takes it.
fn arguments(setting: &Setting, seed: u64, step: Span) -> Vec<String> {
    let micros = |span: Span| span.as_nanos() / 1_000;
    let rate = setting.rate_mbps * 1_000_000 * (PACKET_BYTES + PPP_BYTES) / PACKET_BYTES;
    let mut arguments = vec![
        format!("rate={rate}"),
        format!("access_factor={ACCESS_FACTOR}"),
        format!("queue={}", setting.queue_packets),
        format!("segment={SEGMENT_BYTES}"),
        format!("bottleneck_delay_us={}", micros(BOTTLENECK_DELAY)),
        format!("duration_us={}", micros(setting.duration)),
        format!("step_us={}", micros(step)),
        format!("seed={seed}"),
    ];
    if let Loss::Random(probability) = setting.loss {
        arguments.push(format!("loss={probability}"));
    }
    arguments.extend(setting.drawn_losses(seed).iter().map(|number| format!("lose={number}")));
    let paths = setting.rtts(seed).into_iter().zip(setting.starts(seed));
    for (flow, (rtt, start)) in setting.flows.iter().zip(paths) {
        arguments.push(format!("flow={},{},{}", flow.law, micros(rtt), micros(start)));
    }
    arguments
}

/// Compiles the program with the ns-3 that is installed.
fn build() -> Result<Program, Ns3Error> {
    let absent = |error: io::Error| Ns3Error::Absent(error.to_string());
    let flags = Command::new("pkg-config")
        .args(["--cflags-only-I", "--libs-only-l"])
        .args(PACKAGES)
        .output()
        .map_err(|error| Ns3Error::Absent(format!("pkg-config: {error}")))?;
    if !flags.status.success() {
        return Err(Ns3Error::Absent(String::from_utf8_lossy(&flags.stderr).trim().to_owned()));
    }
    let folder = tempfile::tempdir().map_err(absent)?;
    let path = folder.path().join("dumbbell");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("ns3/dumbbell.cc");
    let built = Command::new("g++")
        .args(["-std=c++17", "-O1"])
        .arg(source)
        .arg("-o")
        .arg(&path)
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output()
        .map_err(|error| Ns3Error::Absent(format!("g++: {error}")))?;
    if !built.status.success() {
        return Err(Ns3Error::Build(String::from_utf8_lossy(&built.stderr).into_owned()));
    }
    Ok(Program { path, _folder: Some(folder) })
}
