"""The machine that was measured, by what matters and by no name of its own."""

import mmap
import os
import platform
import re
import subprocess
from pathlib import Path


DIRTY = "-dirty"


def describe():
    """Facts about the machine that a reader needs for its figures."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "virtual": "hypervisor" in (_field("/proc/cpuinfo", "flags") or "").split(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "rmem_max_bytes": _number("/proc/sys/net/core/rmem_max"),
        "wmem_max_bytes": _number("/proc/sys/net/core/wmem_max"),
        "versions": {
            "inhaul commit": commit(),
            "rustc": _version("rustc", "--version"),
            "iperf3": _version("iperf3", "--version"),
            "libsrt": _version("dpkg-query", "--show", "--showformat=${Version}", "libsrt-openssl-dev"),
            "libudt": _version("dpkg-query", "--show", "--showformat=${Version}", "libudt-dev"),
            "nginx": _version("nginx", "-v"),
            "aria2": _version("aria2c", "--version"),
            "curl": _version("curl", "--version"),
            "quinn": _locked("quinn"),
            "s2n-quic": _locked("s2n-quic"),
        },
    }


def commit():
    """The commit of the source, with DIRTY behind it if anything but kept results was changed; None where git knows none."""
    top = Path(__file__).resolve().parent.parent.parent
    name = _first_line("git", "-C", str(top), "rev-parse", "--short", "HEAD")
    changed = _first_line("git", "-C", str(top), "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)results", ":(top,exclude)bench/results")
    return name and name + (DIRTY if changed else "")


def sentence(machine):
    """The text above a table."""
    virtual = ", virtual" if machine["virtual"] else ""
    return f"{machine['cpu']}, {machine['cores']} cores{virtual}, Linux {machine['kernel']}, inhaul {machine['versions']['inhaul commit']}"


def kind(machine):
    """A short name for the kind of machine: `vm-2-core-x86_64`."""
    return f"{'vm' if machine['virtual'] else 'metal'}-{machine['cores']}-core-{machine['architecture']}"


def warm_memory(most_bytes=6 << 30):
    """Touches memory and gives it back. A virtual machine gets each page from its host at the first touch, seconds a
    gigabyte, which would be charged to the first contestant."""
    available_kib = int(_field("/proc/meminfo", "MemAvailable").split()[0])
    size = min(most_bytes, available_kib * 1024 // 2) >> 20 << 20
    piece = bytes(1 << 20)
    with mmap.mmap(-1, size) as memory:
        while memory.tell() < size:
            memory.write(piece)


def _locked(package):
    """The version of a package in the lock file of rivals/quic."""
    lock = (Path(__file__).parent.parent / "rivals" / "quic" / "Cargo.lock").read_text(encoding="utf-8")
    found = re.search(rf'^name = "{package}"\nversion = "(.+)"$', lock, re.MULTILINE)
    return found and found[1]


def _field(path, name):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def _number(path):
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return None


def _version(*command):
    found = re.search(r"\b\d+\.[\w.+~-]+", _first_line(*command) or "")
    return found.group() if found else None


def _first_line(*command):
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return None
    # nginx prints its version where errors go.
    lines = (done.stdout or done.stderr).splitlines() if done.returncode == 0 else []
    return lines[0].strip() if lines else None
