"""Reads remote data from Python as its users do, and prints the duration of each reading and the network's bytes
meanwhile. Run in a host of
an emulated network: `python3 reader.py CONTESTANT ADDRESS TICKET WORKLOAD ...` prints a JSON line for each. Each workload is done twice by one
process: cold, and warm. As it runs there, it needs nothing of the rig."""

import hashlib
import json
import os
import random
import sys
import time
import warnings

warnings.simplefilter("ignore")

SMALL_RANGES, FEW_RANGES, SMALL_BYTES, ONE_BY_ONE = 1000, 100, 4096, 30
SLICE = (slice(1000, 1100), slice(2000, 2400))
# Bytes in the files that a workload cannot do without: its chunks as they are stored.
WANTED = {}


def main():
    contestant, address, ticket, wanted, *workloads = sys.argv[1:]
    WANTED.update(json.loads(wanted))
    reader = CONTESTANTS[contestant](address, ticket)
    for name in workloads:
        for state in ("cold", "warm"):
            before, began = arrived(), time.monotonic()
            try:
                content, wanted, *more = WORKLOADS[name](reader, state)
            except Exception as error:  # noqa: BLE001: any exception is this contestant's result
                print(json.dumps({"workload": name, "state": state, "error": f"{type(error).__name__}: {error}"[:300]}), flush=True)
                continue
            seconds, came = time.monotonic() - began, since(before)
            row = {"workload": name, "state": state, "seconds": seconds, "wanted_bytes": wanted, "digest": digest(content), **came, **reader.told(), **(more[0] if more else {})}
            print(json.dumps(row), flush=True)


def arrived():
    """Bytes and packets that this host's device has received."""
    for line in open("/proc/net/dev", encoding="utf-8"):
        name, _, fields = line.partition(":")
        if name.strip() not in ("lo", "") and fields:
            numbers = fields.split()
            return int(numbers[0]), int(numbers[1])
    return 0, 0


def since(before):
    now = arrived()
    return {"arrived_bytes": now[0] - before[0], "arrived_packets": now[1] - before[1]}


class Reader:
    """A file system of fsspec, and names in it."""

    def __init__(self, fs, root):
        self.fs, self.root = fs, root

    def name(self, path):
        return f"{self.root}/{path}"

    def zarr(self, path):
        from zarr.storage import FsspecStore

        return FsspecStore(self.fs, path=self.name(path), read_only=True)

    def told(self):
        return {}


class Inhaul(Reader):
    def __init__(self, address, ticket):
        import fsspec

        fs = fsspec.filesystem("inhaul", ticket=ticket, state="", asynchronous=False)
        super().__init__(fs, address)
        self.address, self.ticket, self.stores = address, ticket, {}

    def zarr(self, path):
        from inhaul.zarr import InhaulStore

        if path not in self.stores:
            self.stores[path] = InhaulStore(f"inhaul://{self.address}/{path}#{self.ticket}", client=self.fs._client)
        return self.stores[path]

    def told(self):
        told = self.fs.statistics()
        for store in self.stores.values():
            stats = store.data_set.stats
            told["bytes"] += stats["placed_bytes"]
            told["requests"] += stats["proof_requests"]
        return {"content_bytes_so_far": told["bytes"], "requests_so_far": told["requests"]}


class Https(Reader):
    def __init__(self, address, ca):
        import ssl

        import aiohttp
        import fsspec

        async def client(**options):
            context = ssl.create_default_context(cafile=ca)
            return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=100), **options)

        super().__init__(fsspec.filesystem("https", get_client=client), f"https://{address}")

    def zarr(self, path):
        from zarr.storage import FsspecStore

        import fsspec

        return FsspecStore(fsspec.filesystem("https", asynchronous=True, **self.fs.storage_options), path=self.name(path), read_only=True)


class S3(Reader):
    def __init__(self, address, _):
        import s3fs

        options = {"key": "a", "secret": "b", "client_kwargs": {"endpoint_url": f"http://{address}", "region_name": "us-east-1"}}
        super().__init__(s3fs.S3FileSystem(**options), "bench")
        self.options = options

    def zarr(self, path):
        import s3fs
        from zarr.storage import FsspecStore

        return FsspecStore(s3fs.S3FileSystem(asynchronous=True, **self.options), path=self.name(path), read_only=True)


