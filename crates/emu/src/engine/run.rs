//! The emulator's thread: packets from devices into the network, and from the network to devices, at their times.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, TryRecvError};

use inhaul_base::{Span, Time};
use inhaul_link::LinkStats;
use inhaul_udp::{Clock, Event, Interest, Poller, Waker, thread};
use rustix::param::clock_ticks_per_second;

use super::lateness::{Histogram, LATENESS_MAX, Lateness};
use super::network::{MEMORY_MAX, Network, NotEntered};
use super::port::{Buffers, Port, PortCounts};
use super::segment::{Carried, Delivery};
use crate::grid::{Change, Grid, LinkChange, ipv4_of, ipv6_of};
use crate::options::Wait;
use crate::packet::Packet;

/// Maximum number of packets that are read from one device before it is the turn of the others, and the longest time
/// for that: a host's kernel takes tens of microseconds for a superpacket of 64 KiB.
const READS_MAX: usize = 32;
const READING_MAX: Span = Span::from_micros(250);
/// The token of the waker; devices have the numbers of their hosts.
const WAKER: u64 = u64::MAX;
/// Not having looked at the devices for this long counts as having been starved.
const STARVED_AFTER: Span = Span::from_millis(1);

/// The shortest sleep. The kernel wakes the thread some tens of microseconds late anyway. Events due meanwhile, mostly
/// the next link of some packet, cost no wake-up of their own.
const NAP: Span = Span::from_micros(20);

/// Commands to the running emulator.
pub(crate) enum Command {
    /// Changes count from now, and so does the report.
    Begin,
    /// Change a link, by its index, now.
    Change(usize, LinkChange),
    /// Come to an end.
    Stop,
}

/// The emulator's counters.
#[derive(Clone, Debug)]
pub(crate) struct EngineReport {
    /// How long it ran.
    pub(crate) span: Span,
    pub(crate) links: Vec<LinkStats>,
    pub(crate) ports: Vec<PortCounts>,
    pub(crate) lateness: Lateness,
    /// Time in which it could not look at the devices, in stretches of more than a millisecond.
    pub(crate) starved: Span,
    /// The longest such stretch.
    pub(crate) stall_max: Span,
    /// Processor time of its thread.
    pub(crate) cpu: Span,
    /// How long its thread was ready to run and waited for a processor, if the kernel tells.
    pub(crate) waited: Option<Span>,
    /// Processor time that the host of this virtual machine took from all of its processors together, if the kernel
    /// tells.
    pub(crate) stolen: Option<Span>,
    /// Hosts whose devices have vanished.
    pub(crate) gone: Vec<usize>,
}

/// The emulator.
pub(crate) struct Engine {
    clock: Clock,
    wait: Wait,
    poller: Poller,
    waker: Waker,
    commands: Receiver<Command>,
    ports: Vec<Port>,
    buffers: Buffers,
    network: Network,
    /// All changes of the run, by time.
    plan: Vec<Change>,
    /// The remaining changes, by time.
    changes: VecDeque<(Time, usize, LinkChange)>,
    began: Time,
    meters: Meters,
}

struct Meters {
    lateness: Histogram,
    starved: Span,
    stall_max: Span,
    cpu: Span,
    waited: Option<Span>,
    stolen: Option<Span>,
}

impl Meters {
    /// Meters of the calling thread that start from zero.
    fn start() -> Self {
        Self {
            lateness: Histogram::new(LATENESS_MAX),
            starved: Span::ZERO,
            stall_max: Span::ZERO,
            cpu: thread::cpu_time(),
            waited: waited_for_processor(),
            stolen: stolen_from_machine(),
        }
    }

    /// The devices were not looked at for this long.
    fn stretch(&mut self, span: Span) {
        if span > STARVED_AFTER {
            self.starved = self.starved + span;
            self.stall_max = self.stall_max.max(span);
        }
    }
}

impl Engine {
    /// An emulator of `grid` between these devices, one a host; to be made by the thread that will run it.
    pub(crate) fn new(
        grid: &Grid,
        devices: Vec<OwnedFd>,
        superpackets: &[bool],
        wait: Wait,
        commands: Receiver<Command>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        let ports: Vec<Port> = devices.into_iter().map(Port::new).collect();
        for (port, token) in ports.iter().zip(0u64..) {
            poller.add(port, token, Interest::Read)?;
        }
        let waker = poller.waker(WAKER)?;
        let mut plan = grid.changes.clone();
        plan.sort_by_key(|change| change.at);
        let clock = Clock::start();
        // Without it each sleep may end 50 us late. Kernels that refuse are known by the lateness that is measured.
        let _ = thread::sleep_exactly();
        let _ = thread::run_in_short_turns();
        Ok(Self {
            clock,
            wait,
            poller,
            waker,
            commands,
            ports,
            buffers: Buffers::new(),
            network: Network::new(grid, superpackets, MEMORY_MAX),
            plan,
            changes: VecDeque::new(),
            began: clock.now(),
            meters: Meters::start(),
        })
    }

