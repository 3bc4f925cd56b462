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
