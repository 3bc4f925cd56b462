//! Servers and clients as real processes over loopback, each bounded in time and cleaned up.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;

/// No command of these tests takes longer on a machine that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// The commands that connect to servers.
pub(crate) const CONNECTING: [&str; 7] = ["GET", "PLAN", "PUT", "COPY", "LS", "DOCTOR", "BENCH"];

/// The directory of the keys of this test. Tests share none: the port of a server that has ended may be another one's
/// soon, and that has another key.
pub(crate) fn state() -> PathBuf {
    let tests = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", std::process::id()));
    // Threads that a test has started have no name.
    let test = std::thread::current().name().unwrap_or("threads").replace("::", "-");
    std::fs::create_dir_all(&tests).unwrap();
    tests.join(test)
}

/// The program under test.
fn inhaul() -> Command {
    inhaul_by(&[])
}

fn inhaul_by(prefix: &[&str]) -> Command {
    let mut words = prefix.iter().copied().chain([env!("CARGO_BIN_EXE_inhaul")]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    // The user's own settings must not affect the tests.
    command.env("INHAUL_CONFIG", "/dev/null");
    // What cannot be reached is an error at once; tests of trying again say so.
    for name in ["GET", "PUT", "COPY"] {
        command.env(format!("INHAUL_{name}_RETRY_FOR"), "0");
    }
    // Keys of these tests, and rights for all: tests of either say so.
    command.env("INHAUL_STATE", state());
    for name in ["PUBLIC", "PUBLIC_PUTS", "PUBLIC_COPIES"] {
        command.env(format!("INHAUL_SERVE_{name}"), "true");
    }
    for name in CONNECTING {
        command.env(format!("INHAUL_{name}_ACCEPT_NEW"), "true");
    }
    // A place that cannot hold a cache: tests must not share caches.
    command.env("XDG_CACHE_HOME", "/dev/null");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server that is killed when the test is done with it.
pub(crate) struct Server {
    child: Child,
    /// Where it listens, as HOST:PORT.
    pub(crate) address: String,
}

impl Server {
    /// Starts `inhaul` with `args` and waits until it listens.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_by(&[], args)
    }

    /// The same by a command that replaces itself with the program that it is given.
    pub(crate) fn start_by(prefix: &[&str], args: &[&str]) -> Self {
        let mut command = inhaul_by(prefix);
        let mut child = command.args(args).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.strip_prefix("listening on ") else {
            let _ = child.kill();
            panic!("the server said: {line}{:?}", child.wait_with_output());
        };
        Self { child, address: address.trim().to_owned() }
    }

    /// Offers `directory` on a free port of IPv4 loopback; told to stop, it does not wait for clients.
    pub(crate) fn offer(directory: &Path) -> Self {
        Self::start(&["serve", directory.to_str().unwrap(), "--listen", "127.0.0.1:0", "--grace", "0"])
    }

    /// Ends it at once, like a power failure, except for the kernel's messages to its peers.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    /// Memory that it has in use now, in bytes (VmRSS).
    pub(crate) fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Asks it to stop, and gives its exit code.
    pub(crate) fn stop(&mut self, signal: Signal) -> Option<i32> {
        send_signal(&self.child, signal);
        wait(&mut self.child).code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a command.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// The JSON object on the last line of standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
    }
}

/// A command that is under way; killed when the test gives up on it.
pub(crate) struct Running {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

/// Starts `inhaul` with `args`.
pub(crate) fn start(args: &[&str]) -> Running {
    started(inhaul().args(args))
}

fn started(command: &mut Command) -> Running {
    let mut child = command.spawn().unwrap();
    let out = read_all(child.stdout.take().unwrap());
    let err = read_all(child.stderr.take().unwrap());
    Running { child, out: Some(out), err: Some(err) }
}

/// Starts `inhaul` with `args` and waits for the first line of its standard error, which is given, too.
pub(crate) fn start_and_hear(args: &[&str]) -> (Running, String) {
    let mut child = inhaul().args(args).spawn().unwrap();
    let out = read_all(child.stdout.take().unwrap());
    let (mut err, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    err.read_line(&mut line).unwrap();
    let err = read_all(err);
    (Running { child, out: Some(out), err: Some(err) }, line)
}

/// Runs `inhaul` with `args` to its end.
pub(crate) fn run(args: &[&str]) -> Outcome {
    start(args).finish()
}

/// The same by a shell that has closed its standard input or output.
pub(crate) fn run_without(closed: &str, args: &[&str]) -> Outcome {
    started(inhaul_by(&["sh", "-c", &format!("exec \"$@\" {closed}"), "sh"]).args(args)).finish()
}

/// The same in this directory.
pub(crate) fn run_in(directory: &Path, args: &[String]) -> Outcome {
    started(inhaul().args(args).current_dir(directory)).finish()
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    /// Ends it at once, by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Outcome {
        let code = wait(&mut self.child).code();
        let text = |thread: Option<JoinHandle<String>>| thread.unwrap().join().unwrap();
        let (stdout, stderr) = (text(self.out.take()), text(self.err.take()));
        Outcome { code, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

fn send_signal(child: &Child, signal: Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits for a child's end, which must come in time.
fn wait(child: &mut Child) -> std::process::ExitStatus {
    let mut ended = None;
    come_true(PATIENCE, || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    ended.unwrap_or_else(|| {
        let _ = child.kill();
        panic!("a command took longer than {PATIENCE:?}");
    })
}

/// Waits until `condition` holds, which must come in time.
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    assert!(come_true(PATIENCE, condition), "{what} did not come about");
}

/// Waits until `condition` holds, at most for `within`; whether it came to hold. The one place where these tests
/// sleep: what other processes do is not told to them, so they have to look.
pub(crate) fn come_true(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// The directory as a destination for data sets to land in.
pub(crate) fn within(directory: &Path) -> String {
    format!("{}/", directory.to_str().unwrap())
}

/// Bytes that no two places of a file share, and that differ by `seed`.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64: no need for good randomness, only for no pattern.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// All names beneath `directory`, sorted, with the files' content.
pub(crate) fn tree(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().as_os_str().as_encoded_bytes().escape_ascii().to_string();
            if path.is_dir() {
                found.push((name + "/", Vec::new()));
                pending.push(path);
            } else {
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
