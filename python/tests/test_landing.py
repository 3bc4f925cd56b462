"""Files of a file system that come to this host: each lands whole, under its own name, and no other name is touched."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import inhaul
from conftest import content

fsspec = pytest.importorskip("fsspec")
callbacks = pytest.importorskip("fsspec.callbacks")

BIG = 6 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    (root / "a").write_bytes(content(BIG, 1))
    (root / "a.partial").write_bytes(b"small")
    (root / "a.inhaul").write_bytes(b"a name that a journal might have")
    return root


def system(server: inhaul.Server, **options: Any) -> Any:
    ticket = server.address_of().split("#")[1]
    return fsspec.filesystem("inhaul", ticket=ticket, state="", skip_instance_cache=True, **options)


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_name_and_the_name_of_its_partial_file(source: Path, tmp_path: Path) -> None:
    with inhaul.Server(source, public=True) as server:
        system(server).get(server.address, str(tmp_path / "tree"), recursive=True)
        assert files(tmp_path / "tree") == files(source)
        # One by one, at once.
        fs, one_by_one = system(server), tmp_path / "ones"
        names = [f"{server.address}/{name}" for name in files(source)]
        fs.get(names, [str(one_by_one / name.rpartition("/")[2]) for name in names])
        assert files(one_by_one) == files(source)


def test_no_other_name_is_touched(source: Path, tmp_path: Path) -> None:
    with inhaul.Server(source, public=True) as server:
        fs = system(server)
        mine = {"a.partial": b"mine", "a.inhaul": b"mine, too", "a": b"old", "other": b"unrelated"}
        for get in (
            lambda: fs.get_file(f"{server.address}/a", str(tmp_path / "home" / "a")),
            lambda: fs.get(f"{server.address}/a", str(tmp_path / "home" / "a")),
            lambda: (fs.find(server.address), fs.get([f"{server.address}/a"], [str(tmp_path / "home" / "a")])),
        ):
            home = tmp_path / "home"
            home.mkdir()
            for name, data in mine.items():
                (home / name).write_bytes(data)
            get()
            assert files(home) == {**mine, "a": (source / "a").read_bytes()}
            for path in home.iterdir():
                path.unlink()
            home.rmdir()


def test_the_same_name_twice_at_once(source: Path, tmp_path: Path) -> None:
    (source / "b").write_bytes(content(BIG, 2))
    with inhaul.Server(source, public=True, send_rate="400M") as server:
        fs, target = system(server), tmp_path / "target"
        failed: list[BaseException] = []

        def get(name: str) -> None:
            try:
                fs.get_file(f"{server.address}/{name}", str(target))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=get, args=(name,)) for name in "aabbab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failed, failed
        assert target.read_bytes() in ((source / "a").read_bytes(), (source / "b").read_bytes())
        assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_processes_that_get_the_same_do_not_disturb_each_other(source: Path, tmp_path: Path) -> None:
    with inhaul.Server(source, public=True, send_rate="200M") as server:
        program = (
            "import fsspec, sys; fsspec.filesystem('inhaul', ticket=sys.argv[2], state='').get_file(sys.argv[1], sys.argv[3])"
        )
        arguments = [f"{server.address}/a", server.address_of().split("#")[1], str(tmp_path / "target")]
        running = [
            subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for one in running:
            try:
                _, said = one.communicate(timeout=60)
                assert one.returncode == 0, said
            finally:
                one.kill()
        assert (tmp_path / "target").read_bytes() == (source / "a").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_what_was_there_stays_until_all_has_come_and_the_same_call_goes_on(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")
    with inhaul.Server(source, public=True, send_rate="8M") as server:
        program = """
import fsspec, sys
from fsspec.callbacks import Callback
class Told(Callback):
    def call(self, *_, **__):
        if self.value > 2 << 20:
            print("some of it is here", flush=True)
