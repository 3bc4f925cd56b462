"""``inhaul://`` for fsspec: pandas, pyarrow, xarray, dask, polars and all others that take its file systems.

>>> import pandas
>>> pandas.read_parquet("inhaul://dtn1,dtn2/table.parquet", columns=["energy"])        # doctest: +SKIP

A URL is that of the command line: ``inhaul://HOST[:PORT][,MIRROR...]/PATH``. Storage options are the arguments of
:class:`inhaul.Client`, and ``ticket``: what stands behind the ``#`` of an address. Options travel in pickles: rather
have tickets' tokens in the known state of each host, or in the environment variable ``INHAUL_TICKET``.

A directory is opened as a whole, once: its list of files is here from then on, and what is missing is known without
asking. Nothing is read ahead: what is read is what comes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile

from . import Client, DataSet, File
from .errors import NotFound

__all__ = ["InhaulFile", "InhaulFileSystem"]

_OPEN_MAX = 64
"""Data sets that stay open; the one that was used longest ago is closed."""
_STORES = (".zarr", ".n5", ".zarr2", ".zarr3")
_STORE_KEYS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"})


class InhaulFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """See the module's description."""

    protocol = "inhaul"
    root_marker = ""

    def __init__(
        self,
        ticket: str | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        skip_instance_cache: bool = False,
        use_listings_cache: bool = True,
        listings_expiry_time: float | None = None,
        max_paths: int | None = None,
        **client: Any,
    ) -> None:
        super().__init__(asynchronous=asynchronous, loop=loop)
        self.ticket = ticket
        self.client_options = client
        self._client = Client(**client)
        self._sets: OrderedDict[str, DataSet] = OrderedDict()
        self._opening: dict[str, asyncio.Future[DataSet]] = {}
        self._set_lock = threading.Lock()

    # --- Names ---------------------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        if text.startswith("inhaul://"):
            text = text[len("inhaul://") :]
        # A ticket is no part of a name: see _get_kwargs_from_urls.
        return text.split("#", 1)[0].rstrip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: Any) -> dict[str, Any]:
        text = path[0] if isinstance(path, list) and path else path
        if isinstance(text, str) and text.startswith("inhaul://") and "#" in text:
            return {"ticket": text.split("#", 1)[1]}
        return {}

    @classmethod
    def _parent(cls, path: Any) -> str:
        text: str = cls._strip_protocol(path)
        return text.rsplit("/", 1)[0] if "/" in text else text

    def _address(self, name: str) -> str:
        host, _, path = name.partition("/")
        ticket = self.ticket or os.environ.get("INHAUL_TICKET")
        quoted = path.replace("%", "%25").replace("#", "%23")
        return f"inhaul://{host}/{quoted}" + (f"#{ticket}" if ticket else "")

    # --- Data sets -----------------------------------------------------------------------------------------------

    def _covering(self, name: str) -> tuple[DataSet, str] | None:
        """The open data set that a name lies in, and the path in it."""
        with self._set_lock:
            prefix = name
            while True:
                found = self._sets.get(prefix)
                if found is not None:
                    self._sets.move_to_end(prefix)
                    return found, name[len(prefix) :].lstrip("/")
                if "/" not in prefix:
                    return None
                prefix = prefix.rsplit("/", 1)[0]

    async def _open_set(self, name: str) -> DataSet:
        """Opens the data set of this name, once, whoever asks for it meanwhile."""
        pending = self._opening.get(name)
        if pending is not None:
            return await asyncio.shield(pending)
        future: asyncio.Future[DataSet] = asyncio.get_running_loop().create_future()
        self._opening[name] = future
        try:
            opened = await asyncio.to_thread(self._client.open, self._address(name))
        except BaseException as error:
            future.set_exception(error)
            future.exception()
            raise
        finally:
            del self._opening[name]
        with self._set_lock:
            self._sets[name] = opened
            closed = [self._sets.popitem(last=False)[1] for _ in range(len(self._sets) - _OPEN_MAX)]
        for one in closed:
            one.close()
        future.set_result(opened)
        return opened

    @staticmethod
    def _natural_set(name: str) -> str:
        """What a name is opened as: the store that it lies in, or itself."""
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if parts[depth].lower().endswith(_STORES):
                return "/".join(parts[: depth + 1])
        if len(parts) > 2 and parts[-1] in _STORE_KEYS:
            return "/".join(parts[:-1])
        return name

    async def _locate(self, path: Any) -> tuple[DataSet, str]:
        """The data set that a name lies in, which is opened if none is, and the path in it."""
        name: str = self._strip_protocol(path)
        covering = self._covering(name)
        if covering is None:
            root = self._natural_set(name)
            try:
                opened = await self._open_set(root)
            except NotFound as error:
                raise FileNotFoundError(2, "there is no such file", name) from error
            covering = opened, name[len(root) :].lstrip("/")
        return covering

    async def _file(self, path: Any) -> tuple[DataSet, File]:
        data_set, inner = await self._locate(path)
        file = data_set.files.get(inner)
        if file is None:
            name = self._strip_protocol(path)
            if self._is_directory(data_set, inner):
                raise IsADirectoryError(21, "it is a directory", name)
            raise FileNotFoundError(2, "there is no such file", name)
        return data_set, file

    @staticmethod
    def _is_directory(data_set: DataSet, inner: str) -> bool:
        if data_set.is_file:
            return False
        return inner == "" or inner in data_set.directories

    def invalidate_cache(self, path: str | None = None) -> None:
        """Closes what is open at a path, or all: it is looked up anew."""
        with self._set_lock:
            names = [name for name in self._sets if path is None or name.startswith(self._strip_protocol(path))]
            closed = [self._sets.pop(name) for name in names]
        for one in closed:
            one.close()
        super().invalidate_cache(path)

    # --- What there is -------------------------------------------------------------------------------------------

    @staticmethod
    def _file_info(name: str, file: File) -> dict[str, Any]:
        return {"name": name, "size": file.size, "type": "file", "mtime": file.mtime}

    @staticmethod
    def _directory_info(name: str) -> dict[str, Any]:
        return {"name": name, "size": 0, "type": "directory"}

    async def _info(self, path: Any, **_: Any) -> dict[str, Any]:
        name: str = self._strip_protocol(path)
        data_set, inner = await self._locate(name)
        file = data_set.files.get(inner)
        if file is not None:
            return self._file_info(name, file)
        if self._is_directory(data_set, inner):
            return self._directory_info(name)
        raise FileNotFoundError(2, "there is no such file", name)

    async def _ls(self, path: Any, detail: bool = True, **_: Any) -> list[Any]:
        name: str = self._strip_protocol(path)
        covering = self._covering(name)
        if covering is None:
            found = await self._list(name)
        else:
            data_set, inner = covering
            file = data_set.files.get(inner)
            if file is not None:
                found = [self._file_info(name, file)]
            elif self._is_directory(data_set, inner):
                found = self._children(data_set, name, inner)
            else:
                raise FileNotFoundError(2, "there is no such file", name)
        return found if detail else [one["name"] for one in found]

    async def _list(self, name: str) -> list[dict[str, Any]]:
        """Lists a directory that is not open, without opening all beneath it."""
        try:
            rows = await asyncio.to_thread(self._client.ls, self._address(name))
        except NotFound as error:
            raise FileNotFoundError(2, "there is no such file", name) from error
        found = []
        for row in rows:
            full = f"{name}/{row.path}" if row.path else name
            if row.type == "file":
                found.append(self._file_info(full, row))
            elif row.type == "directory":
                found.append(self._directory_info(full))
        return found

    def _children(self, data_set: DataSet, name: str, inner: str) -> list[dict[str, Any]]:
        start = f"{inner}/" if inner else ""
        children = [
            self._file_info(f"{name}/{file.path[len(start) :]}", file)
            for file in data_set.files.values()
            if file.path.startswith(start) and "/" not in file.path[len(start) :]
        ]
        children += [
            self._directory_info(f"{name}/{path[len(start) :]}")
            for path in data_set.directories
            if path.startswith(start) and "/" not in path[len(start) :]
        ]
        return children

    async def _find(
        self, path: Any, maxdepth: int | None = None, withdirs: bool = False, **options: Any
    ) -> Any:
        name: str = self._strip_protocol(path)
        # All beneath it is asked for: its list of files comes at once.
        await self._locate(name)
        return await super()._find(name, maxdepth=maxdepth, withdirs=withdirs, **options)

    def modified(self, path: Any) -> datetime:
        """When a file was last changed."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    # --- Bytes ---------------------------------------------------------------------------------------------------

    async def _cat_file(self, path: Any, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data_set, file = await self._file(path)
        return await data_set.aread(file.path, start, end)

    async def _cat_ranges(
        self,
        paths: Sequence[Any],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Ranges of files: one request for each data set, of exactly their bytes. So ``max_gap`` has nothing to save."""
        count = len(paths)
        starts = list(starts) if isinstance(starts, list | tuple) else [starts] * count
        ends = list(ends) if isinstance(ends, list | tuple) else [ends] * count
        if not len(starts) == len(ends) == count:
            raise ValueError("there must be as many starts and ends as paths")
        found = await asyncio.gather(*(self._file(path) for path in paths), return_exceptions=True)
        results: list[Any] = list(found)
        groups: dict[int, tuple[DataSet, list[int]]] = {}
        for index, one in enumerate(found):
            if not isinstance(one, BaseException):
                groups.setdefault(id(one[0]), (one[0], []))[1].append(index)

        async def fetch(data_set: DataSet, indices: list[int]) -> None:
            places = [(found[index][1].path, starts[index], ends[index]) for index in indices]  # type: ignore[index]
            try:
                parts: Sequence[Any] = await data_set.aread_ranges(places)
            except Exception as error:
                parts = [error] * len(indices)
            for index, part in zip(indices, parts, strict=True):
                results[index] = part

        await asyncio.gather(*(fetch(*group) for group in groups.values()))
        if on_error != "return":
            for one in results:
                if isinstance(one, BaseException):
                    raise one
        return results

    async def _get_file(self, rpath: Any, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        try:
            data_set, file = await self._file(rpath)
        except IsADirectoryError:
            os.makedirs(lpath, exist_ok=True)
            return
        callback.set_size(file.size)
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        partial = f"{os.fspath(lpath)}.partial"
        open(partial, "wb").close()
        await asyncio.to_thread(data_set.read_to_file, file.path, None, None, partial)
        os.replace(partial, lpath)
        callback.relative_update(file.size)

    async def _put_file(
        self, lpath: Any, rpath: Any, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        if os.path.isdir(lpath):
            return
        size = os.path.getsize(lpath)
        callback.set_size(size)
        existing = "refuse" if mode == "create" else "replace"
        address = self._address(self._strip_protocol(rpath))
        await asyncio.to_thread(self._client.put, os.fspath(lpath), address, existing=existing)
        callback.relative_update(size)
        self.invalidate_cache()

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> InhaulFile:
        if mode != "rb":
            raise NotImplementedError("files are read; put() sends them")
        # What prefetches in the dark fetches most of a file for a column of it.
        options.setdefault("cache_type", "none")
        return InhaulFile(self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **options)

    def statistics(self) -> dict[str, int]:
        """Bytes of content and proofs that have come for all that is open, and how many requests asked for them."""
        with self._set_lock:
            stats = [one.stats for one in self._sets.values()]
        return {
            "bytes": sum(one["placed_bytes"] for one in stats),
            "proof_bytes": sum(one["proof_bytes"] for one in stats),
            "requests": sum(one["proof_requests"] for one in stats),
        }


class InhaulFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read. By default nothing is cached, and nothing read ahead."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.cat_file(self.path, start, end)
        return data
