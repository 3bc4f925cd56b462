"""Measured processes: their host, their cost, and their end."""

import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field


class Failed(Exception):
    """A measured program did not do its part; the text says which and how."""


@dataclass
class Place:
    """Where a process runs."""

    namespace: str | None = None  # a network namespace, or the one that the rig runs in
    core: int | None = None  # a core that it is pinned to, or all

    def command(self, arguments):
        """The arguments with what puts the process in its place; each step replaces itself, so the process stays one."""
        prefix = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        if self.core is not None:
            prefix += ["taskset", "--cpu-list", str(self.core)]
        return prefix + [str(argument) for argument in arguments]


@dataclass
class Ended:
    """A process's output, and its cost by the kernel's account (os.wait4)."""

    stdout: str
    stderr: str
    status: int
    cpu_seconds: float
    wakes: int  # voluntary context switches: how often it slept and was woken


@dataclass
class Process:
    """A running program. Use `Group.start`, which makes sure that it ends."""

    name: str
    popen: subprocess.Popen
    stdout: object
    stderr: object
    ended: Ended | None = field(default=None)

    def wait_for_port(self, kind, port, seconds=10):
        """Waits until a `tcp` or `udp` port is open in the namespace of the process."""
        suffix = f":{port:04X}"
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._reap(block_seconds=0):
                raise Failed(f"{self.name} ended before it listened: {self._last_words()}")
            if suffix in _local_ports(self.popen.pid, kind):
                return
            time.sleep(0.01)
        raise Failed(f"{self.name} did not open {kind} port {port} in {seconds} s: {self._last_words()}")

    def wait(self, seconds):
        """Waits until the process ends by itself, and well."""
        if not self._reap(seconds):
            self.stop()
            raise Failed(f"{self.name} did not end within {seconds:.0f} s: {self._last_words()}")
        if self.ended.status != 0:
            raise Failed(f"{self.name} failed with {self.ended.status}: {self._last_words()}")
        return self.ended

    def stop(self):
        """Ends the process, politely at first, and returns its output and cost."""
        for number, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
            if self._reap(0):
                break
            self.popen.send_signal(number)
            self._reap(patience)
        return self.ended

    def _reap(self, block_seconds):
        """Takes the process from the kernel's table if it has ended, within the time given."""
        if self.ended is not None:
            return True
        handle = os.pidfd_open(self.popen.pid)
        try:
            ready, _, _ = select.select([handle], [], [], block_seconds)
        finally:
            os.close(handle)
        if not ready:
            return False
        _, status, usage = os.wait4(self.popen.pid, 0)
        self.popen.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (self.stdout, self.stderr):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
            stream.close()
        self.ended = Ended(*texts, self.popen.returncode, usage.ru_utime + usage.ru_stime, usage.ru_nvcsw)
        return True

    def _last_words(self):
        if self.ended is None:
            return "it still runs"
        words = (self.ended.stderr.strip() or self.ended.stdout.strip()).splitlines()
        return " / ".join(words[-3:]) or "it said nothing"


class Group:
    """The processes of one measurement; all end with it: `with Group() as group`."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stop()

    def start(self, name, place, arguments):
        """Starts a program; its output goes to files, so that no full pipe holds it up."""
        stdout, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        command = place.command(arguments)
        try:
            popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        process = Process(name, popen, stdout, stderr)
        self.processes.append(process)
        return process


def _local_ports(pid, kind):
    """The local ports of the process's namespace, as `:HEX`; TCP ports only while they listen."""
    ports = set()
    for table in (kind, kind + "6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        ports.update(row[1][-5:] for row in rows if kind == "udp" or row[3] == "0A")
    return ports


def machine_busy_seconds():
    """CPU seconds that the whole machine has spent on anything, interrupts included, since it started."""
    user, nice, system, _idle, _iowait, irq, softirq, _steal = _machine_ticks()
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def machine_stolen_seconds():
    """CPU seconds that a virtual machine wanted and its host gave to others, since it started."""
    return _machine_ticks()[7] / os.sysconf("SC_CLK_TCK")


def _machine_ticks():
    with open("/proc/stat", encoding="ascii") as lines:
        return list(map(int, lines.readline().split()[1:9]))
