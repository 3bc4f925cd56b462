//! `inhaul link run`.

use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use inhaul_emu::{EmuError, Emulator, Exit, Process, Signal, SpawnOptions, Stream};

use super::emulation::{COMMANDS, Emulation, flag_on, is_set};
use super::failure::Failure;
use super::report::{CommandReport, LinkRun};
use super::table::report_table;
use crate::options::{OUTPUT, seconds};
use crate::output::{announce, announce_bytes, to_json};

pub(super) const EXAMPLES: &str = "\
docs/link.md explains the emulator, and docs/scenario.md the format of SCENARIO. The exit
code is 13 if this machine was too slow for valid results, and 14 if a command failed.

Examples:
  A server in one host, a client in another:
    inhaul link run star.toml --background receiver 'iperf3 -s' --on near 'iperf3 -c receiver'
  Two senders at once, on a host with a processor to spare:
    inhaul link run star.toml --wait spin --background receiver 'inhaul bench --server' \\
      --on near 'inhaul bench -R receiver' --on far 'inhaul bench -R receiver'";

/// How long a command in the background may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(2);
/// How long a command may take to end after SIGTERM.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How often commands are checked.
const TICK: Duration = Duration::from_millis(20);

/// The command line of `inhaul link run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    emulation: Emulation,
    /// Run a shell command in a host. Can be repeated: all commands start at once, and the run ends when all have
    /// ended
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], required = true, help_heading = COMMANDS)]
    on: Vec<String>,
    /// Start a shell command in a host before the commands of --on, and end it after them; can be repeated. The
    /// commands of --on start when this one listens on a port, or after 2 s
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], help_heading = COMMANDS)]
    background: Vec<String>,
    /// End the run after this time, in seconds [default: when all commands of --on have ended]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = COMMANDS)]
    duration: Option<f64>,
    /// Print one JSON object at the end (docs/json.md); the commands' output then goes to standard error
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

/// A command that was started.
struct Started {
    report: CommandReport,
    process: Process,
    since: Instant,
    done: bool,
    output: Vec<JoinHandle<()>>,
}

pub(super) fn run(args: &Run) -> Result<(), Failure> {
    let stop = flag_on(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM], false)?;
    let (_, emulator) = args.emulation.start()?;
    let mut commands = Vec::new();
    let mut begun = false;
    for (background, words) in [(true, &args.background), (false, &args.on)] {
        if !background {
            wait_until_listening(&emulator, &commands)?;
            emulator.begin();
            begun = true;
        }
        for (host, command) in pairs(words) {
            commands.push(start(&emulator, host, command, background, args.json)?);
        }
    }
    debug_assert!(begun, "the second turn is that of the others");
    let deadline = args.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let interrupted = wait_for_end(&mut commands, deadline, &stop)?;
    end(&mut commands)?;
    let report = emulator.stop()?;
    for thread in commands.iter_mut().flat_map(|command| command.output.drain(..)) {
        // It cannot panic.
        let _ = thread.join();
    }
    let run = LinkRun { commands: commands.into_iter().map(|command| command.report).collect(), report };
    announce(&if args.json { to_json(&run) } else { report_table(&run) });
    let failed = run.commands.iter().filter(|command| command.failed()).count();
    match (interrupted, failed, run.report.valid) {
        (true, ..) => Err(Failure::Interrupted),
        (false, 0, true) => Ok(()),
        (false, 0, false) => Err(Failure::Invalid),
        (false, failed, _) => Err(Failure::Commands(failed)),
    }
}

/// Pairs of host and command, as they stand after an option.
fn pairs(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()))
}

fn start(emulator: &Emulator, host: &str, text: &str, background: bool, json: bool) -> Result<Started, Failure> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", text]).env("INHAUL_NODE", host);
    let options = SpawnOptions { stdout: Stream::Piped, stderr: Stream::Piped, ..SpawnOptions::default() };
    let mut process = emulator.spawn(host, &command, options)?;
    let output = [(process.stdout.take(), json), (process.stderr.take(), true)];
    let output = output.into_iter().filter_map(|(pipe, to_stderr)| Some(copy_lines(pipe?, host.to_owned(), to_stderr)));
    let output = output.collect::<io::Result<_>>().map_err(Failure::Thread)?;
    let report =
        CommandReport { host: host.to_owned(), command: text.to_owned(), background, ..CommandReport::default() };
    Ok(Started { report, process, since: Instant::now(), done: false, output })
}

/// Prints each line that comes, with the host's name before it.
fn copy_lines(from: PipeReader, host: String, to_stderr: bool) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("link-output".to_owned()).spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = [host.as_bytes(), b"| ", &line, b"\n"].concat();
            // Of standard error, a reader that has gone away is no error of ours.
            if to_stderr {
                let _ = io::stderr().write_all(&line);
            } else {
                announce_bytes(&line);
            }
        }
    })
}

fn wait_until_listening(emulator: &Emulator, commands: &[Started]) -> Result<(), Failure> {
    let deadline = Instant::now() + LISTEN_PATIENCE;
    for command in commands {
        while !emulator.listens(&command.report.host, None)? && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
    }
    Ok(())
}

/// Waits until all foreground commands have ended. Returns whether a signal cut that short.
fn wait_for_end(commands: &mut [Started], deadline: Option<Instant>, stop: &AtomicBool) -> Result<bool, Failure> {
    loop {
        let Some(command) = commands.iter_mut().find(|command| !command.done && !command.report.background) else {
            return Ok(false);
        };
        let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
        if is_set(stop) || left.is_zero() {
            return Ok(is_set(stop));
        }
        command.look(left.min(TICK))?;
    }
}

/// Ends what still runs: first it is asked to, then it is killed with the grid.
fn end(commands: &mut [Started]) -> Result<(), Failure> {
    for command in commands.iter_mut() {
        // It may have ended of itself meanwhile.
        command.look(Duration::ZERO)?;
        if !command.done {
            command.report.ended = true;
            command.process.signal(Signal::TERM);
        }
    }
    let deadline = Instant::now() + END_PATIENCE;
    for command in commands.iter_mut() {
        command.look(deadline.saturating_duration_since(Instant::now()))?;
        if !command.done {
            command.process.signal(Signal::KILL);
            command.look(END_PATIENCE)?;
        }
    }
    Ok(())
}

impl Started {
    /// Waits a little for its end, and takes note of it.
    fn look(&mut self, patience: Duration) -> Result<(), EmuError> {
        if self.done {
            return Ok(());
        }
        if let Some(Exit { status, cpu }) = self.process.wait_for(patience)? {
            self.report.seconds = self.since.elapsed().as_secs_f64();
            self.report.cpu_s = cpu.as_secs_f64();
            (self.report.exit_code, self.report.signal) = (status.code(), status.signal());
            self.done = true;
        }
        Ok(())
    }
}
