//! The connection between the laboratory and an agent of a real network: TLS around the data of two pipes.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use inhaul_mover::control_stream::{ControlStream, StreamError};
use inhaul_mover::frame::Frame;
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes that are taken from a pipe at a time.
const CHUNK: usize = 64 * 1024;

/// Carries data from `source` to the other end, and data from there to `sink`. The end of `source` is reported to the
/// other end, and an end reported from there closes `sink`. It ends when both have ended, or the connection has.
///
/// # Errors
/// When the connection breaks, or `sink` takes nothing more.
pub(super) fn carry(mut stream: ControlStream, tcp: &TcpStream, mut source: File, sink: File) -> io::Result<()> {
    stream.set_polled()?;
    let (mut sink, mut source_ended) = (Some(sink), false);
    let mut bytes = vec![0; CHUNK];
    // Frames may have come with those of the introduction.
    take(&mut stream, &mut sink)?;
    while !source_ended || sink.is_some() || stream.backlog() > 0 {
        let takes_more = !source_ended && stream.room() > 0;
        let (is_readable, has_come) = wait(tcp.as_fd(), stream.backlog() > 0, takes_more.then(|| source.as_fd()))?;
        if has_come {
            match source.read(&mut bytes) {
                Ok(0) => {
                    source_ended = true;
                    stream.queue(&Frame::Finish).map_err(io::Error::other)?;
                }
                Ok(len) => stream.queue(&Frame::Content { bytes: bytes[..len].to_vec() }).map_err(io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        stream.flush().map_err(io::Error::other)?;
        if is_readable {
            let filled = stream.fill();
            take(&mut stream, &mut sink)?;
            match filled {
                Err(StreamError::Closed) => return Ok(()),
                filled => filled.map_err(io::Error::other)?,
            }
        }
    }
    Ok(())
}

/// Passes on received data.
fn take(stream: &mut ControlStream, sink: &mut Option<File>) -> io::Result<()> {
    while let Some(frame) = stream.next_frame().map_err(io::Error::other)? {
        match (frame, sink.as_mut()) {
            (Frame::Content { bytes }, Some(to)) => to.write_all(&bytes)?,
            (Frame::Finish, _) => {
                if let Some(to) = sink.take() {
                    // A socket has other handles, so to let go of this one would not end it; a pipe has not.
                    let _ = rustix::net::shutdown(&to, rustix::net::Shutdown::Write);
                }
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

/// Waits; whether the connection can be read, and whether something has come from the source.
fn wait(tcp: BorrowedFd<'_>, writes: bool, source: Option<BorrowedFd<'_>>) -> io::Result<(bool, bool)> {
    let interest = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut ready = vec![PollFd::new(&tcp, interest)];
    ready.extend(source.as_ref().map(|source| PollFd::new(source, PollFlags::IN)));
    match poll(&mut ready, None) {
        Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
        _ => {}
    }
    let is_readable = ready[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
    Ok((is_readable, ready.get(1).is_some_and(|source| !source.revents().is_empty())))
}
