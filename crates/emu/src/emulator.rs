//! A running emulation of a grid.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use inhaul_base::Span;
use inhaul_udp::{Waker, thread};

use crate::awake::Awake;
use crate::channel::Channel;
use crate::engine::{Command, Engine, EngineReport};
use crate::error::EmuError;
use crate::grid::{Grid, LinkChange, ipv4_of, ipv6_of};
use crate::keeper::{Stage, is_keeper, keeper_command};
use crate::message::{Answer, Cause, DeviceCounters, Failure, HostSetUp, Request, Spawn};
use crate::options::{Options, Wait};
use crate::process::{Process, SpawnOptions, Streams};
use crate::report::{Circumstances, Report};

/// A grid that runs: namespaces, their devices, and the thread that carries packets between them. When it is dropped,
/// all of it goes, with every process in it.
pub struct Emulator {
    grid: Grid,
    options: Options,
    superpackets: Vec<bool>,
    addresses: Vec<Ipv4Addr>,
    warnings: Vec<String>,
    /// Requests to the keeper, one at a time.
    channel: Mutex<Channel>,
    commands: Sender<Command>,
    waker: Waker,
    /// Gives the keeper back too, to be waited for.
    thread: Option<JoinHandle<io::Result<EngineReport>>>,
    keeper: Child,
    /// Dropped with the rest.
    _awake: Option<Awake>,
}

/// The thread's message when the grid exists.
struct Started {
    channel: Channel,
    keeper: Child,
    warnings: Vec<String>,
    waker: Waker,
}

impl Emulator {
    /// Makes the namespaces and begins to carry packets.
    ///
    /// The calling program is started again as the keeper of the namespaces, so it must answer to
    /// [`KEEPER_ARGUMENTS`](crate::KEEPER_ARGUMENTS) by [`run_keeper`](crate::run_keeper).
    ///
    /// # Errors
    /// When the grid is not valid, or this user may not have namespaces or TUN devices here.
    pub fn start(grid: Grid, options: Options) -> Result<Self, EmuError> {
        grid.check()?;
        let mut others = thread::allowed_cpus().map_err(EmuError::system("cannot tell the processors"))?;
        let spins = options.wait == Wait::Spin;
        // A spinning emulator keeps its processor awake itself.
        let left_to_idle = others.len() - usize::from(spins);
        let awake = options.awake.then(|| Awake::start(&others[..left_to_idle])).transpose();
        let awake = awake.map_err(EmuError::system("cannot keep the processors awake"))?;
        // A spinning emulator has the last of several processors for itself: another program there would delay it by
        // milliseconds, and be delayed. A sleeping one has it when no processor idles (`awake`): the kernel moves a
        // thread that waits behind a busy program only to an idle processor.
        let own = if (spins || options.awake) && others.len() > 1 { others.pop() } else { None };
        if is_keeper() {
            // Else a program that does not answer would start itself again and again.
            let message = "this program does not answer to KEEPER_ARGUMENTS".to_owned();
            return Err(EmuError::SetUp { what: "starting the keeper".to_owned(), message });
        }
        let superpackets: Vec<bool> =
            (0..grid.hosts.len()).map(|host| grid.superpackets_at(host, options.superpackets)).collect();
        let (commands, received) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let (its_grid, its_superpackets) = (grid.clone(), superpackets.clone());
        // The thread that runs the emulator also starts the keeper, which dies with the thread that has started it.
        let work = move || {
            let begin = || -> Result<(Engine, Started), EmuError> {
                if own.is_some() {
                    thread::pin_to_cpus(&others).map_err(EmuError::system("cannot leave a processor"))?;
                }
                let (channel, keeper, devices, warnings) = start_keeper(&its_grid, &its_superpackets)?;
                if let Some(own) = own {
                    thread::pin_to_cpu(own).map_err(EmuError::system("cannot take a processor"))?;
                }
                let engine = Engine::new(&its_grid, devices, &its_superpackets, options.wait, received)
                    .map_err(EmuError::system("cannot start the emulator"))?;
                let waker = engine.waker();
                Ok((engine, Started { channel, keeper, warnings, waker }))
            };
            match begin() {
                Ok((engine, started)) => match ready.send(Ok(started)) {
                    Ok(()) => engine.run(),
                    Err(_) => Err(io::Error::other("the caller no longer waits for the grid")),
                },
                Err(error) => {
                    // Without a receiver the message is not needed.
                    let _ = ready.send(Err(error));
                    Err(io::Error::other("the grid did not start"))
                }
            }
        };
        let thread = std::thread::Builder::new().name("emulator".to_owned()).spawn(work);
        let thread = thread.map_err(EmuError::system("cannot start a thread"))?;
        let Started { channel, keeper, warnings, waker } = started.recv().map_err(|_| EmuError::Gone)??;
        let addresses = (0..grid.hosts.len()).map(ipv4_of).collect();
        let (channel, thread) = (Mutex::new(channel), Some(thread));
        Ok(Self {
            grid,
            options,
            superpackets,
            addresses,
            warnings,
            channel,
            commands,
            waker,
            thread,
            keeper,
            _awake: awake,
        })
    }

