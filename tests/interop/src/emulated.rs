//! Programs in the hosts of an emulated network.

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::time::Duration;

use inhaul_emu::{EmuError, Emulator, Process, SpawnOptions, Stream};

/// Every error is only told.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Whether this user may have no network namespaces.
pub fn is_forbidden(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(EmuError::NamespacesForbidden { .. } | EmuError::TunForbidden { .. }))
}

/// A program in a host.
pub struct Running {
    process: Process,
    stdout: BufReader<Box<dyn Read>>,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started there.
    pub fn start(emulator: &Emulator, host: &str, command: &Command) -> Outcome<Self> {
        let streams = SpawnOptions { stdout: Stream::Piped, stderr: Stream::Inherit, ..SpawnOptions::default() };
        let mut process = emulator.spawn(host, command, streams)?;
        let stdout: Box<dyn Read> = Box::new(process.stdout.take().ok_or("there is no pipe")?);
        Ok(Self { process, stdout: BufReader::new(stdout) })
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// When the pipe breaks.
    pub fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits for its end, which must be a good one and come in time.
    ///
    /// # Errors
    /// When it is not.
    pub fn end(&mut self, longest: Duration) -> Outcome<()> {
        match self.process.wait_for(longest)? {
            Some(exit) if exit.status.success() => Ok(()),
            Some(exit) => Err(format!("a side ended with {}: {}", exit.status, self.line()?).into()),
            None => Err(format!("a side took longer than {} s", longest.as_secs()).into()),
        }
    }
}
