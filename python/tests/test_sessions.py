"""Limits of one process, or many, at a server; several event loops; ends of waits."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inhaul
from inhaul import _sets

fsspec = pytest.importorskip("fsspec")

FILES = 400
PROCESSES = 6


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, inhaul.Server]]:
    """A number of files in one directory, and as many that each have their own directory."""
    root = tmp_path_factory.mktemp("many")
    (root / "flat").mkdir()
    for index in range(FILES):
        (root / "flat" / f"f{index}").write_bytes(f"flat {index}".encode())
        (root / "deep" / f"d{index}").mkdir(parents=True)
        (root / "deep" / f"d{index}" / "f").write_bytes(f"deep {index}".encode())
    with inhaul.Server(root, public=True) as server:
        yield root, server


def system(server: inhaul.Server, **options: Any) -> Any:
    ticket = server.address_of().split("#")[1]
    return fsspec.filesystem("inhaul", ticket=ticket, state="", skip_instance_cache=True, **options)


def open_at(server: inhaul.Server) -> int:
    return _sets._here().open.get(server.address, 0)


READER = """
import sys, fsspec
host, ticket, count, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
fs = fsspec.filesystem("inhaul", ticket=ticket, state="")
names = [f"{host}/flat/f{k}" if kind == "flat" else f"{host}/deep/d{k}/f" for k in range(count)]
files = [fs.open(name) for name in names] if kind == "flat" else []
got = [one.read() for one in files] if files else list(fs.cat(names, batch_size=count).values())
want = {f"{kind} {k}".encode() for k in range(count)}
assert set(got) == want and len(got) == count, len(got)
print("all")
"""


@pytest.mark.parametrize("kind", ["flat", "deep"])
def test_six_processes_read_400_files_each_at_once(many: tuple[Path, inhaul.Server], tmp_path: Path, kind: str) -> None:
    _, server = many
    ticket = server.address_of().split("#")[1]
    command = [sys.executable, "-c", READER, server.address, ticket, str(FILES), kind]
    running = [
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for one in running:
            out, err = one.communicate(timeout=120)
            assert (out.strip(), one.returncode) == ("all", 0), err[-2000:]
    finally:
        for one in running:
            one.kill()
            one.wait()


def test_files_of_one_directory_share_a_session(many: tuple[Path, inhaul.Server]) -> None:
    _, server = many
    gc.collect()
    fs, before = system(server), open_at(server)
    names = [f"{server.address}/flat/f{index}" for index in range(FILES)]
    assert fs.cat(names, batch_size=FILES) == {name: f"flat {k}".encode() for k, name in enumerate(names)}
    assert open_at(server) - before <= 2 and f"{server.address}/flat" in fs._sets._sets
    # Files made since are there as well.
    new = many[0] / "flat" / "new"
    new.write_bytes(b"new")
    try:
        assert fs.cat_file(f"{server.address}/flat/new") == b"new"
        with pytest.raises(FileNotFoundError):
            fs.cat_file(f"{server.address}/flat/none")
    finally:
        new.unlink()
    fs.invalidate_cache()
    assert open_at(server) == before


def test_what_is_in_use_is_not_closed(many: tuple[Path, inhaul.Server], monkeypatch: pytest.MonkeyPatch) -> None:
    _, server = many
    # Each file by itself.
    monkeypatch.setattr(_sets, "_COVER_FROM", 1000)
    fs = system(server, max_paths=1)
    most = [0]

    async def slow(index: int) -> bytes:
        async with fs._sets.using(f"{server.address}/deep/d{index}/f") as found:
            most[0] = max(most[0], open_at(server))
            for _ in range(3):
                await asyncio.sleep(0)
                data: bytes = await found.data_set.aread()
                assert data == f"deep {index}".encode()
        return data

    async def run() -> None:
        await asyncio.gather(*(slow(index) for index in range(100)))

    asyncio.run(run())
    assert 4 < most[0] <= _sets._OPEN_MAX
    assert len(fs._sets._sets) <= 1, "max_paths: unused ones are closed"


def test_a_file_system_that_is_gone_leaves_no_place_taken(many: tuple[Path, inhaul.Server]) -> None:
    _, server = many
    gc.collect()
    before = open_at(server)
    fs = system(server)
    fs.cat_file(f"{server.address}/deep/d1/f")
    assert open_at(server) == before + 1
    del fs
    # fsspec's file systems have themselves.
    gc.collect()
    assert open_at(server) == before


def test_several_event_loops_share_a_file_system(many: tuple[Path, inhaul.Server]) -> None:
    _, server = many
    fs = system(server, asynchronous=True)
    names = [f"{server.address}/deep/d{index}/f" for index in range(40)]
    wrong: list[object] = []

    async def read() -> None:
        got = await asyncio.gather(*(fs._cat_file(name) for name in names))
        if got != [f"deep {index}".encode() for index in range(40)]:
            wrong.append(got)

    def run() -> None:
        try:
            asyncio.run(read())
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong, wrong[0]


def test_a_cancelled_opener_does_not_cancel_the_others(many: tuple[Path, inhaul.Server]) -> None:
    _, server = many
    fs = system(server, asynchronous=True)
    name = f"{server.address}/deep/d7/f"

    async def run() -> None:
        first = asyncio.ensure_future(fs._cat_file(name))
        others = [asyncio.ensure_future(fs._cat_file(name)) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*others) == [b"deep 7"] * 5
        assert first.cancelled()
        # All of them, and it is there for the next.
        late = [asyncio.ensure_future(fs._cat_file(f"{server.address}/deep/d8/f")) for _ in range(3)]
        await asyncio.sleep(0)
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        assert await fs._cat_file(f"{server.address}/deep/d8/f") == b"deep 8"
        assert all(not one.users for one in fs._sets._sets.values())

    asyncio.run(run())


WAITER = """
import signal, sys, inhaul
signal.signal(signal.SIGINT, signal.default_int_handler)
client = inhaul.Client(state="", accept_new=True)
print("ready", flush=True)
try:
    CALL