class Sftp(Reader):
    def __init__(self, address, key_and_root):
        import fsspec

        key, root = key_and_root.split(":")
        host, port = address.rsplit(":", 1)
        super().__init__(fsspec.filesystem("sftp", host=host, port=int(port), username="root", key_filename=key), root)

    def zarr(self, path):
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
        from zarr.storage import FsspecStore

        return FsspecStore(AsyncFileSystemWrapper(self.fs, asynchronous=True), path=self.name(path), read_only=True)


def places(reader, state, count):
    size = reader.fs.info(reader.name("medium.bin"))["size"]
    chosen = random.Random(state)
    return [chosen.randrange(size - SMALL_BYTES) for _ in range(count)]


def small(reader, state, count=SMALL_RANGES):
    """Many small ranges of a file, asked for together."""
    starts = places(reader, state, count)
    parts = reader.fs.cat_ranges([reader.name("medium.bin")] * len(starts), starts, [start + SMALL_BYTES for start in starts], on_error="raise")
    return b"".join(parts), len(starts) * SMALL_BYTES


def few(reader, state):
    """The same, a tenth as many: for file systems that ask for one after the other."""
    return small(reader, state, FEW_RANGES)


def one_by_one(reader, state):
    """Small ranges of a file, one after the other."""
    starts = places(reader, state, ONE_BY_ONE)
    parts = [reader.fs.cat_file(reader.name("medium.bin"), start=start, end=start + SMALL_BYTES) for start in starts]
    return b"".join(parts), len(starts) * SMALL_BYTES


def column(reader, _state):
    """A column of a parquet file, by pandas and pyarrow."""
    import pandas

    options = {"filesystem": reader.fs}
    frame = pandas.read_parquet(reader.name("table.parquet"), columns=["c3"], **options)
    return frame["c3"].to_numpy().tobytes(), WANTED["column"]


def zarr(reader, _state):
    """A part of a sharded zarr array, by xarray: inner chunks of 9 kB across shards."""
    import xarray

    data = xarray.open_zarr(reader.zarr("field.zarr"), consolidated=False, chunks=None)["t"]
    part = data[SLICE].values
    return part.tobytes(), WANTED["zarr"]


def h5(reader, _state):
    """A part of an HDF5 data set, by h5py; beside its chunks as little as the file system's own cache reads."""
    import h5py

    with reader.fs.open(reader.name("field.h5"), "rb") as remote, h5py.File(remote, "r") as file:
        part = file["t"][SLICE]
    return part.tobytes(), WANTED["h5"]


def large(reader, _state):
    """A file, whole."""
    data = reader.fs.cat_file(reader.name("large.bin"))
    return data, len(data)


def dask(reader, _state):
    """The mean of a large zarr array, by dask's threads."""
    import dask.array

    array = dask.array.from_zarr(reader.zarr("big.zarr"))
    with __import__("dask").config.set(scheduler="threads", num_workers=16):
        return f"{float(array.astype('f8').mean().compute()):.12e}".encode(), array.nbytes


def scattered(reader, _state):
    """10,000 small ranges of a sparse file of 100 GB, 32 at a time: how long each takes."""
    import asyncio

    import numpy

    places = numpy.random.default_rng(8).choice(100_000_000_000 // 4096, 10_000, replace=False)
    data_set, took = reader.fs._client.open(f"inhaul://{reader.address}/sparse.bin#{reader.ticket}"), []

    async def read(places):
        for place in places:
            began = time.monotonic()
            data = await data_set.aread("", int(place) * 4096, int(place) * 4096 + 4096)
            took.append(time.monotonic() - began)
            if len(data) != 4096 or not any(data):
                raise ValueError("a range came without its bytes")

    async def all_of():
        await asyncio.gather(*(read(places[k::32]) for k in range(32)))

    asyncio.run(all_of())
    took.sort()
    stats = data_set.stats
    told = {"p50_ms": took[len(took) // 2] * 1e3, "p99_ms": took[len(took) * 99 // 100] * 1e3, "requests": stats["proof_requests"]}
    told |= {"content_bytes": stats["placed_bytes"], "proof_bytes": stats["proof_bytes"]}
    return b"", len(places) * 4096, told


def digest(data):
    """Hash of the read data; not part of the measured time."""
    return hashlib.sha256(data).hexdigest()[:16]


WORKLOADS = {"small": small, "few": few, "one by one": one_by_one, "column": column, "zarr": zarr, "h5": h5, "large": large, "dask": dask, "random": scattered}
CONTESTANTS = {"inhaul": Inhaul, "https": Https, "s3": S3, "sftp": Sftp}

if __name__ == "__main__":
    os.environ.setdefault("no_proxy", "*")
    main()
