"""``inhaul://`` in fsspec, and libraries on top of it."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inhaul

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def fs(server: inhaul.Server) -> Iterator[Any]:
    ticket = server.address_of().split("#")[1]
    made = fsspec.filesystem("inhaul", ticket=ticket, state="")
    yield made
    made.invalidate_cache()


@pytest.fixture
def root(server: inhaul.Server) -> str:
    return server.address


def test_names_and_listings(fs: Any, root: str, server: inhaul.Server) -> None:
    assert fs._strip_protocol(f"inhaul://{root}/d/") == f"{root}/d"
    assert sorted(fs.ls(root, detail=False)) == [f"{root}/a", f"{root}/d", f"{root}/empty"]
    assert fs.info(f"inhaul://{root}/d/one")["size"] == 5000
    assert fs.isdir(f"{root}/d") and fs.isfile(f"{root}/d/one") and not fs.exists(f"{root}/none")
    assert sorted(fs.find(f"{root}/d")) == [f"{root}/d/{name}" for name in ("e/two", "one", "three")]
    assert fs.glob(f"{root}/d/*e") == [f"{root}/d/e", f"{root}/d/one", f"{root}/d/three"]
    assert fs.modified(f"{root}/a").timestamp() > 1e9
    opened = fsspec.open(server.address_of("a"), state="")
    with opened as file:
        assert len(file.read()) == 10


def test_bytes(fs: Any, root: str, tree: Path) -> None:
    two = (tree / "d/e/two").read_bytes()
    name = f"inhaul://{root}/d/e/two"
    for start, end in [(None, None), (5, 10), (-10, None), (None, -5), (-10, -5), (7, None), (10, 5), (0, 9_999_999)]:
        assert fs.cat_file(name, start, end) == two[start:end], (start, end)
    starts, ends = list(range(0, 2_000_000, 40_000)), [start + 4096 for start in range(0, 2_000_000, 40_000)]
    before = fs.statistics()
    parts = fs.cat_ranges([name] * len(starts), starts, ends, max_gap=1 << 20)
    assert parts == [two[a:b] for a, b in zip(starts, ends, strict=True)]
    after = fs.statistics()
    assert after["requests"] - before["requests"] == 1
    assert after["bytes"] - before["bytes"] <= len(starts) * (4096 + 2048)
    mixed = fs.cat_ranges([name, f"{root}/none", f"{root}/a"], 0, 5)
    assert (mixed[0], mixed[2]) == (two[:5], (tree / "a").read_bytes()[:5]) and isinstance(mixed[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{root}/none"], 0, 5, on_error="raise")
    with fs.open(name) as file:
        file.seek(-100, 2)
        assert file.read() == two[-100:]


def test_files_and_caches(fs: Any, root: str, tree: Path, tmp_path: Path, server: inhaul.Server) -> None:
    fs.get(f"{root}/d", str(tmp_path / "d"), recursive=True)
    assert (tmp_path / "d/e/two").read_bytes() == (tree / "d/e/two").read_bytes()
    url = f"simplecache::{server.address_of('d/one')}"
    with fsspec.open(url, inhaul={"state": ""}, simplecache={"cache_storage": str(tmp_path / "cache")}) as file:
        assert file.read() == (tree / "d/one").read_bytes()


def test_asynchronous_and_pickled(fs: Any, root: str, tree: Path) -> None:
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(f"{root}/a") == (tree / "a").read_bytes()
    options = dict(fs.storage_options)

    async def run() -> bytes:
        made = fsspec.filesystem("inhaul", asynchronous=True, **options)
        data: bytes = await made._cat_file(f"{root}/a")
        return data

    assert asyncio.run(run()) == (tree / "a").read_bytes()


def test_parquet_reads_one_column(fs: Any, tmp_path: Path) -> None:
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    dataset = pytest.importorskip("pyarrow.dataset")
    values = numpy.random.default_rng(1).random((200_000, 5))
    frame = pandas.DataFrame(values, columns=list("abcde"))
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=50_000)
    with inhaul.Server(tmp_path, public=True) as server:
        ticket = server.address_of().split("#")[1]
        made = fsspec.filesystem("inhaul", ticket=ticket, state="", skip_instance_cache=True)
        name = f"{server.address}/t.parquet"
        read = pandas.read_parquet(f"inhaul://{name}", columns=["c"], filesystem=made)
        assert (read["c"] == frame["c"]).all()
        whole = (tmp_path / "t.parquet").stat().st_size
        assert made.statistics()["bytes"] < whole / 5 * 1.15
        table = dataset.dataset(name, filesystem=made).to_table(columns=["a"])
        assert table.column("a").to_numpy().tolist() == frame["a"].tolist()


def test_h5py(tmp_path: Path) -> None:
    h5py, numpy = pytest.importorskip("h5py"), pytest.importorskip("numpy")
    values = numpy.arange(500_000, dtype="f8").reshape(500, 1000)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(50, 100))
    with inhaul.Server(tmp_path, public=True) as server:
        with fsspec.open(server.address_of("f.h5"), state="") as remote, h5py.File(remote, "r") as file:
            assert (file["x"][100:120, 5:900] == values[100:120, 5:900]).all()


def test_zarr_store_and_xarray(tmp_path: Path) -> None:
    zarr, xarray, numpy = (pytest.importorskip(name) for name in ("zarr", "xarray", "numpy"))
    from inhaul.zarr import InhaulStore

    values = numpy.random.default_rng(2).random((400, 600))
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_array("s", data=values, chunks=(10, 30), shards=(200, 300), compressors=None)
    xarray.Dataset({"t": (("y", "x"), values)}).to_zarr(str(tmp_path / "x.zarr"), zarr_format=3)
    with inhaul.Server(tmp_path, public=True) as server:
        store = InhaulStore(server.address_of("g.zarr"), state="")
        remote = zarr.open_group(store, mode="r")["s"]
        before = store.data_set.stats["placed_bytes"]
        assert (remote[0:10, 0:120] == values[0:10, 0:120]).all()
        wanted = 4 * 10 * 30 * 8
        # The index of the shard comes too, and whole chunks of 1 KiB.
        assert store.data_set.stats["placed_bytes"] - before <= wanted + 4 * 2048 + 20 * 20 * 16 + 2048 + 4
        assert (remote[:] == values).all()
        assert pickle.loads(pickle.dumps(store)) == store
        by_url = xarray.open_zarr(
            f"inhaul://{server.address}/x.zarr",
            storage_options={"ticket": server.address_of().split("#")[1], "state": ""},
            consolidated=False,
        )
        assert (by_url["t"].values == values).all()
        ours = xarray.open_zarr(InhaulStore(server.address_of("x.zarr"), state=""), consolidated=False)
        assert (ours["t"][5:9, 7:11].values == values[5:9, 7:11]).all()
