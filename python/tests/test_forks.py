"""Forks of a process that has used a client, in several manners. Each child is bounded in time."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inhaul

CHILD_S = 20


def in_child(work: Callable[[], object]) -> None:
    """Runs it in the child of a fork, which has to end well, and in time."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(write, 2)
            work()
            os._exit(0)
        except BaseException:
            import traceback

            os.write(2, traceback.format_exc().encode())
            os._exit(1)
    os.close(write)
    watch = os.pidfd_open(pid)
    has_ended = bool(select.select([watch], [], [], CHILD_S)[0])
    os.close(watch)
    if not has_ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as file:
        said = file.read().decode() if has_ended else "it hangs"
    assert status == 0 and "panicked" not in said, said


@pytest.fixture
def used(server: inhaul.Server) -> tuple[inhaul.Client, inhaul.DataSet]:
    client = inhaul.Client(state="")
    data_set = client.open(server.address_of())
    data_set.read("a")
    return client, data_set


def test_a_plain_fork(used: tuple[inhaul.Client, inhaul.DataSet], server: inhaul.Server, tree: Path) -> None:
    client, data_set = used

    def work() -> None:
        assert data_set.read("a") == (tree / "a").read_bytes()
        assert client.open(server.address_of("d/one")).read() == (tree / "d/one").read_bytes()
        assert client.ls(server.address_of())

    in_child(work)
    assert data_set.read("a") == (tree / "a").read_bytes(), "the parent goes on"


def test_what_a_child_drops_is_only_forgotten(server: inhaul.Server) -> None:
    kept: dict[str, Any] = {"client": inhaul.Client(state="")}
    kept["set"] = kept["client"].open(server.address_of())
    kept["read"] = kept["set"].start([("d/e/two", None, None)])

    def work() -> None:
        with pytest.raises(ValueError, match="before this process was forked"):
            kept["read"].result()
        kept.clear()
        # A server of the parent's is not the child's to stop.
        server.stop()

    in_child(work)
    assert len(kept["read"].result()[0]) == 3_000_000


def test_a_fork_while_another_thread_reads(tree: Path) -> None:
    with inhaul.Server(tree, public=True, send_rate="4M") as slow:
        data_set = inhaul.Client(state="").open(slow.address_of())
        running = [data_set.start([("d/e/two", None, None)]), data_set.start([("d/three", None, None)])]

        def work() -> None:
            assert data_set.read("a") == (tree / "a").read_bytes()

        in_child(work)
        for one in running:
            one.cancel()


def test_a_fork_while_another_thread_opens(tree: Path) -> None:
    import socket
    import threading

    client = inhaul.Client(state="", accept_new=True)
    with socket.create_server(("127.0.0.1", 0)) as silent, inhaul.Server(tree, public=True) as server:
        address = f"inhaul://127.0.0.1:{silent.getsockname()[1]}/x"

        def wait() -> None:
            with pytest.raises(inhaul.InhaulError):
                client.open(address)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        connection, _ = silent.accept()

        def work() -> None:
            assert client.open(server.address_of("a")).read() == (tree / "a").read_bytes()

        in_child(work)
        connection.close()


def test_the_child_of_a_child(used: tuple[inhaul.Client, inhaul.DataSet], tree: Path) -> None:
    _, data_set = used

    def child() -> None:
        assert data_set.read("d/one", 0, 9) == (tree / "d/one").read_bytes()[:9]
        in_child(lambda: data_set.read("d/one", 0, 9) == (tree / "d/one").read_bytes()[:9] or os._exit(1))
        assert data_set.read("d/one", 9, 20) == (tree / "d/one").read_bytes()[9:20]

    in_child(child)


def _part(start: int) -> bytes:
    return _shared["set"].read("d/e/two", start, start + 1000)  # type: ignore[no-any-return]


_shared: dict[str, Any] = {}


def test_a_pool(used: tuple[inhaul.Client, inhaul.DataSet], tree: Path) -> None:
    _shared["set"] = used[1]
    whole = (tree / "d/e/two").read_bytes()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        starts = list(range(0, 2_000_000, 100_000))
        assert pool.map_async(_part, starts).get(60) == [whole[start : start + 1000] for start in starts]


def test_loaders_of_all_kinds(server: inhaul.Server, tree: Path) -> None:
    """The behaviour of PyTorch's loader: its workers are forked, and inherit objects that the parent has used."""
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("inhaul", ticket=server.address_of().split("#")[1], state="")
    name, whole = f"{server.address}/d/one", (tree / "d/one").read_bytes()
    file = fs.open(name)
    assert file.read(8) == whole[:8] and fs.cat_file(name, 8, 16) == whole[8:16]

    def work() -> None:
        assert fs.cat_file(name, 0, 8) == whole[:8]
        assert file.read(8) == whole[8:16]
        again = fsspec.filesystem("inhaul", ticket=server.address_of().split("#")[1], state="")
        assert again.cat_file(name, 5, 9) == whole[5:9]

    for _ in range(3):
        in_child(work)
    assert fs.cat_file(name) == whole


def test_a_zarr_store_in_a_loader(tmp_path: Path) -> None:
    zarr, numpy = pytest.importorskip("zarr"), pytest.importorskip("numpy")
    from inhaul.zarr import InhaulStore

    values = numpy.arange(10_000.0).reshape(100, 100)
    zarr.create_array(str(tmp_path / "z.zarr"), data=values, chunks=(10, 10))
    with inhaul.Server(tmp_path, public=True) as server:
        array = zarr.open_array(InhaulStore(server.address_of("z.zarr"), state=""), mode="r")
        assert array[0, 0] == 0.0

        def work() -> None:
            assert (array[10:30] == values[10:30]).all()

        in_child(work)


@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)", "raise SystemExit(0)", "pass"])
def test_a_child_that_ends_as_programs_do(server: inhaul.Server, tmp_path: Path, ending: str) -> None:
    program = f"""
import inhaul, os, sys
data_set = inhaul.Client(state="").open({server.address_of()!r})
data_set.read("a")
read = data_set.start([("d/e/two", None, None)])
pid = os.fork()
if pid == 0:
    data_set.read("d/one")
    {ending}
else:
    assert os.waitpid(pid, 0)[1] == 0
    read.result()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "panicked" not in done.stderr, done.stderr
