"""A control group with a quota of processor time, made for a run and taken away after it: version 2 where it has the controller, else version 1."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

from rig.process import Failed

PERIOD_US = 100_000


class Group:
    """A control group whose processes get a part of a processor."""

    def __init__(self, folders, version):
        self.folders = folders
        self.version = version

    def set_quota(self, part):
        """`part` of a processor; None: no limit."""
        quota = "max" if part is None else str(int(part * PERIOD_US))
        if self.version == 2:
            (self.folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self.folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folders[0] / "cpu.cfs_quota_us").write_text("-1" if part is None else quota)

    def take_in(self, script, seconds=10):
        """Moves the shell that runs `script` in here. It may be in other namespaces, where it could not do that itself."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _command(entry) == ["bash", str(script)]:
                    for folder in self.folders:
                        (folder / "cgroup.procs").write_text(entry.name)
                    return
            time.sleep(0.01)
        raise Failed(f"{script} was not run")

    def stopped_seconds(self):
        """How long its processes were stopped because the quota was used up, all processors together."""
        for line in (self.folders[0] / "cpu.stat").read_text().splitlines():
            name, value = line.split()
            if name == "throttled_usec":
                return int(value) / 1e6
            if name == "throttled_time":
                return int(value) / 1e9
        return 0.0


def _command(process):
    try:
        return (process / "cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def missing():
    """Why no group can be made here; None if one can."""
    if os.geteuid() != 0:
        return "control groups are made by root only"
    if _version_2() is None and _mount("cgroup", "cpu") is None:
        return "no hierarchy of control groups with the cpu controller is mounted"
    return None


@contextmanager
def make():
    """A group of this run."""
    name = f"inhaul-bench-{os.getpid()}"
    second = _version_2()
    mounts = [second] if second else [_mount("cgroup", "cpu"), _mount("cgroup", "cpuacct")]
    # With both controllers in one hierarchy there is one folder.
    folders = list(dict.fromkeys(mount / name for mount in mounts if mount))
    try:
        for folder in folders:
            folder.mkdir()
        yield Group(folders, 2 if second else 1)
    finally:
        for folder in folders:
            if folder.is_dir():
                folder.rmdir()


def _version_2():
    """Where version 2 is mounted with the cpu controller, switched on for groups below."""
    mount = _mount("cgroup2", None)
    if mount is None or "cpu" not in (mount / "cgroup.controllers").read_text().split():
        return None
    if "cpu" not in (mount / "cgroup.subtree_control").read_text().split():
        try:
            (mount / "cgroup.subtree_control").write_text("+cpu")
        except OSError:
            return None
    return mount


def _mount(kind, controller):
    with open("/proc/mounts", encoding="utf-8") as lines:
        for line in lines:
            _, at, found, options, *_ = line.split(" ")
            if found == kind and (controller is None or controller in options.split(",")):
                return Path(at)
    return None
