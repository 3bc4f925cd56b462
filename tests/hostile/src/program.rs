//! The program under test as a process.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::process::Readings;
use crate::wait_for;

/// How long a server may take until it listens.
const STARTED: Duration = Duration::from_secs(10);

/// The program under test: what `INHAUL` names, or that of this workspace, which is built if need be.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("INHAUL").map_or_else(build, PathBuf::from))
}

/// The program beside these tests, built as they were unless it is of today.
fn build() -> PathBuf {
    // TARGET/PROFILE/deps/TEST
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("cargo puts tests into TARGET/PROFILE/deps");
    let target = profile.parent().expect("cargo puts profiles into TARGET");
    let program = profile.join("inhaul");
    // Cargo alone would rebuild existing crates: for one package, it selects other features of the dependencies.
    if is_of_today(&program) {
        return program;
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "inhaul-cli", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(built.success(), "the program could not be built");
    program
}

/// Whether no source of a program has changed since it was built.
fn is_of_today(program: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let Some(built) = changed(program) else { return false };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut left = ["crates", "experiments", "Cargo.toml", "Cargo.lock"].map(|name| root.join(name)).to_vec();
    while let Some(path) = left.pop() {
        if let Ok(entries) = std::fs::read_dir(&path) {
            // A crate's own tests are no part of the program.
            left.extend(entries.flatten().map(|entry| entry.path()).filter(|path| !path.ends_with("tests")));
        } else if changed(&path).is_none_or(|time| time > built) {
            return false;
        }
    }
    true
}

/// The directory of the keys of this test. Tests share none: the port of a server that has ended may be another one's
/// soon, and that has another key.
fn state() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let tests = tests.with_file_name(format!("hostile-state-{}", std::process::id()));
    // Threads that a test has started have no name.
    let test = std::thread::current().name().unwrap_or("threads").replace("::", "-");
    std::fs::create_dir_all(&tests).unwrap();
    tests.join(test)
}

/// A command line of the program, before it is started.
#[derive(Debug)]
pub struct Start {
    prefix: Vec<OsString>,
    args: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    /// Where standard output goes; `None`: it is captured.
    output: Option<PathBuf>,
    /// Standard error is not read.
    is_unheard: bool,
}

/// The program with these arguments.
pub fn inhaul<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Start {
    let args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
    Start { prefix: Vec::new(), args, variables: Vec::new(), output: None, is_unheard: false }
}

