//! The keeper of the namespaces: every process in a grid is its child.
//!
//! One process keeps the whole grid. A thread can move from one network namespace to the next, so a single keeper
//! makes them all, holds them by their descriptors, and starts each command in the right one.
//!
//! The keeper is the init of a process namespace. When it ends, the kernel kills every process in that namespace. With
//! the last process and the descriptors, the network namespaces and their devices vanish. The keeper ends when the
//! emulator's end of the socket closes, or when the kernel signals the death of its parent. One of the two happens
//! however the emulator ends.

mod hosts;
mod minder;
mod refusal;
mod serve;
mod sockets;
mod stage;
mod times;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inhaul_udp::{Namespaces, unshare};
use rustix::process::{Signal, getegid, geteuid, set_parent_process_death_signal};

use crate::channel::Channel;
use crate::message::{Answer, Cause, Failure};
use refusal::failed;

pub use stage::{KEEPER_ARGUMENTS, Stage};
pub(crate) use stage::{is_keeper, keeper_command};

/// The main function of a process started with [`KEEPER_ARGUMENTS`]. Its standard input is the socket to the emulator.
/// It must be called before the process starts a second thread.
pub fn run_keeper(stage: Stage) -> ExitCode {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let channel = Channel::from_descriptor(socket);
    let result = match stage {
        Stage::Outer => outer(),
        Stage::Init => init(&channel),
        Stage::Minder => minder(&channel),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If this fails, the emulator has gone.
            let _ = channel.send(&Answer::Failed(failure), &[]);
            ExitCode::FAILURE
        }
    }
}

fn outer() -> Result<(), Failure> {
    // Ctrl-C, or the end of a terminal or a session, is for the programs in the grid and for the emulator, which then
    // ends the grid in order. This process ends with the keeper, and the keeper with the emulator.
    leave_signals_to_commands()?;
    leave()?;
    // After that: the change of privileges cancels earlier requests.
    die_with_parent()?;
    let init = keeper_command(Stage::Init).stdin(Stdio::inherit()).spawn();
    init.and_then(|mut child| child.wait()).map_err(failed("starting the keeper"))?;
    Ok(())
}

/// Leaves for namespaces of our own: root as it is, where it may, and everybody else as root of a user namespace.
fn leave() -> Result<(), Failure> {
    let shared = Namespaces { mount: true, process: true, ..Namespaces::default() };
    let (user, group) = (geteuid(), getegid());
    if user.is_root() && unshare(shared).is_ok() {
        return Ok(());
    }
    let forbidden = |error: io::Error| Failure {
        cause: Cause::NamespacesForbidden,
        ..failed("leaving for a user namespace")(error)
    };
    unshare(Namespaces { user: true, ..shared }).map_err(forbidden)?;
    let map = |path: &str, line: String| fs::write(path, line).map_err(forbidden);
    // A user may only map groups after having given up changing them.
    map("/proc/self/setgroups", "deny".to_owned())?;
    map("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    map("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
}

fn init(channel: &Channel) -> Result<(), Failure> {
    die_with_parent()?;
    let Some(hosts) = hosts::set_up(channel)? else { return Ok(()) };
    serve::serve(channel, &hosts)
}

fn minder(channel: &Channel) -> Result<(), Failure> {
    leave_signals_to_commands()?;
    minder::mind(channel)
}

fn die_with_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)
        .map_err(failed("tying it to its parent"))
}

/// Signals that a terminal, or the end of a session, sends to all are for the commands alone.
fn leave_signals_to_commands() -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map_err(failed("handling signals"))?;
    }
    Ok(())
}
