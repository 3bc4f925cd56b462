"""A cluster fetches a data set, and loses a worker meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import inhaul

distributed = pytest.importorskip("distributed")


def same(one: Path, other: Path) -> bool:
    names = sorted(str(path.relative_to(one)) for path in one.rglob("*"))
    assert names == sorted(str(path.relative_to(other)) for path in other.rglob("*"))
    return all((one / name).is_dir() or (one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_a_cluster_fetches_a_data_set_and_a_killed_workers_part_again(tmp_path: Path) -> None:
    import inhaul.dask

    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    for index in range(4):
        (source / "deep" / str(index)).write_bytes(os.urandom(12 << 20))
    (source / "empty").write_bytes(b"")
    with inhaul.Server(source, public=True, send_rate="400M") as server:
        with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster:
            with distributed.Client(cluster) as client:
                pids: dict[str, int] = client.run(os.getpid)
                victim = list(pids.values())[0]

                came: list[int] = []

                def kill() -> None:
                    while not came or came[-1] < 8 << 20:
                        partial = tmp_path.glob("landed.partial-*/deep/*")
                        came.append(sum(path.stat().st_blocks * 512 for path in partial))
                    os.kill(victim, signal.SIGKILL)

                killer = threading.Thread(target=kill)
                killer.start()
                fetched: Any = inhaul.dask.fetch(
                    server.address_of(), str(tmp_path / "landed"), client=client, part_bytes=1 << 20, state=""
                )
                killer.join()
    assert came[-1] < 40 << 20, "it was killed in mid-fetch"
    assert same(source, tmp_path / "landed")
    # The victim had one part under way; the results of some more may have died with it. Below zero, a beginning was missed.
    assert 0 <= fetched.again_bytes <= 8 << 20, fetched
    assert fetched.bytes == 48 << 20 and sum(fetched.by_worker.values()) == 48 << 20
    assert not list(tmp_path.glob("*.partial*"))


def test_a_cluster_keeps_links_modes_and_times(tmp_path: Path) -> None:
    import inhaul.dask

    source, landed = tmp_path / "source", tmp_path / "landed"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "tool").write_bytes(b"#!/bin/sh\n")
    (source / "deep" / "secret").write_bytes(b"x" * 3000)
    os.link(source / "deep" / "secret", source / "same")
    (source / "to-tool").symlink_to("tool")
    (source / "deep" / "nowhere").symlink_to("../../gone")
    for path, mode in [("tool", 0o755), ("deep/secret", 0o400), ("deep/er", 0o555), ("deep", 0o750)]:
        (source / path).chmod(mode)
    for second, path in enumerate(["tool", "deep/secret", "to-tool", "deep/nowhere", "deep/er", "deep", ""]):
        time_ns = 1_600_000_000_123_456_789 + second * 10**9
        os.utime(source / path, ns=(time_ns, time_ns), follow_symlinks=False)
    with inhaul.Server(source, public=True) as server:
        with distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client:
            fetched: Any = inhaul.dask.fetch(server.address_of(), str(landed), client=client, state="")
            inhaul.dask.fetch(server.address_of("tool"), str(tmp_path / "one"), client=client, state="")

    def kept(top: Path) -> list[tuple[str, int, int, str]]:
        def of(path: Path) -> tuple[str, int, int, str]:
            stat = path.lstat()
            target = os.readlink(path) if path.is_symlink() else ""
            return str(path.relative_to(top)), stat.st_mode, stat.st_mtime_ns, target

        return sorted(of(path) for path in [top, *top.rglob("*")])

    assert kept(source) == kept(landed)
    assert (landed / "same").samefile(landed / "deep" / "secret")
    assert (landed / "same").read_bytes() == b"x" * 3000
    of = [(path.stat().st_mode, path.stat().st_mtime_ns) for path in (source / "tool", tmp_path / "one")]
    assert of[0] == of[1], "a file alone keeps them too"
    # The file with two names came once; one worker has no other to share with; and the rate is bytes over the time.
    assert fetched.bytes == 3010 and fetched.fairness is None
    assert abs(fetched.goodput_bps * fetched.seconds - 8 * fetched.bytes) < 1e-3