fs = fsspec.filesystem("inhaul", ticket=sys.argv[2], state="")
fs.get_file(sys.argv[1], sys.argv[3], callback=Told())
"""
        arguments = [f"{server.address}/a", server.address_of().split("#")[1], str(target)]
        command = [sys.executable, "-c", program, *arguments]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout is not None and killed.stdout.readline() == "some of it is here\n"
            killed.send_signal(signal.SIGKILL)
        assert target.read_bytes() == b"old"
        before = {path.name for path in tmp_path.glob(".inhaul-get-*")}
        assert len(before) == 1
    with inhaul.Server(source, public=True, listen=server_address(arguments[0])) as again:
        assert again.address == server_address(arguments[0])
        assert {path.name for path in tmp_path.glob(".inhaul-get-*")} == before
        fs = system(again)
        fs.get_file(f"{again.address}/a", str(target))
        assert target.read_bytes() == (source / "a").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def server_address(name: str) -> str:
    return name.partition("/")[0]


def test_callbacks_hear_of_files_and_bytes(source: Path, tmp_path: Path) -> None:
    class Heard(callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.values: list[tuple[int, int]] = []

        def call(self, hook_name: Any = None, **_: Any) -> None:
            self.values.append((self.value, self.size or 0))

    with inhaul.Server(source, public=True, send_rate="60M") as server:
        fs, heard, of_tree = system(server), Heard(), Heard()
        fs.get_file(f"{server.address}/a", str(tmp_path / "a"), callback=heard)
        assert heard.values[-1] == (BIG, BIG) and heard.values == sorted(heard.values)
        assert any(0 < value < BIG for value, _ in heard.values), "while it comes, too"
        fs.get(server.address, str(tmp_path / "tree"), recursive=True, callback=of_tree)
        assert of_tree.values[-1][0] == of_tree.values[-1][1] >= 3


def test_directories_that_may_not_be_written_to(source: Path, tmp_path: Path) -> None:
    (source / "shut").mkdir()
    (source / "shut" / "f").write_bytes(b"f")
    (source / "shut").chmod(0o555)
    (source / "void").mkdir()
    try:
        with inhaul.Server(source, public=True) as server:
            system(server).get(server.address, str(tmp_path / "tree"), recursive=True)
        assert files(tmp_path / "tree") == files(source) and (tmp_path / "tree" / "void").is_dir()
    finally:
        (source / "shut").chmod(0o755)


def test_what_cannot_land_says_so_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "a").mkdir(parents=True)
    with inhaul.Server(source, public=True) as server:
        fs = system(server)
        with pytest.raises(IsADirectoryError):
            fs.get_file(f"{server.address}/a", str(home / "a"))
        with pytest.raises(FileNotFoundError):
            fs.get_file(f"{server.address}/none", str(home / "none"))
        os.mkfifo(home / "pipe")
        for get in (fs.get_file, fs.get):
            with pytest.raises(inhaul.errors.DestinationError, match="pipe"):
                get(f"{server.address}/a", str(home / "pipe"))
            fs.find(server.address)
        assert sorted(os.listdir(home)) == ["a", "pipe"]


def test_places_that_are_named_one_by_one_may_be_anywhere(source: Path, tmp_path: Path) -> None:
    with inhaul.Server(source, public=True) as server:
        fs = system(server)
        names = fs.find(server.address)
        homes = [tmp_path / "x" / "y", tmp_path / "z", tmp_path / "x"]
        for home in homes:
            home.mkdir(exist_ok=True, parents=True)
        # Nothing is made above them.
        tmp_path.chmod(0o555)
        try:
            fs.get(names, [str(home / "f") for home in homes])
        finally:
            tmp_path.chmod(0o755)
        assert [(home / "f").read_bytes() for home in homes] == [fs.cat_file(name) for name in names]
        assert sorted(os.listdir(tmp_path / "x")) == ["f", "y"]


def test_a_cancelled_get_ends(source: Path, tmp_path: Path) -> None:
    async def run() -> None:
        some = asyncio.Event()

        class Told(callbacks.Callback):  # type: ignore[misc]
            def call(self, hook_name: Any = None, **_: Any) -> None:
                if self.value > 0:
                    some.set()

        with inhaul.Server(source, public=True, send_rate="8M") as server:
            fs = system(server, asynchronous=True)
            get = fs._get_file(f"{server.address}/a", str(tmp_path / "a"), callback=Told())
            running = asyncio.ensure_future(get)
            await some.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert not (tmp_path / "a").exists()

    asyncio.run(run())
