"""``inhaul://`` for fsspec: pandas, pyarrow, xarray, dask, polars and all others that take its file systems.

>>> import pandas
>>> pandas.read_parquet("inhaul://dtn1,dtn2/table.parquet", columns=["energy"])        # doctest: +SKIP

A URL is that of the command line: ``inhaul://HOST[:PORT][,MIRROR...]/PATH[#TICKET]``, with ``%XX`` for what cannot stand in
it. What methods return, and take too, are names: ``HOST[:PORT][,MIRROR...]/PATH``, without ``inhaul://``. In a name every
character stands for itself, so ``#`` and ``%`` are parts of the file's name. ``unstrip_protocol`` makes the URL of a name.

Storage options are the arguments of :class:`inhaul.Client`, and ``ticket``: the text behind the ``#`` of an address, or
``HOST[:PORT]#TICKET``, which goes nowhere else. Options travel in pickles: rather have tokens in a file (``token_file``) or
in the environment variable ``INHAUL_TICKET``.

A directory that is searched is opened as a whole, once: its list of files is kept from then on, and a missing file is
known without asking. A file that has changed at its source is opened anew when it is read. There is no read-ahead:
only read bytes are fetched.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks, get_loop
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.implementations.local import LocalFileSystem, make_path_posix, trailing_sep
from fsspec.utils import glob_translate, other_paths

from . import Client, DataSet, File, _inhaul, _names
from ._file import Changed, InhaulFile
from ._landing import check_place, land
from ._sets import OpenSet, Sets
from .errors import IntegrityError, NotFound

__all__ = ["InhaulFile", "InhaulFileSystem"]

_T = TypeVar("_T")
_CHECKED_S = 1.0
"""Facts younger than this are not asked again when a file is opened."""
_LANDINGS_MAX = 8
"""Files that are fetched at once, if each is a data set of its own."""


def _address(ticket: str | None, name: str) -> str:
    """The address of a name, with the ticket if it is for that server."""
    if ticket and "#" in ticket:
        owner, _, ticket = ticket.partition("#")
        ticket = ticket if owner == name.partition("/")[0] else None
    return _names.url_of(name, ticket)


class InhaulFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """See the module's description.

    :param ticket: for servers, as above.
    :param use_listings_cache: if not, each listing and description is asked for anew.
    :param listings_expiry_time: seconds after which open data sets are opened anew.
    :param max_paths: number of unused data sets that stay open at a server; at most eight.
    """

    protocol = "inhaul"
    root_marker = ""
    _pid: int
    _loop: Any

    def __init__(
        self,
        ticket: str | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        skip_instance_cache: bool = False,
        use_listings_cache: bool = True,
        listings_expiry_time: float | None = None,
        max_paths: int | None = None,
        batch_size: int | None = None,
        **client: Any,
    ) -> None:
        super().__init__(asynchronous=asynchronous, loop=loop, batch_size=batch_size)
        if ticket is not None and not _names.says_whose(ticket):
            raise ValueError(
                "the ticket does not say which server it is for: write HOST[:PORT]#.TOKEN or FINGERPRINT.TOKEN"
            )
        self.ticket = ticket
        self.client_options = client
        self._is_cached = use_listings_cache
        self._expiry_s, self._idle_max = listings_expiry_time, max_paths
        self._client = Client(**client)
        self._made_sets: Sets | None = None
        self._made_locks: dict[int, threading.Lock] = {}

    @property
    def _sets(self) -> Sets:
        sets = self._made_sets
        if sets is None or not sets.is_here():
            # `setdefault` is one step for all threads. A parent's lock may be held by a thread that is not here.
            with self._made_locks.setdefault(_inhaul.forks(), threading.Lock()):
                sets = self._made_sets
                if sets is None or not sets.is_here():
                    address = partial(_address, self.ticket)
                    sets = Sets(self._client, address, idle_max=self._idle_max, expiry_s=self._expiry_s)
                    self._made_sets = sets
        return sets

    @property
    def loop(self) -> Any:
        """The event loop of synchronous calls: in the child of a fork, one of its own."""
        pid: int = os.getpid()
        if self._pid != pid:
            self._loop = None if self.asynchronous else get_loop()
            self._pid = pid
        return self._loop

    # --- Names ---------------------------------------------------------------------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [_names.name_of(one) for one in path]
        return _names.name_of(path)

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a name, without a ticket."""
        return _names.url_of(_names.name_of(name))

    @staticmethod
    def _get_kwargs_from_urls(path: Any) -> dict[str, Any]:
        text = path[0] if isinstance(path, list) and path else path
        if isinstance(text, str) and text.startswith(_names.SCHEME):
            name, ticket = _names.split_url(text)
            if ticket:
                # A token that says nothing of its server goes to this one only.
                return {"ticket": ticket if _names.says_whose(ticket) else f"{name.partition('/')[0]}#{ticket}"}
        return {}

    @classmethod
    def _parent(cls, path: Any) -> str:
        text: str = cls._strip_protocol(path)
        return text.rpartition("/")[0] or text

    def _address(self, name: str) -> str:
        return _address(self.ticket, name)

    def _name(self, path: Any) -> str:
        name = _names.name_of(path)
        if not _names.is_possible(name):
            raise FileNotFoundError(2, "there can be no file of that name", name)
        return name

    # --- Data sets -----------------------------------------------------------------------------------------------

    async def _within(
        self,
        path: Any,
        use: Callable[[OpenSet, str], Awaitable[_T]],
        *,
        whole: bool = False,
        fresh: bool = False,
    ) -> _T:
        """Uses the data set that a name lies in, and the path in it; if its source has changed, its present
        version."""
        name = self._name(path)
        for is_last in (False, True):
            try:
                async with self._sets.using(name, whole=whole, fresh=fresh) as found:
                    try:
                        return await use(found, found.inner(name))
                    except Changed:
                        raise
                    except IntegrityError:
                        self._sets.retire_set(found)
                        if is_last:
                            raise
            except NotFound as error:
                raise FileNotFoundError(2, "there is no such file", name) from error
        raise AssertionError("it has returned or raised")

    @staticmethod
    def _file_in(found: OpenSet, inner: str) -> File:
        file = found.data_set.files.get(inner)
        if file is None:
            name = f"{found.root}/{inner}" if inner else found.root
            if found.data_set.is_directory(inner):
                raise IsADirectoryError(21, "it is a directory", name)
            raise FileNotFoundError(2, "there is no such file", name)
        return file

    def invalidate_cache(self, path: str | None = None) -> None:
        """Data sets open at a path, above it or beneath it, or all, are looked up anew."""
        self._sets.retire(None if path is None else self._strip_protocol(path))
        super().invalidate_cache(path)

    # --- Listings ------------------------------------------------------------------------------------------------

    @staticmethod
    def _file_info(name: str, file: File) -> dict[str, Any]:
        return {"name": name, "size": file.size, "type": "file", "mtime": file.mtime}

    @staticmethod
    def _directory_info(name: str) -> dict[str, Any]:
        return {"name": name, "size": 0, "type": "directory"}

    async def _info(self, path: Any, refresh: bool = False, **_: Any) -> dict[str, Any]:
        name = self._name(path)

        async def look(found: OpenSet, inner: str) -> dict[str, Any]:
            file = found.data_set.files.get(inner)
            if file is not None:
                return self._file_info(name, file)
            if found.data_set.is_directory(inner):
                return self._directory_info(name)
            raise FileNotFoundError(2, "there is no such file", name)

        return await self._within(name, look, fresh=refresh or not self._is_cached)

    async def _ls(self, path: Any, detail: bool = True, refresh: bool = False, **_: Any) -> list[Any]:
        name = self._name(path)
        if refresh:
            self.invalidate_cache(name)
        covering = self._sets.covering(name) if self._is_cached else None
        if covering is not None:
            found = self._children(covering, name)
        elif _names.askable(name) == name:
            found = await self._list(name)
        else:

            async def look(found: OpenSet, inner: str) -> list[dict[str, Any]]:
                return self._children(found, name)

            found = await self._within(name, look, whole=True)
        return found if detail else [one["name"] for one in found]

    async def _list(self, name: str) -> list[dict[str, Any]]:
        """Lists a directory that is not open, without opening all beneath it."""
        try:
            rows = await self._client.als(self._address(name))
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

    def _children(self, found: OpenSet, name: str) -> list[dict[str, Any]]:
        inner = found.inner(name)
        if not found.data_set.is_directory(inner):
            return [self._file_info(name, self._file_in(found, inner))]
        files, directories = found.data_set.children(inner)
        infos = [self._file_info(f"{found.root}/{file.path}", file) for file in files]
        return infos + [self._directory_info(f"{found.root}/{path}") for path in directories]

    async def _find(
        self, path: Any, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any
    ) -> Any:
        """All beneath a directory: its list of files comes at once."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")

        async def look(found: OpenSet, inner: str) -> dict[str, dict[str, Any]]:
            return self._beneath(found, inner, maxdepth, withdirs)

        try:
            infos = await self._within(path, look, whole=True, fresh=not self._is_cached)
        except (FileNotFoundError, NotADirectoryError):
            infos = {}
        return dict(sorted(infos.items())) if detail else sorted(infos)

    def _beneath(self, found: OpenSet, inner: str, maxdepth: int | None, withdirs: bool) -> dict[str, dict[str, Any]]:
        name = f"{found.root}/{inner}" if inner else found.root
        if not found.data_set.is_directory(inner):
            return {name: self._file_info(name, self._file_in(found, inner))}
        infos = {name: self._directory_info(name)} if withdirs else {}
        level, depth = [inner], 0
        while level and (maxdepth is None or depth < maxdepth):
            below: list[str] = []
            for directory in level:
                files, directories = found.data_set.children(directory)
                for file in files:
                    full = f"{found.root}/{file.path}"
                    infos[full] = self._file_info(full, file)
                below += directories
            if withdirs:
                for directory in below:
                    full = f"{found.root}/{directory}"
                    infos[full] = self._directory_info(full)
            level, depth = below, depth + 1
        return infos

    async def _glob(self, path: Any, maxdepth: int | None = None, **options: Any) -> Any:
        """As fsspec has it, but that a pattern never reaches into the host, and a name that exists is itself."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        detail, withdirs = options.pop("detail", False), options.pop("withdirs", True)
        ends_with_slash = os.fspath(path).endswith("/")
        name = self._strip_protocol(path)
        if not _names.has_magic(name) or (not ends_with_slash and await self._exists(name)):
            infos = {name: await self._info(name)} if await self._exists(name) else {}
            return infos if detail else list(infos)
        hosts, _, pattern = name.partition("/")
        parts = pattern.split("/")
        plain = next(index for index, part in enumerate(parts) if any(sign in part for sign in "*?["))
        root = "/".join([hosts, *parts[:plain]])
        depth: int | None = len(parts) - plain
        if "**" in pattern:
            starred = next(index for index, part in enumerate(parts) if "**" in part)
            depth = None if maxdepth is None else starred - plain + maxdepth
        found = await self._find(root, maxdepth=depth, withdirs=withdirs, detail=True)
        matches = re.compile(glob_translate(pattern + ("/" if ends_with_slash else ""))).match
        wants_slash = ends_with_slash or pattern.endswith("/**") or pattern == "**"

        def fits(full: str, info: dict[str, Any]) -> bool:
            below = full[len(hosts) + 1 :]
            return bool(matches(f"{below}/" if wants_slash and info["type"] == "directory" else below))

        infos = {full: info for full, info in found.items() if fits(full, info)}
        return infos if detail else list(infos)

    async def _expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, assume_literal: bool = False
    ) -> list[str]:
        """As fsspec has it, but that a name which exists is not taken for a pattern."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        out: set[str] = set()
        for one in [path] if isinstance(path, str) else path:
            is_pattern = not assume_literal and await self._is_pattern(one)
            roots = await self._glob(one, maxdepth=maxdepth) if is_pattern else [self._strip_protocol(one)]
            out |= set(roots) if is_pattern else set()
            below = maxdepth if maxdepth is None or not is_pattern else maxdepth - 1
            for root in roots:
                if recursive and (below is None or below >= 1):
                    out |= set(await self._find(root, maxdepth=below, withdirs=True))
                if root not in out and (not recursive or await self._exists(root)):
                    out.add(root)
        if not out:
            raise FileNotFoundError(2, "there is no such file", path if isinstance(path, str) else str(path))
        return sorted(out)

    async def _is_pattern(self, path: Any) -> bool:
        name = self._strip_protocol(path)
        return _names.has_magic(name) and not await self._exists(name)

    def modified(self, path: Any) -> datetime:
        """When a file was last changed."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    # --- Bytes ---------------------------------------------------------------------------------------------------

    async def _cat_file(self, path: Any, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        async def read(found: OpenSet, inner: str) -> bytes:
            return await found.data_set.aread(self._file_in(found, inner).path, start, end)

        return await self._within(path, read)

    async def _check(self, path: Any) -> None:
        """Asks for a byte of a file that is described by what was opened a while ago: if its source has changed, it is
        opened anew."""

        async def look(found: OpenSet, inner: str) -> None:
            file = found.data_set.files.get(inner)
            now = time.monotonic()
            if file is not None and file.size and now - found.checked > _CHECKED_S:
                await found.data_set.aread(inner, 0, 1)
                found.checked = now

        await self._within(path, look)

    async def _cat_version(self, path: Any, start: int, end: int, size: int, mtime: float) -> bytes:
        """A range of a file that is still this version of it."""

        async def read(found: OpenSet, inner: str) -> bytes:
            file = self._file_in(found, inner)
            if (file.size, file.mtime) != (size, mtime):
                raise Changed(f"{self._strip_protocol(path)} has changed since it was opened: open it again")
            return await found.data_set.aread(inner, start, end)

        return await self._within(path, read)

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
        results: list[Any] = [None] * count
        groups: dict[str, list[int]] = {}
        for index, path in enumerate(paths):
            groups.setdefault(_names.name_of(path), []).append(index)

        async def alone(name: str, indices: list[int]) -> None:
            async def read(found: OpenSet, inner: str) -> list[bytes]:
                file = self._file_in(found, inner)
                return await found.data_set.aread_ranges([(file.path, starts[k], ends[k]) for k in indices])

            try:
                parts: Sequence[Any] = await self._within(name, read)
            except Exception as error:
                parts = [error] * len(indices)
            for index, part in zip(indices, parts, strict=True):
                results[index] = part

        async def together(names: list[str]) -> None:
            """Files of one data set; one by one if that does not go well, or if they do not lie in one any more."""
            indices = [index for name in names for index in groups[name]]

            async def read(found: OpenSet, inner: str) -> list[bytes]:
                places = [(found.inner(name), starts[k], ends[k]) for name in names for k in groups[name]]
                return await found.data_set.aread_ranges(places)

            try:
                parts = await self._within(names[0], read)
            except Exception:
                await asyncio.gather(*(alone(name, groups[name]) for name in names))
                return
            for index, part in zip(indices, parts, strict=True):
                results[index] = part

        by_set: dict[str, list[str]] = {}
        for name in groups:
            covering = self._sets.covering(name, with_covers=True)
            by_set.setdefault(covering.root if covering else name, []).append(name)
        await asyncio.gather(
            *(together(names) if len(names) > 1 else alone(names[0], groups[names[0]]) for names in by_set.values())
        )
        if on_error != "return":
            for one in results:
                if isinstance(one, BaseException):
                    raise one
        return results

    # --- Files here ----------------------------------------------------------------------------------------------

    async def _get_file(self, rpath: Any, lpath: Any, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        info = await self._info(rpath)
        place = os.fspath(lpath)
        if info["type"] == "directory":
            os.makedirs(place, exist_ok=True)
            return
        check_place(place)
        callback.set_size(info["size"])
        root = _names.askable(info["name"])
        inner = info["name"][len(root) :].lstrip("/") or None
        await land(self._client, self._address(root), [(inner, place)], callback.absolute_update)
        callback.absolute_update(info["size"])

    async def _get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Any = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **_: Any,
    ) -> None:
        """As fsspec has it; files of one open data set come in one transfer."""
        if isinstance(lpath, list) and isinstance(rpath, list):
            names, places = [self._name(one) for one in rpath], [os.fspath(one) for one in lpath]
        else:
            names, places = await self._places(rpath, lpath, recursive, maxdepth)
        callback.set_size(len(names))
        infos = await asyncio.gather(*(self._info(name) for name in names))
        singles: list[tuple[str, str]] = []
        together: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = {}
        for info, place in zip(infos, places, strict=True):
            os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
            covering = self._sets.covering(info["name"])
            if info["type"] == "directory":
                os.makedirs(place, exist_ok=True)
                callback.relative_update(1)
            elif covering is not None and not covering.data_set.is_file:
                check_place(place)
                # Places that were named one by one may be anywhere.
                home = "" if isinstance(lpath, str | os.PathLike) else os.path.dirname(os.path.abspath(place))
                together.setdefault((covering.root, home), []).append((info, place))
            else:
                singles.append((info["name"], place))
        for (root, _home), group in together.items():
            if len({place for _, place in group}) < len(group):
                raise ValueError("several files would get one name")
            paths = [(info["name"][len(root) :].lstrip("/"), place) for info, place in group]
            await land(self._client, self._address(root), paths)
            for info, place in group:
                with callback.branched(info["name"], place) as child:
                    child.set_size(info["size"])
                    child.absolute_update(info["size"])
                callback.relative_update(1)
        get_file = callback.branch_coro(self._get_file)
        await _run_coros_in_chunks(
            [get_file(name, place) for name, place in singles],
            batch_size=min(batch_size or _LANDINGS_MAX, _LANDINGS_MAX),
            callback=callback,
        )

    async def _places(
        self, rpath: Any, lpath: Any, recursive: bool, maxdepth: int | None
    ) -> tuple[list[str], list[str]]:
        """The names that are wanted, and where each of them lands."""
        is_str = isinstance(rpath, str)
        is_pattern = is_str and await self._is_pattern(rpath)
        has_no_slash = is_str and not trailing_sep(rpath)
        names = await self._expand_path(rpath, recursive=recursive, maxdepth=maxdepth)
        if is_str and (not recursive or maxdepth is not None):
            # A pattern alone copies no directories.
            names = [name for name in names if not await self._isdir(name)]
        if not names:
            return [], []
        lpath = make_path_posix(lpath)
        is_directory = isinstance(lpath, str) and (trailing_sep(lpath) or LocalFileSystem().isdir(lpath))
        exists = is_str and ((is_pattern and len(names) == 1) or (not is_pattern and is_directory and has_no_slash))
        places = other_paths(names, lpath, exists=exists, flatten=not is_str)
        return names, list(places)

    async def _put_file(
        self, lpath: Any, rpath: Any, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        if os.path.isdir(lpath):
            return
        size = os.path.getsize(lpath)
        callback.set_size(size)
        existing = "refuse" if mode == "create" else "replace"
        name = self._name(rpath)
        address = self._address(name)
        await self._client._arun(
            self._client._natives(address),
            lambda native: native.put([os.fspath(lpath)], _names.raw_bytes_quoted(address), existing),
        )
        callback.relative_update(size)
        self.invalidate_cache(name)

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
        """Bytes of content and proofs that have come for all that was opened, and how many requests asked for them."""
        return self._sets.statistics()
