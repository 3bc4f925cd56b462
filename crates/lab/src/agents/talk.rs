//! The laboratory's end of a conversation with an agent.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::agent::READY;

/// How long an agent may take to listen, to be ready, or to report.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The most that an agent says in a line.
const LINE_BYTES_MAX: usize = 256 << 20;

/// An agent that runs somewhere.
pub(super) struct Agent {
    pub(super) host: String,
    input: File,
    output: File,
    /// Received text beyond the lines that were read.
    heard: Vec<u8>,
    /// Values that must live as long as the agent.
    _holds: Box<dyn std::any::Any>,
}

impl Agent {
    /// The agent in `host` that reads from `input` and writes to `output`; it gets its job.
    pub(super) fn new(
        host: &str,
        (input, output): (File, File),
        holds: Box<dyn std::any::Any>,
        job: &impl Serialize,
    ) -> Result<Self, String> {
        let mut agent = Self { host: host.to_owned(), input, output, heard: Vec::new(), _holds: holds };
        let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
        agent.tell(&format!("{job}\n"))?;
        Ok(agent)
    }

    pub(super) fn tell(&mut self, line: &str) -> Result<(), String> {
        self.input.write_all(line.as_bytes()).map_err(|error| self.lost(&error))
    }

    fn lost(&self, error: &io::Error) -> String {
        format!("the agent in host '{}' is lost: {error}", self.host)
    }

    /// Waits until it is ready; the fingerprint of its key, if it has one.
    pub(super) fn hear_ready(&mut self) -> Result<String, String> {
        let line = self.hear_line()?;
        let key = line.strip_prefix(READY.as_bytes()).and_then(|key| str::from_utf8(key).ok());
        key.map(|key| key.trim().to_owned()).ok_or_else(|| format!("the agent in host '{}' did not start", self.host))
    }

    /// Its next line, or its last text before it ended. It may take its time for the whole, but must not fall silent.
    fn hear_line(&mut self) -> Result<Vec<u8>, String> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let rest = self.heard.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.heard, rest);
                line.pop();
                return Ok(line);
            }
            if self.heard.len() > LINE_BYTES_MAX {
                return Err(format!("the agent in host '{}' says too much", self.host));
            }
            if !self.speaks_within(PATIENCE) {
                return Err(format!("the agent in host '{}' has fallen silent", self.host));
            }
            match self.output.read(&mut chunk) {
                Ok(0) => return Ok(std::mem::take(&mut self.heard)),
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Whether it says something, or ends, in this time.
    pub(super) fn speaks_within(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&time)) {
            Ok(ready) => ready > 0,
            // What cannot be waited for is read instead.
            Err(_) => true,
        }
    }

    /// Its last line.
    pub(super) fn report<T: DeserializeOwned>(mut self) -> Result<T, String> {
        let line = self.hear_line()?;
        serde_json::from_slice(&line)
            .map_err(|error| format!("the agent in host '{}' gave no report: {error}", self.host))
    }
}
