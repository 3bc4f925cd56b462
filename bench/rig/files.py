"""File to file: one file from three mirrors into memory-backed storage, beside aria2 from three nginx."""

import filecmp
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from . import nginx
from .process import Failed, Group, Place, machine_busy_seconds

PORTS = (7201, 7202, 7203)
PATIENCE_SECONDS = 300
FAST_STORAGE = Path("/dev/shm")


@contextmanager
def data_set(size_bytes):
    """A folder with `offered/file.bin` of random bytes, on memory-backed storage where there is room for it twice."""
    with tempfile.TemporaryDirectory(prefix="inhaul-bench-", dir=_storage(size_bytes)) as folder:
        offered = Path(folder) / "offered"
        offered.mkdir()
        with open(offered / "file.bin", "wb") as file:
            for _ in range(size_bytes >> 20):
                file.write(os.urandom(1 << 20))
        yield Path(folder)


def _storage(size_bytes):
    if FAST_STORAGE.is_dir() and shutil.disk_usage(FAST_STORAGE).free > 2.5 * size_bytes:
        return FAST_STORAGE
    return tempfile.gettempdir()


class Aria2:
    """aria2c with one connection to each of three nginx that serve with sendfile. It does not verify."""

    name = "aria2+nginx"

    def missing(self):
        """What to do to have it, or None when it is there."""
        found = {"aria2": shutil.which("aria2c"), "nginx": nginx.find()}
        absent = [package for package, program in found.items() if not program]
        return f"apt-get install {' '.join(absent)}" if absent else None

    def serve(self, group, folder):
        """Starts the three mirrors."""
        for port in PORTS:
            line = nginx.command(folder / f"nginx-{port}", f"127.0.0.1:{port}", folder / "offered", os.geteuid() == 0)
            group.start("nginx", Place(), line).wait_for_port("tcp", port)

    def fetch(self, destination):
        """The command that hauls the file into `destination`."""
        urls = [f"http://127.0.0.1:{port}/file.bin" for port in PORTS]
        options = ["--no-conf", "--split=3", "--max-connection-per-server=1", "--min-split-size=1M"]
        return ["aria2c", *options, "--file-allocation=none", "--quiet", f"--dir={destination}", *urls]


class InhaulFiles:
    """`inhaul get` from three `inhaul serve`, every byte verified with BLAKE3."""

    name = "inhaul"

    def __init__(self, binary):
        self.binary = binary

    def missing(self):
        """What to do to have it, or None when it is there."""
        return None if self.binary else "the release build of inhaul failed"

    def serve(self, group, folder):
        """Starts the three mirrors."""
        for port in PORTS:
            command = [self.binary, "serve", folder / "offered", "--listen", f"127.0.0.1:{port}"]
            group.start("inhaul serve", Place(), command).wait_for_port("tcp", port)

    def fetch(self, destination):
        """The command that hauls the file into `destination`."""
        mirrors = ",".join(f"127.0.0.1:{port}" for port in PORTS)
        return [self.binary, "get", "--quiet", f"inhaul://{mirrors}/file.bin", f"{destination}/"]


def measure(contestant, folder):
    """Hauls the file once; the clock runs from the start of the fetching program to its end."""
    original = folder / "offered" / "file.bin"
    size = original.stat().st_size
    destination = Path(tempfile.mkdtemp(dir=folder))
    try:
        busy_before = machine_busy_seconds()
        with Group() as group:
            contestant.serve(group, folder)
            start = time.monotonic()
            group.start(contestant.name, Place(), contestant.fetch(destination)).wait(PATIENCE_SECONDS)
            seconds = time.monotonic() - start
            costs = [process.stop().cpu_seconds for process in group.processes]
        busy = machine_busy_seconds() - busy_before
        if not filecmp.cmp(original, destination / "file.bin", shallow=False):
            raise Failed(f"{contestant.name} delivered other bytes than were offered")
    finally:
        shutil.rmtree(destination)
    gigabytes = size / 1e9
    return {
        "bytes": size,
        "seconds": round(seconds, 3),
        "goodput_bps": round(size * 8 / seconds),
        "cpu_seconds": round(sum(costs), 3),
        "cpu_seconds_per_gigabyte": round(sum(costs) / gigabytes, 4),
        "machine_cpu_seconds_per_gigabyte": round(busy / gigabytes, 4),
    }