impl Start {
    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// By another program, which replaces itself with the program that follows, such as `ip netns exec NAME`.
    #[must_use]
    pub fn by<A: AsRef<OsStr>>(mut self, prefix: impl IntoIterator<Item = A>) -> Self {
        self.prefix.extend(prefix.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// With the shell's limits, such as `-n 64` for 64 descriptors or `-v 4000000` for 4 GB of address space.
    #[must_use]
    pub fn limit(self, ulimit: &str) -> Self {
        self.by(["bash", "-c", &format!("ulimit {ulimit}; exec \"$0\" \"$@\"")])
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// With standard output to this file or device, such as `/dev/full`.
    #[must_use]
    pub fn output_to(mut self, path: impl AsRef<Path>) -> Self {
        self.output = Some(path.as_ref().to_owned());
        self
    }

    /// With a pipe for standard error whose reader has gone away.
    #[must_use]
    pub fn unheard(mut self) -> Self {
        self.is_unheard = true;
        self
    }

    /// As another user, who has no rights and no other process, and who may have `threads` threads. Needs root.
    #[must_use]
    pub fn with_threads(self, threads: u32, user: u32) -> Self {
        let user = user.to_string();
        let change = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
        self.limit(&format!("-u {threads}")).by(change)
    }

    /// Starts it.
    pub fn start(&self) -> Running {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain([program().as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(&self.args);
        // The user's own settings must not affect the tests, and tests must not share caches.
        command.env("INHAUL_CONFIG", "/dev/null").env("XDG_CACHE_HOME", "/dev/null");
        // Keys of these tests, and rights for all: tests of either say so.
        command.env("INHAUL_STATE", state());
        for name in ["PUBLIC", "PUBLIC_PUTS", "PUBLIC_COPIES"] {
            command.env(format!("INHAUL_SERVE_{name}"), "true");
        }
        for name in ["GET", "PLAN", "PUT", "COPY", "LS", "DOCTOR", "BENCH"] {
            command.env(format!("INHAUL_{name}_ACCEPT_NEW"), "true");
        }
        // What cannot be reached is an error at once; tests of trying again say so.
        for name in ["GET", "PUT", "COPY"] {
            command.env(format!("INHAUL_{name}_RETRY_FOR"), "0");
        }
        // The program takes variables of these names for settings.
        for name in ["INHAUL", "INHAUL_SESSION", "INHAUL_HOSTILE", "INHAUL_HOSTILE_SEED", "INHAUL_CHAOS_TRANSFERS"] {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(path) = &self.output {
            command.stdout(std::fs::File::options().write(true).open(path).unwrap());
        }
        if self.is_unheard {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stderr(writer);
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = child.stdout.take().map_or_else(|| Captured::of(std::io::empty()), Captured::of);
        let err = child.stderr.take().map_or_else(|| Captured::of(std::io::empty()), Captured::of);
        Running { child, out, err, started: Instant::now() }
    }

    /// Runs it to its end; it is killed after `within`.
    pub fn finish(&self, within: Duration) -> Outcome {
        self.start().finish(within)
    }

    /// Starts it and waits until it listens.
    pub fn serve(&self) -> Server {
        let running = self.start();
        let listening = || address(&running.stdout());
        wait_for(STARTED, || listening().is_some() || !running.is_running());
        let Some(address) = listening() else { panic!("the server does not listen: {}", running.stderr()) };
        Server { running, address }
    }
}

/// Where a server says that it listens.
fn address(stdout: &str) -> Option<SocketAddr> {
    stdout.lines().find_map(|line| line.strip_prefix("listening on "))?.trim().parse().ok()
}

/// A process's output so far.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Captured {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut piece) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..len]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// All of it, once the process has ended.
    fn end(&mut self) -> String {
        self.reader.take().and_then(|reader| reader.join().ok());
        self.text()
    }
}

/// The program as it runs; killed when the test lets go of it.
pub struct Running {
    child: Child,
    out: Captured,
    err: Captured,
    started: Instant,
}

impl Running {
    /// Its process id; with a prefix that replaces itself it is the program's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.out.text()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.err.text()
    }

    /// Its resources; `None` if it has ended.
    pub fn readings(&self) -> Readings {
        Readings::of(self.pid()).unwrap_or_default()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it at once, by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end; it is killed after `within`.
    pub fn finish(mut self, within: Duration) -> Outcome {
        let mut readings = Readings::default();
        let timed_out = !wait_for(within, || {
            let ended = !self.is_running();
            if !ended && let Some(now) = Readings::of(self.pid()) {
                readings = Readings { memory_peak: now.memory_peak.max(readings.memory_peak), ..now };
            }
            ended
        });
        let took = self.started.elapsed();
        // Ended, and not yet waited for: its processor time is exact now.
        readings.cpu = readings.cpu.max(self.readings().cpu);
        if timed_out {
            let _ = self.child.kill();
        }
        let status = self.child.wait().unwrap();
        let code = status.code().filter(|_| !timed_out);
        Outcome { code, timed_out, stdout: self.out.end(), stderr: self.err.end(), took, readings }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit code; `None` when a signal ended it, or it had to be killed.
    pub code: Option<i32>,
    /// Whether it had to be killed, because it took too long.
    pub timed_out: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    /// Its resources; the memory by the last reading.
    pub readings: Readings,
}

impl Outcome {
    /// The exit code and, of another than 0, the last lines of standard error: for messages.
    pub fn summary(&self) -> String {
        let end = if self.timed_out {
            format!("did not end within {:.1} s", self.took.as_secs_f64())
        } else {
            self.code.map_or("was ended by a signal".to_owned(), |code| format!("exit {code}"))
        };
        let lines: Vec<&str> = self.stderr.lines().rev().take(3).collect();
        let last = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
        if self.code == Some(0) { end } else { format!("{end}: {}", last.escape_debug()) }
    }

    /// The JSON object on the last line of standard output.
    pub fn json(&self) -> serde_json::Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
    }
}

/// A server; killed when the test lets go of it.
pub struct Server {
    /// The process.
    pub running: Running,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Offers `directory` on a free port of IPv4 loopback; asked to stop, it does not wait for clients.
    pub fn offer(directory: &Path) -> Self {
        Self::offer_with(directory, &[])
    }

    /// The same with further arguments.
    pub fn offer_with(directory: &Path, args: &[&str]) -> Self {
        let listen = ["--listen", "127.0.0.1:0", "--grace", "0"];
        let args = listen.iter().chain(args).map(OsStr::new);
        inhaul([OsStr::new("serve"), directory.as_os_str()].into_iter().chain(args)).serve()
    }

    /// The address of `path`, which begins with a slash.
    pub fn source(&self, path: &str) -> String {
        format!("inhaul://{}{path}", self.address)
    }

    /// Its resources.
    pub fn readings(&self) -> Readings {
        self.running.readings()
    }

    /// An honest client's fetch of `path` to `destination`, at most for `within`.
    pub fn get(&self, path: &str, destination: &Path, within: Duration) -> Outcome {
        inhaul(["get", "--overwrite", "--quiet", &self.source(path)]).arg(destination).finish(within)
    }
}
