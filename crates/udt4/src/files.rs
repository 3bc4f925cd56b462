//! The little file protocol of libudt's example programs `sendfile` and `recvfile`, over a stream.
//!
//! ```text
//! client (recvfile)                          server (sendfile)
//!   length of the name, 4 bytes --------------->
//!   the name ---------------------------------->
//!   <------------------------------------- length of the file, 8 bytes; -1: there is none
//!   <------------------------------------- the file
//! ```
//!
//! Numbers are in the order of the machine in libudt's programs, and little-endian here: so are all machines on which
//! libudt is likely to run. The data is not verified: only UDP's checksum protects it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use inhaul_base::Span;

use crate::connection::End;
use crate::endpoint::Socket;
use crate::error::UdtError;

/// The longest name, in bytes: libudt's `sendfile` has room for no more.
pub const NAME_MAX: usize = 1023;

/// How long a client may take for its request.
const ASK_TIMEOUT: Span = Span::from_secs(10);

/// While it waits, a transfer looks so often whether it is to stop.
const LOOK: Span = Span::from_millis(200);

/// Bytes that are read and written at a time.
const PIECE: usize = 1 << 17;
/// The value while the peer has acknowledged nothing.
const FIRST_PIECE: usize = 1 << 13;

/// A client that takes no data for this many checks in sequence is given up: a minute.
const LOOKS_MAX: u32 = 300;

/// `PeerError` by which libudt's `recvfile` says that it cannot write (its EFILE).
const CANNOT_WRITE: u32 = 4000;

/// Why a file was not transferred.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The connection failed.
    #[error(transparent)]
    Udt(#[from] UdtError),
    /// The server has no such file.
    #[error("the server has no file '{0}'")]
    NotFound(String),
    /// The name cannot be asked for.
    #[error("a name must have 1 to 1023 bytes; this one has {0}")]
    Name(usize),
    /// A client asked for a path that is no file here, or lies outside of the offered directory.
    #[error("the client asked for '{0}', which is not offered")]
    NotOffered(String),
    /// The other side said what makes no sense.
    #[error("the other side does not speak the protocol of libudt's sendfile and recvfile")]
    Protocol,
    /// The file cannot be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
    /// The file became shorter while it was sent.
    #[error("the file became shorter while it was sent")]
    Shortened,
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// How a transfer goes: bytes done, and all bytes. Returns whether to go on.
pub type Watch<'w> = &'w mut dyn FnMut(u64, u64) -> bool;

/// Fetches the file `name`. `begin` makes the writer once the server has sent the length. Returns the bytes that came.
///
/// # Errors
/// When the server has no such file, the connection ends before all has come, or the file cannot be written.
pub fn fetch<W: Write>(
    socket: &Socket,
    name: &str,
    begin: impl FnOnce(u64) -> io::Result<W>,
    watch: Watch<'_>,
) -> Result<u64, FileError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(FileError::Name(name.len()));
    }
    socket.write_all(&(name.len() as u32).to_le_bytes())?;
    socket.write_all(name.as_bytes())?;
    socket.set_read_timeout(Some(LOOK));
    let mut size = [0; 8];
    read_exact(socket, &mut size, (0, 0), watch)?;
    let Ok(size) = u64::try_from(i64::from_le_bytes(size)) else { return Err(FileError::NotFound(name.to_owned())) };
    let mut out = begin(size)?;
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    while done < size {
        let len = usize::try_from(size - done).map_or(PIECE, |left| left.min(PIECE));
        let count = read(socket, &mut piece[..len], (done, size), watch)?;
        if let Err(error) = out.write_all(&piece[..count]) {
            // As libudt does, so that the sender does not wait for ever.
            let _ = socket.complain(CANNOT_WRITE);
            return Err(error.into());
        }
        done += count as u64;
    }
    out.flush()?;
    watch(done, size);
    Ok(done)
}

fn read_exact(socket: &Socket, into: &mut [u8], done: (u64, u64), watch: Watch<'_>) -> Result<(), FileError> {
    let mut filled = 0;
    while filled < into.len() {
        filled += read(socket, &mut into[filled..], done, watch)?;
    }
    Ok(())
}

