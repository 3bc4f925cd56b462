//! The keeper's main loop: it starts commands in hosts, and counts the processor time that they use.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use inhaul_base::Span;
use inhaul_udp::{EndedChild, reap_child};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Pid;

use super::hosts::HostNamespaces;
use super::refusal::failed;
use super::sockets::{device_counters, listens};
use super::stage::{Stage, keeper_command};
use super::times;
use crate::channel::Channel;
use crate::message::{Answer, Failure, Request, Spawn};

/// The parents of commands.
struct Minders {
    /// Running processes, and the host of each.
    running: Vec<(Pid, usize)>,
    /// Processor time of ended processes, with all that they have adopted, by host.
    ended: Vec<Span>,
}

/// Answers the emulator until it is gone.
pub(super) fn serve(channel: &Channel, hosts: &[HostNamespaces]) -> Result<(), Failure> {
    let (ends, notify) = UnixStream::pair().map_err(failed("waiting for children"))?;
    ends.set_nonblocking(true).map_err(failed("waiting for children"))?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, notify)
        .map_err(failed("waiting for children"))?;
    let mut minders = Minders { running: Vec::new(), ended: vec![Span::ZERO; hosts.len()] };
    loop {
        let (asked, child_ended) = wait(channel, &ends)?;
        if child_ended {
            minders.reap(&ends)?;
        }
        if asked {
            let Some((request, descriptors)) = channel.receive().map_err(failed("reading a request"))? else {
                return Ok(());
            };
            let answer = answer(request, &descriptors, hosts, &mut minders).unwrap_or_else(Answer::Failed);
            channel.send(&answer, &[]).map_err(failed("answering"))?;
        }
    }
}

/// Waits until there is something to do: a request, or the end of a child.
fn wait(channel: &Channel, ends: &UnixStream) -> Result<(bool, bool), Failure> {
    let mut ready = [channel.as_fd(), ends.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut ready, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(failed("waiting")(error.into())),
    }
    let [asked, child_ended] = ready.map(|fd| !fd.revents().is_empty());
    Ok((asked, child_ended))
}

fn answer(
    request: Request,
    descriptors: &[OwnedFd],
    hosts: &[HostNamespaces],
    minders: &mut Minders,
) -> Result<Answer, Failure> {
    let enter = |host: usize| {
        let known = hosts.get(host).ok_or(io::ErrorKind::NotFound.into());
        known.and_then(HostNamespaces::enter).map_err(failed("entering a host"))
    };
    match request {
        Request::SetUp { .. } => Err(failed("setting up")(io::Error::other("it is done already"))),
        Request::Spawn(spawn) => {
            enter(spawn.host)?;
            let (minder, answer) = start(&spawn, descriptors)?;
            minders.running.push((minder, spawn.host));
            Ok(answer)
        }
        Request::ProcessorTime => Ok(Answer::ProcessorTime(minders.processor_time())),
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

/// Has a process of its own start a command at the host that this thread is in, and mind it.
fn start(spawn: &Spawn, descriptors: &[OwnedFd]) -> Result<(Pid, Answer), Failure> {
    let starting = "starting a command";
    let (near, far) = Channel::pair().map_err(failed(starting))?;
    let child = keeper_command(Stage::Minder).stdin(far.into_descriptor()).spawn().map_err(failed(starting))?;
    let given: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    near.send(spawn, &given).map_err(failed(starting))?;
    match near.receive::<Answer>().map_err(failed(starting))? {
        Some((answer, _)) => Ok((Pid::from_child(&child), answer)),
        None => Err(failed(starting)(io::ErrorKind::BrokenPipe.into())),
    }
}

impl Minders {
    /// Takes note of processes that have ended. Processes that are not minders were left behind by a killed minder.
    fn reap(&mut self, ends: &UnixStream) -> Result<(), Failure> {
        while matches!(rustix::io::read(ends, &mut [0u8; 64]), Ok(1..)) {}
        while let Some(EndedChild { pid, cpu, .. }) = reap_child().map_err(failed("waiting for a child"))? {
            if let Some(at) = self.running.iter().position(|(minder, _)| minder.as_raw_nonzero().get() == pid) {
                let (_, host) = self.running.swap_remove(at);
                self.ended[host] = self.ended[host] + cpu;
            }
        }
        Ok(())
    }

    /// The processor time of all past and present processes of each host.
    fn processor_time(&self) -> Vec<u64> {
        let roots: Vec<i32> = self.running.iter().map(|(minder, _)| minder.as_raw_nonzero().get()).collect();
        let mut total = self.ended.clone();
        for ((_, host), cpu) in self.running.iter().zip(times::of_trees(&roots)) {
            total[*host] = total[*host] + cpu;
        }
        total.into_iter().map(Span::as_nanos).collect()
    }
}
