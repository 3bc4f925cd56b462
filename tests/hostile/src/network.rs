//! Network namespaces, joined by pairs of virtual devices.

use std::fs;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// What all namespaces of these tests begin with; the process id follows.
const PREFIX: &str = "inhaul-hostile-";

/// Namespaces of one test; they go when it is done with them.
#[derive(Debug)]
pub struct Network {
    number: u32,
    namespaces: Vec<Namespace>,
}

/// A network namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

impl Network {
    /// One without a namespace yet; `None`, and it says so, when this user or kernel makes none.
    pub fn new() -> Option<Self> {
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        sweep();
        let mut network = Self { number: NETWORKS.fetch_add(1, Ordering::Relaxed), namespaces: Vec::new() };
        if network.try_namespace("trial").is_none() {
            println!("skipped: this user or kernel makes no network namespaces");
            return None;
        }
        Some(network)
    }

    /// A further namespace, with loopback.
    pub fn namespace(&mut self, tag: &str) -> Namespace {
        self.try_namespace(tag).expect("a first namespace could be made")
    }

    fn try_namespace(&mut self, tag: &str) -> Option<Namespace> {
        let namespace = Namespace { name: format!("{PREFIX}{}-{}{tag}", std::process::id(), self.number) };
        ip(&["netns", "add", &namespace.name]).ok()?;
        self.namespaces.push(namespace.clone());
        namespace.ip(&["link", "set", "lo", "up"]);
        Some(namespace)
    }

    /// Joins two namespaces; each side is its namespace, the name of the device there and its address, such as
    /// `10.0.0.1/24`.
    pub fn join(&self, one: (&Namespace, &str, &str), other: (&Namespace, &str, &str)) {
        let (a, b) = (one, other);
        let veth = ["link", "add", a.1, "netns", &a.0.name, "type", "veth", "peer", "name", b.1, "netns", &b.0.name];
        ip(&veth).unwrap_or_else(|error| panic!("ip {veth:?}: {error}"));
        for (namespace, device, address) in [a, b] {
            namespace.ip(&["addr", "add", address, "dev", device]);
            namespace.ip(&["link", "set", device, "up"]);
        }
    }

    /// Two hosts on one wire: 10.9.0.1 with device `a0`, 10.9.0.2 with device `b0`.
    pub fn pair() -> Option<(Self, Namespace, Namespace)> {
        let mut network = Self::new()?;
        let (a, b) = (network.namespace("a"), network.namespace("b"));
        network.join((&a, "a0", "10.9.0.1/24"), (&b, "b0", "10.9.0.2/24"));
        Some((network, a, b))
    }

    /// Two hosts with a router between them: 10.7.1.1 with device `a0`, 10.7.2.1 with device `b0`; the router's
    /// devices are `ra` and `rb`, at .254 of each network. Hosts, then router.
    pub fn routed() -> Option<(Self, Namespace, Namespace, Namespace)> {
        let mut network = Self::new()?;
        let (a, b, router) = (network.namespace("a"), network.namespace("b"), network.namespace("r"));
        network.join((&a, "a0", "10.7.1.1/24"), (&router, "ra", "10.7.1.254/24"));
        network.join((&b, "b0", "10.7.2.1/24"), (&router, "rb", "10.7.2.254/24"));
        a.ip(&["route", "add", "default", "via", "10.7.1.254"]);
        b.ip(&["route", "add", "default", "via", "10.7.2.254"]);
        router.within(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        Some((network, a, b, router))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = ip(&["netns", "del", &namespace.name]);
        }
    }
}

impl Namespace {
    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words before a program's that make it run in here.
    pub fn prefix(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Runs `ip` in here.
    pub fn ip(&self, args: &[&str]) {
        let mut words = vec!["-n", &self.name];
        words.extend(args);
        ip(&words).unwrap_or_else(|error| panic!("ip {words:?}: {error}"));
    }

    /// Runs `work` in this namespace, on a thread of its own, and returns its result: its sockets stay in the
    /// namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Removes the namespaces of processes that ended without doing so.
fn sweep() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(true)) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}
