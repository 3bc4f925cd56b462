//! A service manager's part.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::confined::Unit;
use crate::program::{Running, Start, inhaul};
use crate::scratch::Scratch;

const PATIENCE: Duration = Duration::from_secs(30);
/// A user without rights.
const NOBODY: u32 = 65_534;

/// Systemd's part for a service: it makes the sockets, and receives notifications of the service's state.
pub struct Manager {
    tcp: TcpListener,
    udp: UdpSocket,
    notified: UnixDatagram,
    at: Scratch,
    /// Servers do not run as the user that made the sockets.
    is_other_user: bool,
}

impl Manager {
    /// One whose service has a directory `state`, a `cache` and an `inbox`.
    #[allow(clippy::new_without_default, reason = "it makes sockets, which no default should")]
    pub fn new() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        // Children have them.
        for socket in [tcp.as_fd(), udp.as_fd()] {
            fcntl_setfd(socket, FdFlags::empty()).unwrap();
        }
        let at = Scratch::new();
        for name in ["state", "cache", "inbox"] {
            std::fs::create_dir(at.path().join(name)).unwrap();
        }
        let notified = UnixDatagram::bind(at.path().join("notify")).unwrap();
        notified.set_read_timeout(Some(PATIENCE)).unwrap();
        let is_other_user = rustix::process::geteuid().is_root();
        if is_other_user {
            let open = |path: &Path, mode: u32| {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
                std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            };
            for (name, mode) in [("", 0o755), ("state", 0o700), ("cache", 0o700), ("inbox", 0o755), ("notify", 0o777)] {
                open(&at.path().join(name), mode);
            }
        }
        Self { tcp, udp, notified, at, is_other_user }
    }

    /// Where its service listens.
    pub fn address(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }

    /// Where the directories of the service are.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Starts a server and waits until it says that it is ready.
    pub fn start(&self, offered: &Path) -> Running {
        let serve = inhaul(["serve", "-v", "--grace", "1", "--accept-puts"]).arg(self.at.path().join("inbox"));
        let serve = serve.arg(offered).by(self.with_sockets()).by(self.as_other_user());
        self.begin(serve.variable("INHAUL_STATE", self.at.path().join("state")))
    }

    /// Starts the server of a unit, which takes puts, too; `confine` runs what follows it under the unit's filters of
    /// system calls. Where this may be done, it sees a file system on which it can write to its own directories only.
    pub fn start_unit(&self, unit: &Unit, offered: &Path, confine: &[&str]) -> Running {
        let command = unit.values("ExecStart")[0].split(' ').skip(1).map(|word| match word {
            "/srv/data" => offered.to_str().unwrap(),
            "127.0.0.1:9464" => "127.0.0.1:0",
            other => other,
        });
        let serve = inhaul(command).arg("--accept-puts").arg(self.at.path().join("inbox"));
        let directory = |name: &str| self.at.path().join(name);
        // Those of systemd, and not those of these tests.
        let serve =
            serve.variable("STATE_DIRECTORY", directory("state")).variable("XDG_CACHE_HOME", directory("cache"));
        let serve = serve.by(self.with_sockets()).by(["env", "-u", "INHAUL_STATE"]);
        let serve = serve.by(self.with_mounts()).by(self.as_other_user());
        self.begin(serve.by(["bash", "-c", "umask \"$0\"; exec \"$@\"", unit.values("UMask")[0]]).by(confine))
    }

    fn begin(&self, serve: Start) -> Running {
        let serve = serve.variable("NOTIFY_SOCKET", self.at.path().join("notify"));
        let server = serve.variable("WATCHDOG_USEC", "400000").start();
        self.hear_until("READY=1");
        server
    }

    fn with_sockets(&self) -> [String; 3] {
        let (tcp, udp) = (self.tcp.as_raw_fd(), self.udp.as_raw_fd());
        // Through numbers that are free for sure.
        let script = format!(
            "exec 98<&{tcp} 99<&{udp}; exec 3<&98 4<&99 98<&- 99<&-; export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$0\" \"$@\""
        );
        ["bash".to_owned(), "-c".to_owned(), script]
    }

    fn as_other_user(&self) -> Vec<String> {
        let user = NOBODY.to_string();
        let change = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "--bounding-set=-all"];
        change.iter().filter(|_| self.is_other_user).map(|word| (*word).to_owned()).collect()
    }

    /// As with `ProtectSystem=strict`.
    fn with_mounts(&self) -> Vec<String> {
        let has_namespaces = || {
            let mut tried = Command::new("unshare");
            tried.args(["--mount", "true"]).stderr(Stdio::null()).status().is_ok_and(|ended| ended.success())
        };
        if !self.is_other_user || !has_namespaces() {
            return Vec::new();
        }
        let directory = self.at.path().display();
        let script = format!(
            "for name in state cache inbox; do mount --bind {directory}/$name {directory}/$name || exit; done
             mount -o remount,bind,ro / || exit; exec \"$0\" \"$@\""
        );
        ["unshare", "--mount", "bash", "-c", &script].map(str::to_owned).into()
    }

    /// The next thing that the service says.
    pub fn hear(&self) -> String {
        let mut bytes = [0; 256];
        let len = self.notified.recv(&mut bytes).expect("the service says something");
        String::from_utf8_lossy(&bytes[..len]).trim().to_owned()
    }

    /// Waits until the service says this.
    pub fn hear_until(&self, wanted: &str) {
        let began = Instant::now();
        while self.hear() != wanted {
            assert!(began.elapsed() < PATIENCE, "{wanted} is not said");
        }
    }
}
