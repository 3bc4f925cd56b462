"""Sources that change while they are read, and descriptions that get old."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import inhaul
from inhaul.errors import IntegrityError

fsspec = pytest.importorskip("fsspec")


def system(server: inhaul.Server, **options: Any) -> Any:
    ticket = server.address_of().split("#")[1]
    return fsspec.filesystem("inhaul", ticket=ticket, state="", skip_instance_cache=True, **options)


def rewrite(path: Path, data: bytes) -> None:
    """Another version, with another time."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_bytes(data)
    os.utime(path, ns=(before + 2_000_000_000, before + 2_000_000_000))


@pytest.mark.parametrize("second", [b"second, longer", b"2nd", b"secon"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_file_that_was_rewritten_is_read_as_it_is_now(tmp_path: Path, second: bytes, is_whole: bool) -> None:
    path = tmp_path / "run" / "f"
    path.parent.mkdir()
    rewrite(path, b"first")
    with inhaul.Server(tmp_path, public=True) as server:
        fs, name = system(server), f"{server.address}/run/f"
        if is_whole:
            fs.find(f"{server.address}/run")
        readers = [
            lambda: fs.cat_file(name),
            lambda: fs.open(name).read(),
            lambda: fs.cat([name])[name],
            lambda: fs.cat_ranges([name], None, None)[0],
            lambda: fs.open(name, cache_type="readahead").read(),
        ]
        for number, read in enumerate(readers):
            assert read() == (b"first" if number % 2 == 0 else second)
            rewrite(path, second if number % 2 == 0 else b"first")
            assert read() == (second if number % 2 == 0 else b"first"), number
        path.unlink()
        # Its server has it open for some more seconds.
        fs.invalidate_cache(name)
        with pytest.raises(FileNotFoundError):
            fs.cat_file(name)


def test_an_open_file_is_of_one_version(tmp_path: Path) -> None:
    path = tmp_path / "f"
    rewrite(path, b"first" * 1000)
    with inhaul.Server(tmp_path, public=True) as server:
        fs, name = system(server), f"{server.address}/f"
        fresh, begun = fs.open(name), fs.open(name)
        assert begun.read(5) == b"first"
        rewrite(path, b"other" * 900)
        # A file without earlier reads is read in its present version.
        assert fresh.read() == b"other" * 900
        with pytest.raises(IntegrityError, match="changed"):
            begun.read(5)
        assert fs.cat_file(name, 0, 5) == b"other"
        ended = fs.open(name)
        ended.seek(-5, 2)
        rewrite(path, b"third" * 800)
        with pytest.raises(IntegrityError, match="changed"):
            ended.read()
        again = fs.open(name)
        again.seek(-5, 2)
        assert again.read() == b"third"


def test_ranges_of_a_changed_file_do_not_harm_the_others(tmp_path: Path) -> None:
    for name in "abc":
        rewrite(tmp_path / name, name.encode() * 10)
    with inhaul.Server(tmp_path, public=True) as server:
        fs = system(server)
        names = fs.find(server.address)
        assert fs.cat_ranges(names, 0, 3) == [b"aaa", b"bbb", b"ccc"]
        rewrite(tmp_path / "b", b"BBBBBBBB")
        assert fs.cat_ranges(names, 0, 3) == [b"aaa", b"BBB", b"ccc"]
        (tmp_path / "b").unlink()
        fs.invalidate_cache()
        one, none, other = fs.cat_ranges(names, 0, 3)
        assert (one, other) == (b"aaa", b"ccc") and isinstance(none, FileNotFoundError)


def test_listings_are_looked_up_anew_when_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    rewrite(run / "f", b"12345")
    with inhaul.Server(tmp_path, public=True) as server:
        top, name = f"{server.address}/run", f"{server.address}/run/f"

        def sizes(fs: Any, **options: Any) -> list[int]:
            return [one["size"] for one in fs.ls(top, **options)]

        fs = system(server)
        fs.find(top)
        rewrite(run / "f", b"1234567")
        assert sizes(fs) == [5], "an open file is described as it was"
        assert sizes(fs, refresh=True) == [7] and fs.info(name)["size"] == 7
        # Of a child, of itself, of a parent, of all; not of a name that only begins alike.
        for number, path in enumerate([name, top, server.address, None]):
            fs.find(top)
            fs.invalidate_cache(f"{server.address}/ru")
            (run / f"new{number}").write_bytes(b"")
            assert not fs.exists(f"{top}/new{number}")
            fs.invalidate_cache(path)
            assert fs.exists(f"{top}/new{number}"), path
        never = system(server, use_listings_cache=False)
        assert len(never.find(top)) == 5
        (run / "late").write_bytes(b"")
        assert len(never.find(top)) == len(never.ls(top)) == 6 and never.exists(f"{top}/late")
        now = [1000.0]
        monkeypatch.setattr("inhaul._sets.time.monotonic", lambda: now[0])
        expiring = system(server, listings_expiry_time=60)
        assert len(expiring.find(top)) == 6
        (run / "later").write_bytes(b"")
        now[0] += 59
        assert len(expiring.find(top)) == 6
        now[0] += 2
        assert len(expiring.find(top)) == 7


def test_a_data_set_is_refreshed(tmp_path: Path) -> None:
    rewrite(tmp_path / "f", b"first")
    with inhaul.Server(tmp_path, public=True) as server:
        with inhaul.Client(state="").open(server.address_of()) as data_set:
            assert data_set.read("f") == b"first" and data_set.children() == ([data_set.files["f"]], [])
            rewrite(tmp_path / "f", b"second")
            (tmp_path / "d").mkdir()
            with pytest.raises(IntegrityError):
                data_set.read("f")
            data_set.refresh()
            assert data_set.read("f") == b"second" and data_set.is_directory("d") and not data_set.is_directory("f")


def test_workers_fetch_what_is_there_now(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import inhaul.dask

    run = tmp_path / "run"
    run.mkdir()
    with inhaul.Server(tmp_path, public=True) as server:
        with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                for number, data in enumerate([b"first", b"second, longer", b"2nd"]):
                    rewrite(run / "f", data)
                    target = tmp_path / str(number)
                    inhaul.dask.fetch(server.address_of("run"), str(target), client=client, state="")
                    assert (target / "f").read_bytes() == data
                # One file, whose name is taken meanwhile by somebody else.
                (tmp_path / "taken").write_bytes(b"mine")
                with pytest.raises(FileExistsError):
                    inhaul.dask.fetch(server.address_of("run/f"), str(tmp_path / "taken"), client=client, state="")
                (tmp_path / "partial").write_bytes(b"new")
                with pytest.raises(FileExistsError):
                    inhaul.dask._name(str(tmp_path / "partial"), str(tmp_path / "taken"))
                assert (tmp_path / "taken").read_bytes() == b"mine"