    /// The grid that runs.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Features that the grid lacks on this machine, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The address of a host.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn address_of(&self, host: &str) -> Result<Ipv4Addr, EmuError> {
        self.find(host).map(|host| self.addresses[host])
    }

    /// The IPv6 address of a host.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn ipv6_address_of(&self, host: &str) -> Result<Ipv6Addr, EmuError> {
        self.find(host).map(ipv6_of)
    }

    /// Every host with its address, in the order of the grid.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Ipv4Addr)> {
        self.grid.hosts.iter().map(|host| host.name.as_str()).zip(self.addresses.iter().copied())
    }

    /// Begins: changes count from now, and so do the report's time and lateness. It should be called before there is
    /// traffic.
    pub fn begin(&self) {
        self.command(Command::Begin);
    }

    /// Changes a link now.
    ///
    /// # Errors
    /// When there is no link of that number.
    pub fn change(&self, link: usize, what: LinkChange) -> Result<(), EmuError> {
        if link >= self.grid.links.len() {
            return Err(crate::GridError::Index("a change").into());
        }
        self.command(Command::Change(link, what));
        Ok(())
    }

    /// Starts a command in a host. Of `command`, its program, arguments, environment and directory count; the
    /// environment is added to that of the process that started the grid.
    ///
    /// # Errors
    /// When there is no such host, or the command cannot be started.
    pub fn spawn(&self, host: &str, command: &Program, options: SpawnOptions) -> Result<Process, EmuError> {
        let number = self.find(host)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let refused = |message: String| EmuError::Spawn { host: host.to_owned(), program: program.clone(), message };
        let own_group = !options.on_terminal;
        let spawn =
            spawn_request(number, command, own_group).ok_or_else(|| refused("its arguments are not UTF-8".into()))?;
        let streams = Streams::open(options).map_err(|error| refused(error.to_string()))?;
        let (near, far) = Channel::pair().map_err(|error| refused(error.to_string()))?;
        let far = far.into_descriptor();
        let [input, output, error] = &streams.given;
        let descriptors = [input.as_fd(), output.as_fd(), error.as_fd(), far.as_fd()];
        match self.ask(&Request::Spawn(spawn), &descriptors)? {
            Answer::Started { pid } => Ok(streams.into_process(pid, near)),
            Answer::Failed(failure) => Err(refused(failure.message)),
            _ => Err(EmuError::Gone),
        }
    }

    /// Whether a program at the host listens for connections or datagrams, on that port or on any.
    ///
    /// # Errors
    /// When there is no such host, or the grid is gone.
    pub fn listens(&self, host: &str, port: Option<u16>) -> Result<bool, EmuError> {
        match self.ask(&Request::Listens { host: self.find(host)?, port }, &[])? {
            Answer::Listens(listens) => Ok(listens),
            Answer::Failed(failure) => Err(failure.into()),
            _ => Err(EmuError::Gone),
        }
    }

    /// Ends it: every process in it is killed, and nothing is left.
    ///
    /// # Errors
    /// When the operating system failed the emulator.
    pub fn stop(mut self) -> Result<Report, EmuError> {
        let counters = self.counters();
        let cpu = self.processor_time();
        let engine = self.end()?;
        let circumstances = Circumstances {
            grid: &self.grid,
            options: self.options,
            superpackets: &self.superpackets,
            addresses: &self.addresses,
            counters,
            cpu,
            warnings: std::mem::take(&mut self.warnings),
        };
        Ok(Report::new(&engine, &circumstances))
    }

    /// The processor time of each host's processes, if the keeper is still there.
    fn processor_time(&self) -> Option<Vec<Span>> {
        match self.ask(&Request::ProcessorTime, &[]) {
            Ok(Answer::ProcessorTime(nanos)) => Some(nanos.into_iter().map(Span::from_nanos).collect()),
            _ => None,
        }
    }

    fn counters(&self) -> Option<Vec<DeviceCounters>> {
        match self.ask(&Request::Counters, &[]) {
            Ok(Answer::Counters(counters)) => Some(counters),
            _ => None,
        }
    }

    /// Stops the thread, with which the keeper dies.
    fn end(&mut self) -> Result<EngineReport, EmuError> {
        let Some(thread) = self.thread.take() else { return Err(EmuError::Gone) };
        self.command(Command::Stop);
        let report = thread.join().map_err(|_| EmuError::Gone)?;
        // It is killed by the thread's end already, unless the system does not do that; then this does.
        let _ = self.keeper.kill();
        self.keeper.wait().map_err(EmuError::system("cannot wait for the grid to end"))?;
        report.map_err(EmuError::system("the emulator failed"))
    }

    fn find(&self, host: &str) -> Result<usize, EmuError> {
        self.grid.find_host(host).ok_or_else(|| {
            let known: Vec<&str> = self.grid.hosts.iter().map(|host| host.name.as_str()).collect();
            EmuError::UnknownHost { name: host.to_owned(), known: known.join(", ") }
        })
    }

    fn command(&self, command: Command) {
        // It fails when the thread has ended, and then there is nothing to be told.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    fn ask(&self, request: &Request, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<Answer, EmuError> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(request, descriptors).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => EmuError::System { what: "cannot ask the grid", source: error },
            _ => EmuError::Gone,
        })?;
        match channel.receive() {
            Ok(Some((answer, _))) => Ok(answer),
            Ok(None) | Err(_) => Err(EmuError::Gone),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Its result is not needed.
            let _ = self.end();
        }
    }
}

