"""Reads of ranges compared with the files themselves; exceptions; threads, asyncio, forks and pickles."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import inhaul
from inhaul import errors

NAMES = ["a", "empty", "d/one", "d/e/two", "d/three"]
bound = st.one_of(st.none(), st.integers(-4_000_000, 4_000_000))
ranges = st.lists(st.tuples(st.sampled_from(NAMES), bound, bound), min_size=1, max_size=12)


@pytest.fixture(scope="session")
def data_set(client: inhaul.Client, server: inhaul.Server) -> inhaul.DataSet:
    return client.open(server.address_of())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ranges)
@example([("d/e/two", 1_179_648, 678), ("d/e/two", None, 274)])
def test_ranges_are_slices_of_the_files(data_set: inhaul.DataSet, tree: Path, wanted: list[tuple[str, int, int]]) -> None:
    for (name, start, end), data in zip(wanted, data_set.read_ranges(wanted), strict=True):
        assert data == (tree / name).read_bytes()[start:end]


def test_description(data_set: inhaul.DataSet, tree: Path) -> None:
    assert sorted(data_set) == sorted(NAMES)
    assert data_set.directories == ["d", "d/e"]
    file = data_set.files["d/one"]
    assert (file.size, file.mtime) == (5000, pytest.approx((tree / "d/one").stat().st_mtime))
    assert "#" not in data_set.source and "d/one" in data_set and "none" not in data_set


def test_long_ranges_take_their_memory_once(data_set: inhaul.DataSet, tree: Path) -> None:
    name, size = "d/e/two", 3_000_000
    data_set.read(name)
    tracemalloc.start()
    try:
        data = data_set.read(name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(data) is bytes and data == (tree / name).read_bytes() and hash(data) == hash(bytes(bytearray(data)))
    assert size <= peak < size + 500_000, peak


@pytest.mark.parametrize(
    "start", ['[("", None, None)]', '[("", None, None)], ahead=True', '[("", None, None)], [bytearray(40_000_000)]']
)
def test_program_ends_while_a_long_read_runs(tmp_path: Path, start: str) -> None:
    (tmp_path / "data").write_bytes(bytes(range(250)) * 160_000)
    program = f"""
import inhaul, sys, time
server = inhaul.Server({str(tmp_path / "data")!r}, public=True)
data_set = inhaul.Client(state="", rate="200M").open(server.address_of())
read = data_set.start{"_into" if "bytearray" in start else ""}({start})
while read.progress[0] == 0:
    time.sleep(0.005)