/// Reads at least one byte; looks meanwhile whether to stop.
fn read(socket: &Socket, into: &mut [u8], (done, all): (u64, u64), watch: Watch<'_>) -> Result<usize, FileError> {
    loop {
        if !watch(done, all) {
            return Err(FileError::Stopped);
        }
        match socket.read(into) {
            Ok(0) => return Err(UdtError::Ended(End::ByPeer).into()),
            Ok(count) => return Ok(count),
            Err(UdtError::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers one client: sends the file that it asks for, if `root` is that file or a directory with it. Waits until all
/// has arrived. Returns the file's path and length.
///
/// libudt's `sendfile` sends any file that a client names. This one sends none outside of `root`: names with `..`,
/// absolute names, and links that lead out of it are answered as if there were no such file.
///
/// # Errors
/// When the client asks for no file that is offered, or the connection ends before all has arrived.
pub fn answer(socket: &Socket, root: &Path, watch: Watch<'_>) -> Result<(PathBuf, u64), FileError> {
    socket.set_read_timeout(Some(ASK_TIMEOUT));
    socket.set_write_timeout(Some(LOOK));
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 || length > NAME_MAX {
        return Err(FileError::Protocol);
    }
    let mut name = vec![0; length];
    socket.read_exact(&mut name)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let Some((path, mut file, size)) = open(root, &name) else {
        write_all(socket, &(-1i64).to_le_bytes(), (0, 0), watch)?;
        // A client that has read it may close before it has acknowledged it.
        let _ = drain(socket, 0, watch);
        return Err(FileError::NotOffered(name));
    };
    write_all(socket, &size.to_le_bytes(), (0, size), watch)?;
    let mut piece = vec![0; FIRST_PIECE];
    let mut done = 0;
    while done < size {
        if !watch(done, size) {
            return Err(FileError::Stopped);
        }
        if piece.len() < PIECE && socket.statistics()?.bytes_acknowledged > 0 {
            piece.resize(PIECE, 0);
        }
        let len = usize::try_from(size - done).map_or(piece.len(), |left| left.min(piece.len()));
        let count = file.read(&mut piece[..len])?;
        if count == 0 {
            return Err(FileError::Shortened);
        }
        write_all(socket, &piece[..count], (done, size), watch)?;
        done += count as u64;
    }
    match drain(socket, size, watch) {
        // The client has everything, and its last acknowledgement was lost or overtaken by its farewell.
        Ok(()) | Err(FileError::Udt(UdtError::Ended(End::ByPeer))) => {}
        Err(error) => return Err(error),
    }
    watch(done, size);
    Ok((path, size))
}

/// Writes all of it; looks meanwhile whether to stop, and whether the client takes anything.
fn write_all(socket: &Socket, bytes: &[u8], (done, all): (u64, u64), watch: Watch<'_>) -> Result<(), FileError> {
    let (mut rest, mut looks) = (bytes, 0);
    while !rest.is_empty() {
        match socket.write(rest) {
            Ok(count) => (rest, looks) = (&rest[count..], 0),
            Err(UdtError::TimedOut) if looks < LOOKS_MAX => looks += 1,
            Err(error) => return Err(error.into()),
        }
        if looks > 0 && !watch(done, all) {
            return Err(FileError::Stopped);
        }
    }
    Ok(())
}

/// Waits until the client has all `size` bytes; looks meanwhile as [`write_all`] does.
fn drain(socket: &Socket, size: u64, watch: Watch<'_>) -> Result<(), FileError> {
    let (mut acknowledged, mut looks) = (0, 0);
    loop {
        match socket.flush() {
            Ok(()) => return Ok(()),
            Err(UdtError::TimedOut) if looks < LOOKS_MAX => {}
            Err(error) => return Err(error.into()),
        }
        let now = socket.statistics()?.bytes_acknowledged;
        looks = if now > acknowledged { 0 } else { looks + 1 };
        acknowledged = now;
        if !watch(size, size) {
            return Err(FileError::Stopped);
        }
    }
}

/// The regular file `name` of `root`, its path and its length.
fn open(root: &Path, name: &str) -> Option<(PathBuf, File, u64)> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let root = root.canonicalize().ok()?;
    let path = if root.is_dir() { root.join(name).canonicalize().ok()? } else { root.clone() };
    let offered = if root.is_dir() { path.starts_with(&root) } else { root.file_name()?.to_str() == Some(name) };
    if !plain || !offered || !path.is_file() {
        return None;
    }
    let file = File::open(&path).ok()?;
    let size = file.metadata().ok()?.len();
    Some((path, file, size)).filter(|_| i64::try_from(size).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Options};

    type Got<T> = Result<T, FileError>;

    /// The file that a client gets for `name`, and the server's log line.
    fn ask(root: &Path, name: &str) -> (Got<Vec<u8>>, Got<(PathBuf, u64)>) {
        let local = "127.0.0.1:0".parse().unwrap();
        let (near, far) = [(); 2].map(|()| Endpoint::bind(local, Options::default()).unwrap()).into();
        let incoming = far.listen(1).unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| answer(&incoming.accept().unwrap(), root, &mut |_, _| true));
            let client = near.connect(far.local_address()).unwrap();
            let mut got = Vec::new();
            let fetched = fetch(&client, name, |_| Ok(&mut got), &mut |_, _| true);
            drop(client);
            (fetched.map(|_| got), server.join().unwrap())
        })
    }

    #[test]
    fn a_file_comes_and_nothing_outside_of_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(directory.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("empty"), "").unwrap();
        let data: Vec<u8> = (0..1_000_000u32).map(|n| (n * 7 / 3) as u8).collect();
        std::fs::write(root.join("data"), &data).unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        assert!(ask(&root, "data").0.unwrap() == data);
        assert!(ask(&root.join("data"), "data").0.unwrap() == data, "a file alone is offered under its name");
        assert_eq!(ask(&root, "empty").0.unwrap(), b"");
        let absolute = directory.path().join("secret");
        for name in ["nothing", "../secret", "link", ".", absolute.to_str().unwrap()] {
            let (got, said) = ask(&root, name);
            assert!(matches!(got, Err(FileError::NotFound(_))), "{name}: {got:?}");
            assert!(matches!(said, Err(FileError::NotOffered(_))), "{name}: {said:?}");
        }
    }
}