impl From<Failure> for EmuError {
    fn from(failure: Failure) -> Self {
        let Failure { cause, what, message } = failure;
        match cause {
            Cause::NamespacesForbidden => Self::NamespacesForbidden { message },
            Cause::TunForbidden => Self::TunForbidden { message },
            Cause::Other => Self::SetUp { what, message },
        }
    }
}

/// Starts the keeper, which makes the hosts; returns their devices.
fn start_keeper(grid: &Grid, superpackets: &[bool]) -> Result<(Channel, Child, Vec<OwnedFd>, Vec<String>), EmuError> {
    let (near, far) = Channel::pair().map_err(EmuError::system("cannot make a socket"))?;
    let keeper = keeper_command(Stage::Outer).stdin(Stdio::from(far.into_descriptor())).spawn();
    let mut keeper = keeper.map_err(EmuError::system("cannot start the keeper of the grid"))?;
    match make_hosts(&near, grid, superpackets) {
        Ok((devices, warnings)) => Ok((near, keeper, devices, warnings)),
        Err(error) => {
            drop(near);
            // It has ended or will soon, for its socket is closed.
            let _ = keeper.wait();
            Err(error)
        }
    }
}

fn make_hosts(channel: &Channel, grid: &Grid, superpackets: &[bool]) -> Result<(Vec<OwnedFd>, Vec<String>), EmuError> {
    let hosts = grid.hosts.iter().zip(superpackets).enumerate().map(|(number, (host, superpackets))| HostSetUp {
        name: host.name.clone(),
        ipv4: ipv4_of(number),
        ipv6: ipv6_of(number),
        mtu: host.mtu,
        superpackets: *superpackets,
    });
    // It fails when the keeper has ended, and then it has said why.
    let _ = channel.send(&Request::SetUp { hosts: hosts.collect() }, &[]);
    let mut devices = Vec::new();
    loop {
        let answer = channel.receive().map_err(EmuError::system("cannot hear from the keeper of the grid"))?;
        match answer {
            Some((Answer::Host, descriptors)) => devices.extend(descriptors),
            Some((Answer::Ready { warnings }, _)) if devices.len() == grid.hosts.len() => {
                return Ok((devices, warnings));
            }
            Some((Answer::Failed(failure), _)) => return Err(failure.into()),
            Some(_) | None => return Err(EmuError::Gone),
        }
    }
}

/// `None`: something in it is not UTF-8.
fn spawn_request(host: usize, command: &Program, own_group: bool) -> Option<Spawn> {
    let text = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
    let environment = command.get_envs().map(|(name, value)| {
        let value = match value {
            Some(value) => Some(text(value)?),
            None => None,
        };
        Some((text(name)?, value))
    });
    let directory = match command.get_current_dir() {
        Some(directory) => Some(text(directory.as_os_str())?),
        None => None,
    };
    Some(Spawn {
        host,
        program: text(command.get_program())?,
        arguments: command.get_args().map(text).collect::<Option<_>>()?,
        environment: environment.collect::<Option<_>>()?,
        directory,
        own_group,
    })
}
