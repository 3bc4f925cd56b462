//! Streams instead of files: standard input and output, named pipes and devices.
//!
//! The data is kept in a temporary directory in $TMPDIR meanwhile. Data from the network arrives in any order, and the
//! length of the data of a put must be known before it starts.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use inhaul_mover::{MoveError, Stop, StreamOutput, is_input_closed, is_output_closed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::output::closed;

/// The path that means standard input or output.
const STANDARD: &str = "-";

/// While it waits for standard input, the program looks so often whether it is to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 16;

/// A directory that only this user can read. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Spool(TempDir);

impl Spool {
    fn new() -> Result<Self, MoveError> {
        let private = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("inhaul-").permissions(private).tempdir();
        made.map(Self).map_err(|error| MoveError::Destination {
            detail: format!("no temporary directory can be made ({error}): name a place with TMPDIR"),
        })
    }

    /// The file in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("data")
    }
}

/// State of a `get` to a stream.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) stream: StreamOutput,
    pub(crate) spool: Spool,
}

/// The stream that `destination` is, if it is one: `-`, a pipe or a device that takes bytes in order.
pub(crate) fn output(destination: &Path) -> Result<Option<Output>, MoveError> {
    let failed = |error: io::Error| MoveError::Destination {
        detail: format!("'{}' cannot be written ({error})", destination.display()),
    };
    let output = if [STANDARD, "/dev/stdout"].iter().any(|name| destination == Path::new(name)) {
        if is_output_closed() {
            return Err(failed(closed()));
        }
        File::from(io::stdout().as_fd().try_clone_to_owned().map_err(failed)?)
    } else {
        let is_stream = |kind: std::fs::FileType| kind.is_fifo() || kind.is_char_device();
        if !destination.metadata().is_ok_and(|metadata| is_stream(metadata.file_type())) {
            return Ok(None);
        }
        // For a pipe, this waits until a program opens it for reading.
        OpenOptions::new().write(true).open(destination).map_err(failed)?
    };
    Ok(Some(Output { stream: StreamOutput::new(output), spool: Spool::new()? }))
}

/// All of standard input, if `paths` name it.
pub(crate) fn input(paths: &[PathBuf], stop: &Stop) -> Result<Option<Spool>, MoveError> {
    match paths {
        [path] if path == Path::new(STANDARD) => {}
        paths if paths.iter().any(|path| path == Path::new(STANDARD)) => {
            return Err(MoveError::Usage("standard input ('-') is put alone".to_owned()));
        }
        _ => return Ok(None),
    }
    if is_input_closed() {
        return Err(MoveError::System { what: "standard input cannot be read", source: closed() });
    }
    let spool = Spool::new()?;
    let copied = File::create_new(spool.file()).and_then(|mut file| keep(&mut io::stdin().lock(), &mut file, stop));
    match copied {
        Ok(true) => Ok(Some(spool)),
        Ok(false) => Err(MoveError::Interrupted),
        Err(source) => Err(MoveError::System { what: "standard input cannot be kept in TMPDIR", source }),
    }
}

/// Copies all data, and checks meanwhile whether to stop. Returns whether it was all.
fn keep(from: &mut (impl Read + AsFd), to: &mut File, stop: &Stop) -> io::Result<bool> {
    let mut piece = vec![0; PIECE];
    while !stop.is_set() {
        let mut waited = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        match poll(&mut waited, Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match from.read(&mut piece) {
            Ok(0) => return Ok(true),
            Ok(count) => to.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