except KeyboardInterrupt:
    print("heard", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "client.open(sys.argv[1])",
        "client.ls(sys.argv[1])",
        "client.checksums(sys.argv[1])",
        "client.get(sys.argv[1], sys.argv[2])",
        "client.put(sys.executable, sys.argv[1])",
        "__import__('fsspec').filesystem('inhaul', state='').cat_file(sys.argv[1])",
    ],
)
def test_ctrl_c_is_heard_while_a_host_does_not_answer(tmp_path: Path, call: str) -> None:
    # It takes connections, and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = f"inhaul://127.0.0.1:{silent.getsockname()[1]}/x"
        program = [sys.executable, "-c", WAITER.replace("CALL", call), source, str(tmp_path / "there")]
        with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            try:
                assert waiting.stdout.readline() == "ready\n"
                # It waits from its first connection on.
                silent.accept()[0].detach()
                began = time.monotonic()
                waiting.send_signal(signal.SIGINT)
                assert waiting.stdout.readline() == "heard\n"
                assert waiting.wait(30) == 0
                assert time.monotonic() - began < 3, "well before the host is given up, after half a minute"
            finally:
                waiting.kill()


def test_noise_from_a_server_is_an_exception() -> None:
    def speak(server: socket.socket) -> None:
        while True:
            try:
                with server.accept()[0] as one:
                    one.recv(1000)
                    one.sendall(os.urandom(20_000))
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as noisy:
        threading.Thread(target=speak, args=(noisy,), daemon=True).start()
        client = inhaul.Client(state="", accept_new=True, retry_for=0)
        for _ in range(3):
            with pytest.raises(inhaul.InhaulError):
                client.open(f"inhaul://127.0.0.1:{noisy.getsockname()[1]}/x")
        noisy.shutdown(socket.SHUT_RDWR)
