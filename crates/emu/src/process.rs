//! Commands that run in a host of the grid.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use inhaul_base::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::process::Signal;

use crate::channel::Channel;
use crate::error::EmuError;
use crate::message::Ended;

/// The destination of a command's standard stream.
#[derive(Debug, Default)]
pub enum Stream {
    /// Nothing.
    #[default]
    Null,
    /// Where this process's own leads to.
    Inherit,
    /// A pipe, whose other end is in the [`Process`].
    Piped,
    /// This.
    To(OwnedFd),
}

/// How a command is started.
#[derive(Debug, Default)]
pub struct SpawnOptions {
    /// Its standard input; [`Stream::Piped`] gives [`Process::stdin`].
    pub stdin: Stream,
    /// Its standard output; [`Stream::Piped`] gives [`Process::stdout`].
    pub stdout: Stream,
    /// Its standard error; [`Stream::Piped`] gives [`Process::stderr`].
    pub stderr: Stream,
    /// Whether it stays in the process group of this process, as a program used from the terminal must. If not, it has
    /// a group of its own, and [`Process::signal`] also reaches the processes that it started.
    pub on_terminal: bool,
}

/// A command in a host. It is killed when this is dropped, with its process group if it has its own.
#[derive(Debug)]
pub struct Process {
    /// Its process id as its own host's processes see it.
    pub pid: u32,
    /// Where its standard input is written to, if that is piped.
    pub stdin: Option<PipeWriter>,
    /// Where its standard output is read from, if that is piped.
    pub stdout: Option<PipeReader>,
    /// Where its standard error is read from, if that is piped.
    pub stderr: Option<PipeReader>,
    channel: Channel,
    exit: Option<Exit>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its status.
    pub status: ExitStatus,
    /// The processor time of it and of all processes that it has started; running ones are not included.
    pub cpu: Span,
}

impl Process {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`EmuError::Gone`] when the grid has ended before.
    pub fn wait(&mut self) -> Result<Exit, EmuError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        match self.channel.receive::<Ended>() {
            Ok(Some((ended, _))) => {
                let exit = Exit { status: ExitStatus::from_raw(ended.status), cpu: ended.cpu() };
                self.exit = Some(exit);
                Ok(exit)
            }
            Ok(None) => Err(EmuError::Gone),
            Err(source) => Err(EmuError::System { what: "cannot wait for a command", source }),
        }
    }

    /// Waits for its end, but no longer than this; `None`: it still runs.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for(&mut self, patience: Duration) -> Result<Option<Exit>, EmuError> {
        if self.exit.is_none() {
            let patience = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            match poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], Some(&patience)) {
                Ok(0) | Err(Errno::INTR) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(EmuError::system("cannot wait for a command")(error.into())),
            }
        }
        self.wait().map(Some)
    }

    /// Sends it a signal. It may have ended already.
    pub fn signal(&self, signal: Signal) {
        // It fails when the grid is gone, and the command with it.
        let _ = self.channel.send(&signal.as_raw(), &[]);
    }
}

/// The ends of a command's standard streams: three for it, and those of the pipes that stay here.
pub(crate) struct Streams {
    pub(crate) given: [OwnedFd; 3],
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
}

impl Streams {
    pub(crate) fn open(options: SpawnOptions) -> io::Result<Self> {
        let input: (OwnedFd, _) = match options.stdin {
            Stream::Null => (File::open("/dev/null")?.into(), None),
            Stream::Inherit => (io::stdin().as_fd().try_clone_to_owned()?, None),
            Stream::Piped => {
                let (reader, writer) = io::pipe()?;
                (reader.into(), Some(writer))
            }
            Stream::To(descriptor) => (descriptor, None),
        };
        let output = |stream, own: &dyn AsFd| -> io::Result<(OwnedFd, _)> {
            Ok(match stream {
                Stream::Null => (File::options().write(true).open("/dev/null")?.into(), None),
                Stream::Inherit => (own.as_fd().try_clone_to_owned()?, None),
                Stream::Piped => {
                    let (reader, writer) = io::pipe()?;
                    (writer.into(), Some(reader))
                }
                Stream::To(descriptor) => (descriptor, None),
            })
        };
        let ((given_in, stdin), (given_out, stdout), (given_err, stderr)) =
            (input, output(options.stdout, &io::stdout())?, output(options.stderr, &io::stderr())?);
        Ok(Self { given: [given_in, given_out, given_err], stdin, stdout, stderr })
    }

    /// The process that was started with these. The command's own ends are closed here, so that pipes end with it.
    pub(crate) fn into_process(self, pid: u32, channel: Channel) -> Process {
        Process { pid, stdin: self.stdin, stdout: self.stdout, stderr: self.stderr, channel, exit: None }
    }
}
