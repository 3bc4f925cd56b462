"""Who is measured memory to memory. Every contestant moves bytes from one place to another for some seconds and says how
many came; the rig itself measures the processes' cost, in the same way for all."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .process import Failed, Group, Place, machine_busy_seconds

PORT = 7101
# Beyond the time of the measurement itself: starting, filling cold memory, lingering.
PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class Case:
    """The circumstances of one measurement, the same for all contestants."""

    network: str  # "loopback" or "veth"
    mtu: int  # bytes
    offload: str  # a key of network.OFFLOADS
    memory: str  # "hot": one buffer that stays in the cache; "cold": 1 GiB from end to end
    senders: int

    def __str__(self):
        return f"{self.network}/{self.mtu}/{self.offload}/{self.memory}/{self.senders}"


@dataclass
class Ends:
    """Where a measurement runs: the two places, and the address that the side which listens has."""

    sender: Place
    receiver: Place
    sender_address: str
    receiver_address: str


class Contestant:
    """A way to move bytes. `missing` says what to do where it is not installed."""

    name = ""
    memories = ("hot", "cold")

    def missing(self):
        """What to do to have it, or None when it is there."""
        return None

    def move(self, group, case, ends, seconds):
        """Moves bytes for `seconds`; returns bytes and seconds as the receiver counted them, and more if it knows."""
        raise NotImplementedError

    def measure(self, case, ends, seconds):
        """One measurement, as it goes into the results."""
        busy_before = machine_busy_seconds()
        with Group() as group:
            moved = self.move(group, case, ends, seconds)
            costs = [process.stop().cpu_seconds for process in group.processes]
        busy = machine_busy_seconds() - busy_before
        if not moved["bytes"] or not moved["seconds"]:
            raise Failed(f"{self.name} moved nothing")
        gigabytes = moved["bytes"] / 1e9
        return {
            **moved,
            "goodput_bps": round(moved["bytes"] * 8 / moved["seconds"]),
            "cpu_seconds": round(sum(costs), 3),
            "cpu_seconds_per_gigabyte": round(sum(costs) / gigabytes, 4),
            "machine_cpu_seconds_per_gigabyte": round(busy / gigabytes, 4),
        }


class RawUdp(Contestant):
    """The ceiling: plain senders and a plain receiver of datagrams, with the same batching, offloads and memory."""

    def __init__(self, name, binary, *options):
        self.name, self.binary, self.options = name, binary, options

    def missing(self):
        return None if self.binary else "crates/udp/examples/raw.rs did not build"

    def move(self, group, case, ends, seconds):
        options = [*_options(case), *self.options]
        address = f"{ends.receiver_address}:{PORT}"
        receiver = group.start("raw recv", ends.receiver, [self.binary, "recv", "--listen", address, *options])
        receiver.wait_for_port("udp", PORT)
        send = [self.binary, "send", address, "--seconds", seconds, *options]
        senders = [group.start("raw send", ends.sender, send) for _ in range(case.senders)]
        sent = [_last_json(sender.wait(seconds + PATIENCE_SECONDS)) for sender in senders]
        report = _last_json(receiver.wait(PATIENCE_SECONDS))
        return {**_counts(report), "loss_ratio": _share_lost(sent, report)}


class Tcp(Contestant):
    """Kernel TCP under iperf3, one process a side for each sender."""

    memories = ("hot",)

    def __init__(self, name, write_size=None):
        self.name = name
        self.options = ["-l", write_size] if write_size else []

    def missing(self):
        return None if shutil.which("iperf3") else "apt-get install iperf3"

    def move(self, group, case, ends, seconds):
        ports = range(PORT, PORT + case.senders)
        for port in ports:
            server = ["iperf3", "--server", "--one-off", "--bind", ends.receiver_address, "--port", port]
            group.start("iperf3 server", ends.receiver, server).wait_for_port("tcp", port)
        # Segments as they would be on a link of that MTU, even where the loopback's own is larger.
        common = ["iperf3", "--client", ends.receiver_address, "--time", seconds, "--set-mss", case.mtu - 40, "--json"]
        clients = [group.start("iperf3", ends.sender, [*common, "--port", port, *self.options]) for port in ports]
        reports = [json.loads(client.wait(seconds + PATIENCE_SECONDS).stdout)["end"] for client in clients]
        received = [report["sum_received"] for report in reports]
        return {
            "bytes": sum(each["bytes"] for each in received),
            "seconds": max(each["seconds"] for each in received),
            "retransmits": sum(report["sum_sent"].get("retransmits", 0) for report in reports),
        }


class Rival:
    """A program of rivals/: C++ over the library of another protocol, built where it is measured."""

    def __init__(self, work, name, library, package):
        self.name, self.library, self.package = name, library, package
        self.source = Path(__file__).parent.parent / "rivals" / f"{name}.cc"
        self.binary = Path(work) / name

    def missing(self):
        if self.binary.exists():
            return None
        command = ["g++", "-std=c++17", "-O2", "-o", self.binary, self.source, f"-l{self.library}", "-lpthread"]
        try:
            built = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return f"apt-get install g++ {self.package}"
        return None if built.returncode == 0 else f"apt-get install {self.package}"

    def command(self, case, *arguments):
        return [self.binary, *arguments, case.mtu, case.memory]


class Ours:
    """crates/udt4/examples/bulk.rs, which takes the same arguments."""

    name = "bulk"

    def __init__(self, binary):
        self.binary = binary

    def missing(self):
        return None if self.binary else "crates/udt4/examples/bulk.rs did not build"

    def command(self, case, *arguments):
        return [self.binary, *arguments, case.mtu, case.memory, *(["no-offload"] if case.offload == "off" else [])]


class Sockets(Contestant):
    """A library of sockets: one program sends, maybe another one receives."""

    def __init__(self, name, sender, receiver):
        self.name, self.sender, self.receiver = name, sender, receiver

    def missing(self):
        return self.sender.missing() or self.receiver.missing()

    def move(self, group, case, ends, seconds):
        receive = self.receiver.command(case, "recv", PORT, case.senders)
        receiver = group.start(f"{self.receiver.name} recv", ends.receiver, receive)
        receiver.wait_for_port("udp", PORT)
        send = self.sender.command(case, "send", ends.receiver_address, PORT, seconds)
        senders = [group.start(f"{self.sender.name} send", ends.sender, send) for _ in range(case.senders)]
        for sender in senders:
            sender.wait(seconds + PATIENCE_SECONDS)
        return _counts(_last_json(receiver.wait(PATIENCE_SECONDS)))


class Quic(Contestant):
    """A program of rivals/quic: bulk data over one stream of a QUIC library. One sender."""

    def __init__(self, name, binary, work):
        self.name, self.binary = name, binary
        self.certificate = Path(work) / f"{name}.pem"

    def missing(self):
        return None if self.binary else "bench/rivals/quic did not build"

    def move(self, group, case, ends, seconds):
        options = ["--certificate", self.certificate, *_options(case)]
        address = f"{ends.receiver_address}:{PORT}"
        receiver = group.start(f"{self.name} recv", ends.receiver, [self.binary, "recv", "--listen", address, *options])
        receiver.wait_for_port("udp", PORT)
        send = [self.binary, "send", address, "--seconds", seconds, *options]
        group.start(f"{self.name} send", ends.sender, send).wait(seconds + PATIENCE_SECONDS)
        return _counts(_last_json(receiver.wait(PATIENCE_SECONDS)))


class Inhaul(Contestant):
    """`inhaul bench`: servers send, the caller receives and drives. `both` are options of both, `options` of the caller."""

    def __init__(self, name, binary, *options, both=()):
        self.name, self.binary, self.options, self.both = name, binary, options, both

    def missing(self):
        return None if self.binary else "the release build of inhaul failed"

    def move(self, group, case, ends, seconds):
        wire = [*self.both, "--mtu", case.mtu, *_offload(case)]
        addresses = [f"{ends.sender_address}:{PORT + number}" for number in range(case.senders)]
        for number, address in enumerate(addresses):
            server = [self.binary, "bench", "--server", "--listen", address, *wire]
            group.start("inhaul bench --server", ends.sender, server).wait_for_port("tcp", PORT + number)
        client = [self.binary, "bench", *addresses, "-t", seconds, "-J", "--memory", case.memory, *wire, *self.options]
        ended = group.start("inhaul bench", ends.receiver, client).wait(seconds + PATIENCE_SECONDS)
        report = json.loads(ended.stdout)
        return {**_counts(report), "loss_ratio": report.get("loss_ratio")}


def _options(case):
    """The circumstances, as programs of our own take them."""
    return ["--mtu", case.mtu, "--memory", case.memory, *_offload(case)]


def _offload(case):
    return ["--no-offload"] if case.offload == "off" else []


def _counts(report):
    return {"bytes": report["bytes"], "seconds": report["seconds"]}


def _last_json(ended):
    """The JSON object on the last line that a program printed."""
    lines = ended.stdout.strip().splitlines()
    if not lines:
        raise Failed(f"it printed no result: {ended.stderr.strip()}")
    return json.loads(lines[-1])


def _share_lost(sent, received):
    total = sum(each["bytes"] for each in sent)
    return round(max(0.0, 1 - received["bytes"] / total), 6) if total else None