    /// Has it look at its commands.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Runs until a stop command, or until its controlling end is gone.
    pub(crate) fn run(mut self) -> io::Result<EngineReport> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let looked_at = self.clock.now();
            self.move_due();
            // Commands given before a packet was sent are executed before the packet is read.
            if events.iter().any(|event| event.token == WAKER) {
                self.waker.reset();
                if !self.obey() {
                    return Ok(self.report());
                }
            }
            for event in events.iter().filter(|event| event.token != WAKER) {
                self.read(event.token as usize)?;
            }
            let (done, deadline) = (self.clock.now(), self.next_at());
            self.meters.stretch(done.since(looked_at));
            match self.wait {
                Wait::Sleep => self.poller.sleep_until(self.clock, deadline.max(done + NAP), &mut events)?,
                Wait::Spin => self.poller.look(&mut events)?,
            }
            // A sleeping thread should be back by the deadline, a spinning one at once.
            let wanted = if self.wait == Wait::Sleep { done.max(deadline) } else { done };
            self.meters.stretch(self.clock.now().since(wanted));
        }
    }

    /// When there is something to do of itself.
    fn next_at(&self) -> Time {
        let change = self.changes.front().map(|(at, ..)| *at);
        [self.network.next_at(), change].into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Executes due events, and delivers arrived packets.
    fn move_due(&mut self) {
        let now = self.clock.now();
        while let Some((at, link, what)) = self.changes.front().copied().filter(|(at, ..)| *at <= now) {
            self.changes.pop_front();
            self.network.advance(at);
            self.network.change(at, link, what);
        }
        self.network.advance(now);
        while let Some(delivery) = self.network.pop_delivery() {
            self.deliver(delivery);
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { at, host, carried, segments } = delivery;
        let packet = &carried.packet;
        let port = &mut self.ports[host];
        self.meters.lateness.add(self.clock.now().since(at));
        if segments.len() == usize::from(packet.segments()) {
            port.write(packet.whole());
        } else {
            port.write(&packet.cut(segments));
        }
        if let Ok(carried) = Rc::try_unwrap(carried) {
            self.buffers.give_back(Carried::into_bytes(carried));
        }
    }

    /// Reads a host's sent packets. Each packet leaves at the time at which it was read.
    fn read(&mut self, host: usize) -> io::Result<()> {
        let until = self.clock.now() + READING_MAX;
        for _ in 0..READS_MAX {
            let Some(bytes) = self.ports[host].read(&mut self.buffers) else { break };
            // Events due by then come first: their packets are on the links before this one.
            self.move_due();
            let counts = &mut self.ports[host].counts;
            let Ok(packet) = Packet::parse(bytes) else {
                counts.malformed += 1;
                continue;
            };
            let Some(to) = host_of(packet.destination) else {
                counts.unroutable += 1;
                continue;
            };
            let now = self.clock.now();
            match self.network.enter(now, host, to, packet) {
                Ok(()) => {}
                Err(NotEntered::NoPath) => counts.unroutable += 1,
                Err(NotEntered::NoMemory) => counts.no_memory += 1,
            }
            if now >= until {
                break;
            }
        }
        if self.ports[host].is_gone {
            self.poller.remove(&self.ports[host])?;
        }
        Ok(())
    }

    /// Executes commands; false: to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Begin) => {
                    self.began = self.clock.now();
                    self.changes = self.plan.iter().map(|c| (self.began + c.at, c.link, c.what)).collect();
                    self.meters = Meters::start();
                }
                Ok(Command::Change(link, what)) => {
                    self.move_due();
                    self.network.change(self.clock.now(), link, what);
                }
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn report(mut self) -> EngineReport {
        let now = self.clock.now();
        let meanwhile = |now: Option<Span>, then: Option<Span>| Some(now?.saturating_sub(then?));
        EngineReport {
            span: now.since(self.began),
            links: self.network.stats(now),
            ports: self.ports.iter().map(|port| port.counts).collect(),
            lateness: self.meters.lateness.summary(),
            starved: self.meters.starved,
            stall_max: self.meters.stall_max,
            cpu: thread::cpu_time().saturating_sub(self.meters.cpu),
            waited: meanwhile(waited_for_processor(), self.meters.waited),
            stolen: meanwhile(stolen_from_machine(), self.meters.stolen),
            gone: (0..self.ports.len()).filter(|host| self.ports[*host].is_gone).collect(),
        }
    }
}

/// The host with this address, if it is in a grid's range; it may be beyond the existing hosts.
fn host_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(address) => u32::from(address).checked_sub(u32::from(ipv4_of(0))).map(|host| host as usize),
        IpAddr::V6(address) => {
            let (address, first) = (u128::from(address), u128::from(ipv6_of(0)));
            address.checked_sub(first).and_then(|host| usize::try_from(host).ok())
        }
    }
}

/// How long the calling thread has been ready to run and has waited for a processor.
fn waited_for_processor() -> Option<Span> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Span::from_nanos)
}

/// The processor time that the host of this virtual machine has taken from it since it started: the eighth number of
/// /proc/stat, in ticks.
fn stolen_from_machine() -> Option<Span> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()?;
    Some(Span::from_secs(1).mul_f64(ticks as f64 / clock_ticks_per_second() as f64))
}
