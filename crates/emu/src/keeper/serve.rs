//! The keeper at work: it starts commands, hands on signals, and tells of their ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use inhaul_udp::{EndedChild, reap_child};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::failed;
use super::hosts::HostNamespaces;
use super::sockets::{device_counters, listens};
use crate::channel::Channel;
use crate::message::{Answer, Cause, Ended, Failure, Request, Spawn};

/// A command that runs, and the socket to whoever started it.
struct Running {
    pid: Pid,
    own_group: bool,
    channel: Channel,
}

/// Answers the emulator until it is gone.
pub(super) fn serve(channel: &Channel, hosts: &[HostNamespaces]) -> Result<(), Failure> {
    let (ends, notify) = UnixStream::pair().map_err(failed("waiting for children"))?;
    ends.set_nonblocking(true).map_err(failed("waiting for children"))?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, notify)
        .map_err(failed("waiting for children"))?;
    let mut running: Vec<Running> = Vec::new();
    loop {
        let (asked, child_ended, ready) = wait(channel, &ends, &running)?;
        if child_ended {
            tell_of_ends(&ends, &mut running)?;
        }
        for pid in ready {
            hand_on_signals(pid, &mut running);
        }
        if asked {
            let Some((request, descriptors)) = channel.receive().map_err(failed("reading a request"))? else {
                return Ok(());
            };
            let answer = answer(request, descriptors, hosts, &mut running).unwrap_or_else(Answer::Failed);
            channel.send(&answer, &[]).map_err(failed("answering"))?;
        }
    }
}

/// Waits until there is something to do: a request, the end of a child, words about a running command.
fn wait(channel: &Channel, ends: &UnixStream, running: &[Running]) -> Result<(bool, bool, Vec<Pid>), Failure> {
    let mut ready: Vec<PollFd<'_>> =
        [channel.as_fd(), ends.as_fd()].into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    ready.extend(running.iter().map(|command| PollFd::new(&command.channel, PollFlags::IN)));
    match poll(&mut ready, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(failed("waiting")(error.into())),
    }
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let pids = running.iter().zip(&ready[2..]).filter(|(_, fd)| is_ready(fd)).map(|(command, _)| command.pid);
    Ok((is_ready(&ready[0]), is_ready(&ready[1]), pids.collect()))
}

fn answer(
    request: Request,
    descriptors: Vec<OwnedFd>,
    hosts: &[HostNamespaces],
    running: &mut Vec<Running>,
) -> Result<Answer, Failure> {
    let enter = |host: usize| {
        let known = hosts.get(host).ok_or(io::ErrorKind::NotFound.into());
        known.and_then(HostNamespaces::enter).map_err(failed("entering a host"))
    };
    match request {
        Request::SetUp { .. } => Err(failed("setting up")(io::Error::other("it is done already"))),
        Request::Spawn(spawn) => {
            enter(spawn.host)?;
            let command = start(&spawn, descriptors)?;
            let pid = command.pid.as_raw_nonzero().get() as u32;
            running.push(command);
            Ok(Answer::Started { pid })
        }
        Request::Counters => {
            let count =
                |host| enter(host).and_then(|()| device_counters().map_err(failed("reading a device's counters")));
            (0..hosts.len()).map(count).collect::<Result<_, _>>().map(Answer::Counters)
        }
        Request::Listens { host, port } => {
            enter(host)?;
            Ok(Answer::Listens(listens(port)))
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
    // Not waited for by `Child`: the keeper, as the init of its namespace, waits for everybody.
    let child = command.spawn().map_err(refused)?;
    let pid = Pid::from_child(&child);
    Ok(Running { pid, own_group: spawn.own_group, channel: Channel::from_descriptor(socket) })
}

/// Tells whoever started a command that it has ended, and forgets those that nobody asked for.
fn tell_of_ends(ends: &UnixStream, running: &mut Vec<Running>) -> Result<(), Failure> {
    while matches!(rustix::io::read(ends, &mut [0u8; 64]), Ok(1..)) {}
    while let Some(EndedChild { pid, status, cpu }) = reap_child().map_err(failed("waiting for a child"))? {
        if let Some(at) = running.iter().position(|command| command.pid.as_raw_nonzero().get() == pid) {
            let command = running.swap_remove(at);
            // Whoever is not there any more need not be told.
            let _ = command.channel.send(&Ended { status: status.into_raw(), cpu_nanos: cpu.as_nanos() }, &[]);
        }
    }
    Ok(())
}

/// A number that comes over a command's socket is a signal for it; when the socket closes, it is killed.
fn hand_on_signals(pid: Pid, running: &mut Vec<Running>) {
    let Some(at) = running.iter().position(|command| command.pid == pid) else { return };
    let own_group = running[at].own_group;
    let signal = match running[at].channel.receive::<i32>() {
        Ok(Some((number, _))) => Signal::from_named_raw(number),
        Ok(None) | Err(_) => {
            // Nobody is left who could be told of its end.
            running.swap_remove(at);
            Some(Signal::KILL)
        }
    };
    if let Some(signal) = signal {
        // It fails when the command has just ended.
        let _ = if own_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}