assert read.progress[0] < read.progress[1]
sys.exit(7)
"""
    # The package that is installed, not the sources beside the tests.
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 7, done.stderr


def test_buffers_are_filled_in_place(data_set: inhaul.DataSet, tree: Path) -> None:
    numpy = pytest.importorskip("numpy")
    whole = (tree / "d/e/two").read_bytes()
    array = numpy.zeros(3_000_000 // 8, dtype="f8")
    data_set.read_into(array, "d/e/two")
    assert array.tobytes() == whole
    pair = [bytearray(5), numpy.zeros((2, 50), dtype="u1")]
    data_set.start_into([("a", 0, 5), ("d/e/two", 100, 200)], pair).result()
    assert (bytes(pair[0]), pair[1].tobytes()) == ((tree / "a").read_bytes()[:5], whole[100:200])
    with pytest.raises(ValueError, match="buffer of 5 bytes"):
        data_set.read_into(bytearray(5), "d/e/two", 0, 6)
    with pytest.raises(ValueError, match="writable"):
        data_set.read_into(b"12345", "d/e/two", 0, 5)


def test_files_on_this_host(data_set: inhaul.DataSet, tree: Path, tmp_path: Path) -> None:
    data_set.read_to_file("d/e/two", 10, 1_500_000, tmp_path / "part", 3)
    assert (tmp_path / "part").read_bytes() == bytes(3) + (tree / "d/e/two").read_bytes()[10:1_500_000]


def test_errors_are_what_they_are_about(client: inhaul.Client, server: inhaul.Server, data_set: inhaul.DataSet) -> None:
    with pytest.raises(FileNotFoundError):
        data_set.read("none")
    with pytest.raises(FileNotFoundError) as missing:
        client.open(server.address_of("none"))
    assert isinstance(missing.value, errors.NotFound) and missing.value.code == "path-not-found"
    with pytest.raises(ConnectionError):
        inhaul.Client(state="", retry_for=0).open("inhaul://127.0.0.1:1/x")
    with pytest.raises(ValueError, match="no rate"):
        inhaul.Client(receive_rate="fast")
    with pytest.raises(ValueError):
        client.open("ftp://a/b")
    host = server.address
    with pytest.raises(PermissionError):
        client.open(f"inhaul://{host}/a")


def test_pins_are_the_only_truth(client: inhaul.Client, server: inhaul.Server, tree: Path) -> None:
    sums = client.checksums(server.address_of())
    pinned = client.open(server.address_of(), pins=sums)
    assert pinned.read("d/e/two", 5, 5000) == (tree / "d/e/two").read_bytes()[5:5000]
    with client.open(server.address_of(), pins={"d/e/two": sums["a"]}) as other:
        with pytest.raises(OSError, match="not what was pinned"):
            other.read("d/e/two", 0, 10)


def test_one_root_is_enough(client: inhaul.Client, server: inhaul.Server, tree: Path) -> None:
    sums = client.checksums(server.address_of())
    lines = [f"{sums[name]} {(tree / name).stat().st_size} {name}\n" for name in sorted(sums)]
    root = blake3("".join(lines).encode()).hexdigest()
    with client.open(server.address_of(), root=root) as known:
        assert pickle.loads(pickle.dumps(known)).read("d/one", 10, 20) == (tree / "d/one").read_bytes()[10:20]
    with pytest.raises(errors.IntegrityError, match=root[:8]):
        client.open(server.address_of("d"), root=root)
    with pytest.raises(ValueError, match="one of them"):
        client.open(server.address_of(), root=root, pins=sums)


def test_a_cache_is_asked_first(server: inhaul.Server, tree: Path, tmp_path: Path) -> None:
    for placed in (1_000_448, 0):
        client = inhaul.Client(state="", cache=tmp_path / "cache", cache_bytes=64 << 20)
        with client.open(server.address_of()) as data_set:
            assert data_set.read("d/e/two", 5, 1_000_005) == (tree / "d/e/two").read_bytes()[5:1_000_005]
            assert (data_set.stats["placed_bytes"], data_set.stats["cached_bytes"]) == (placed, 0 if placed else 1_000_000)
        # Read data is written when its client ends.
        del client, data_set
    with pytest.raises(ValueError, match="too small"):
        inhaul.Client(state="", cache=tmp_path / "other", cache_bytes=5)


def test_asyncio_reads_together_and_is_cancelled(data_set: inhaul.DataSet, tree: Path, client: inhaul.Client) -> None:
    whole = (tree / "d/e/two").read_bytes()

    async def run() -> None:
        starts = range(0, 2_000_000, 10_007)
        parts = await asyncio.gather(*(data_set.aread("d/e/two", start, start + 100) for start in starts))
        assert parts == [whole[start : start + 100] for start in starts]
        with inhaul.Server(tree, public=True, send_rate="1M") as slow:
            waiting = asyncio.ensure_future(client.open(slow.address_of()).aread("d/e/two"))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(run())


def test_threads_share_a_data_set(data_set: inhaul.DataSet, tree: Path) -> None:
    whole = (tree / "d/e/two").read_bytes()
    wrong: list[int] = []

    def read(seed: int) -> None:
        for k in range(40):
            start = (seed * 7919 + k * 104_729) % 2_900_000
            if data_set.read("d/e/two", start, start + 999) != whole[start : start + 999]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_pickles_open_anew(data_set: inhaul.DataSet, tree: Path) -> None:
    again = pickle.loads(pickle.dumps(data_set))
    assert again.read("a") == (tree / "a").read_bytes()


def _child(data_set: inhaul.DataSet, name: str, queue: multiprocessing.Queue[bytes]) -> None:
    queue.put(data_set.read(name))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(data_set: inhaul.DataSet, tree: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    queue: multiprocessing.Queue[bytes] = context.Queue()
    process = context.Process(target=_child, args=(data_set, "d/one", queue))
    process.start()
    assert queue.get(timeout=30) == (tree / "d/one").read_bytes()
    process.join(30)


def test_ctrl_c_ends_a_read(client: inhaul.Client, tree: Path) -> None:
    with inhaul.Server(tree, public=True, send_rate="1M") as slow:
        data_set = client.open(slow.address_of())
        # Who runs in the background may have been told to ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            data_set.read("d/e/two")
        signal.signal(signal.SIGINT, before)
        assert time.monotonic() - began < 3


def test_memory_of_many_reads_is_flat(data_set: inhaul.DataSet) -> None:
    def read(count: int) -> int:
        for k in range(count):
            data_set.read("d/e/two", k * 2000, k * 2000 + 200_000)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = read(300)
    after = read(1000)
    assert after - before < 8 << 10, f"{after - before} KiB more"


def test_transfers(client: inhaul.Client, server: inhaul.Server, tree: Path, tmp_path: Path) -> None:
    heard: list[tuple[int, int, float]] = []
    done = client.get(server.address_of("d"), tmp_path / "d", progress=lambda *now: heard.append(now))
    # A rate is bytes over the time that stands beside it, here as in JSON.
    assert done.fetched_bytes == done and done.resumed_bytes == 0 and 0 < done.seconds < 60
    assert abs(done.goodput_bps * done.seconds - 8 * done.fetched_bytes) < 1e-3
    rates = [source["goodput_bps"] for source in done.report["sources"]]
    assert abs(sum(rates) - done.goodput_bps) < 1 and done.report["jain_index"] is None
    again = pickle.loads(pickle.dumps(done))
    assert (again, again.report) == (done, done.report)
    assert done == 5000 + 3_000_000 + 1_048_577 and heard[-1][:2] == (done, done)
    assert (tmp_path / "d/e/two").read_bytes() == (tree / "d/e/two").read_bytes()
    assert {file.path for file in client.ls(server.address_of("d"))} == {"e", "one", "three"}


def test_a_policy_is_chosen_and_may_change(server: inhaul.Server, tree: Path, tmp_path: Path) -> None:
    for policy, rate in (("fair", None), ("low", None), ("high", None), ("fixed", "300M")):
        client = inhaul.Client(state="", policy=policy, receive_rate=rate)
        dial = inhaul.PolicyDial()
        target = tmp_path / policy
        client.get(server.address_of(), target, policy_dial=dial, progress=lambda *_: dial.set("high"))
        landed = next(target.rglob("two"))
        assert landed.read_bytes() == (tree / "d/e/two").read_bytes()
    with pytest.raises(ValueError, match="not 'rude'"):
        inhaul.Client(state="", policy="rude")
    with pytest.raises(inhaul.InhaulError, match="a receive rate must be given"):
        inhaul.Client(state="", policy="fixed").get(server.address_of(), tmp_path / "none")


def test_every_transfer_follows_its_dial(client: inhaul.Client, server: inhaul.Server, tmp_path: Path) -> None:
    dial = inhaul.PolicyDial()
    dial.set("low")
    got = [client.get(server.address_of("a"), tmp_path / name, policy_dial=dial) for name in ("one", "two")]
    assert [one.report["policy"] for one in got] == ["low", "low"]
    dial.set("fixed")
    vain = client.get(server.address_of("a"), tmp_path / "three", policy_dial=dial)
    assert vain.report["policy"] == "fair" and "no receive rate was given" in vain.report["warnings"][0]
    with pytest.raises(errors.UsageError, match="'policy' has two values, 'high' and 'low'"):
        inhaul.Client(policy="low", parameters={"policy": "high"})
