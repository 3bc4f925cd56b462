"""Networks of one machine, made for a run and taken away after it: a loopback and a veth pair, in namespaces."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

OFFLOADS = {
    # As the kernel makes them.
    "on": {},
    # Every packet for itself, through the stack and over the device.
    "off": {"tso": "off", "gso": "off", "gro": "off", "tx-udp-segmentation": "off"},
    # Segmented in software before the device, merged again behind it: the effect of a wire without such hardware.
    "wire": {"tso": "off", "tx-udp-segmentation": "off", "gro": "on"},
}


@dataclass
class Network:
    """Two ends that reach each other."""

    sender_namespace: str | None
    receiver_namespace: str | None
    sender_address: str
    receiver_address: str


def may_make():
    """Whether this process may make namespaces."""
    return os.geteuid() == 0


def missing_tools():
    """Missing requirements for them."""
    return [tool for tool in ("ip", "ethtool") if shutil.which(tool) is None]


def make(kind, mtu, offload):
    """The network of one case, as a context: `with make("veth", 1500, "on") as network`."""
    if kind == "veth":
        return _veth(mtu, offload)
    return _loopback(mtu, offload) if may_make() else _host_loopback()


@contextmanager
def _host_loopback():
    """The machine's own loopback: all that there is without root. Its MTU is its own; contestants bound their datagrams."""
    yield Network(None, None, "127.0.0.1", "127.0.0.1")


@contextmanager
def _loopback(mtu, offload):
    with _namespace("lo") as name:
        _up(name, "lo", mtu, offload)
        yield Network(name, name, "127.0.0.1", "127.0.0.1")


@contextmanager
def _veth(mtu, offload):
    with _namespace("s") as sender, _namespace("r") as receiver:
        # Both ends are made inside the namespaces: nothing ever shows in the machine's own.
        _ip("-n", sender, "link", "add", "bench0", "type", "veth", "peer", "name", "bench0", "netns", receiver)
        for name, address in ((sender, "10.99.0.1/24"), (receiver, "10.99.0.2/24")):
            _ip("-n", name, "address", "add", address, "dev", "bench0")
            _up(name, "bench0", mtu, offload)
        yield Network(sender, receiver, "10.99.0.1", "10.99.0.2")


@contextmanager
def _namespace(suffix):
    """A namespace named after this process; with it go its devices."""
    name = f"inhaul-bench-{os.getpid()}-{suffix}"
    _ip("netns", "add", name)
    try:
        yield name
    finally:
        _ip("netns", "delete", name)


def _up(namespace, device, mtu, offload):
    _ip("-n", namespace, "link", "set", device, "mtu", str(mtu), "up")
    for feature, value in OFFLOADS[offload].items():
        _run("ip", "netns", "exec", namespace, "ethtool", "-K", device, feature, value)


def _ip(*arguments):
    _run("ip", *arguments)


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
