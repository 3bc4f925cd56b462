//! The parent of one command. It adopts processes that the command leaves behind (`PR_SET_CHILD_SUBREAPER`). So the
//! processor time of all of them is counted, with any parents.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use inhaul_base::Span;
use inhaul_udp::{EndedChild, reap_child};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitid,
};

use super::refusal::failed;
use crate::channel::Channel;
use crate::message::{Answer, Cause, Ended, Failure, Spawn};

/// The command, and the socket to the process that started it, until the socket is closed.
struct Running {
    pid: Pid,
    own_group: bool,
    channel: Option<Channel>,
}

/// Starts the command that the keeper names, hands on signals, and reports its end. It stays until all its processes
/// have ended.
pub(super) fn mind(keeper: &Channel) -> Result<(), Failure> {
    set_child_subreaper(Some(getpid())).map_err(|error| failed("adopting processes")(error.into()))?;
    let (ends, notify) = UnixStream::pair().map_err(failed("waiting for children"))?;
    ends.set_nonblocking(true).map_err(failed("waiting for children"))?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, notify)
        .map_err(failed("waiting for children"))?;
    let Some((spawn, descriptors)) = keeper.receive::<Spawn>().map_err(failed("reading what to start"))? else {
        return Ok(());
    };
    let mut running = start(&spawn, descriptors)?;
    let pid = running.pid.as_raw_nonzero().get() as u32;
    keeper.send(&Answer::Started { pid }, &[]).map_err(failed("answering"))?;
    let mut cpu = Span::ZERO;
    loop {
        let (child_ended, told) = wait(&ends, &running)?;
        if child_ended {
            reap(&ends, &mut running, &mut cpu)?;
        }
        if told {
            running.hand_on_signal();
        }
        let left = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
        if matches!(left, Err(Errno::CHILD)) {
            return Ok(());
        }
    }
}

fn start(spawn: &Spawn, descriptors: Vec<OwnedFd>) -> Result<Running, Failure> {
    let Ok([input, output, error, socket]) = <[OwnedFd; 4]>::try_from(descriptors) else {
        return Err(failed("starting a command")(io::Error::other("it came without its descriptors")));
    };
    let mut command = Command::new(&spawn.program);
    command.args(&spawn.arguments).stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(error));
    for (name, value) in &spawn.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = &spawn.directory {
        command.current_dir(directory);
    }
    if spawn.own_group {
        command.process_group(0);
    }
    let refused = |error: io::Error| Failure { cause: Cause::Other, what: String::new(), message: error.to_string() };
    // `Child` does not wait for it: processes that it leaves behind are waited for as well.
    let child = command.spawn().map_err(refused)?;
    let channel = Some(Channel::from_descriptor(socket));
    Ok(Running { pid: Pid::from_child(&child), own_group: spawn.own_group, channel })
}

/// Waits for the end of a child, or for words about the command.
fn wait(ends: &UnixStream, running: &Running) -> Result<(bool, bool), Failure> {
    let mut ready = vec![PollFd::from_borrowed_fd(ends.as_fd(), PollFlags::IN)];
    ready.extend(running.channel.iter().map(|channel| PollFd::new(channel, PollFlags::IN)));
    match poll(&mut ready, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(failed("waiting")(error.into())),
    }
    let is_ready = |at: usize| ready.get(at).is_some_and(|fd| !fd.revents().is_empty());
    Ok((is_ready(0), is_ready(1)))
}

/// Notes all ended processes, and reports the command's end.
fn reap(ends: &UnixStream, running: &mut Running, cpu: &mut Span) -> Result<(), Failure> {
    while matches!(rustix::io::read(ends, &mut [0u8; 64]), Ok(1..)) {}
    let mut ended = None;
    while let Some(EndedChild { pid, status, cpu: used }) = reap_child().map_err(failed("waiting for a child"))? {
        *cpu = *cpu + used;
        if running.pid.as_raw_nonzero().get() == pid {
            ended = Some(status);
        }
    }
    if let Some(status) = ended
        && let Some(channel) = running.channel.take()
    {
        // If the other end has gone, the message is not needed.
        let _ = channel.send(&Ended { status: status.into_raw(), cpu_nanos: cpu.as_nanos() }, &[]);
    }
    Ok(())
}

impl Running {
    /// A number that comes over the command's socket is a signal for it; when the socket closes, it is killed.
    fn hand_on_signal(&mut self) {
        let Some(channel) = &self.channel else { return };
        let signal = match channel.receive::<i32>() {
            Ok(Some((number, _))) => Signal::from_named_raw(number),
            Ok(None) | Err(_) => {
                self.channel = None;
                Some(Signal::KILL)
            }
        };
        if let Some(signal) = signal {
            // It fails when the command has just ended.
            let _ = if self.own_group { kill_process_group(self.pid, signal) } else { kill_process(self.pid, signal) };
        }
    }
}
