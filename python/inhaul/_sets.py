"""Data sets that a file system has open: several readers share one, files of one directory share a session, and
a data set in use is not closed.

A server has room for some hundred sessions of one host, and a host may have many processes. So a process has at most
``_OPEN_MAX`` data sets open at one server, and keeps ``_IDLE_MAX`` unused ones. When several files of one directory
are wanted, the directory is opened in their place, if there is not much in it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from . import _inhaul, _jobs, _names
from .errors import InhaulError, Untrusted

if TYPE_CHECKING:
    from . import Client, DataSet

_OPEN_MAX = 16
"""Data sets that this process has open at one server; who wants more waits until one is closed."""
_IDLE_MAX = 8
"""Unused data sets; the least recently used one is closed."""
_COVER_FROM = 3
"""Number of files of one directory that are opened one by one before the directory is."""
_COVER_ENTRIES_MAX = 10_000
"""A directory with more beneath it is not opened for the sake of some files."""
_STORES = (".zarr", ".n5", ".zarr2", ".zarr3")
_STORE_KEYS = frozenset({"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"})


@dataclass(eq=False)
class OpenSet:
    """An open data set. ``root`` is its name."""

    root: str
    data_set: DataSet
    is_cover: bool
    users: int = 0
    opened: float = field(default_factory=lambda: time.monotonic())
    checked: float = field(default_factory=lambda: time.monotonic())
    used: float = 0.0
    is_retired: bool = False
    links: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether a name is its own, or lies beneath it."""
        return name == self.root or name.startswith(f"{self.root}/")

    def inner(self, name: str) -> str:
        """The path of a name in it."""
        if not self.has(name):
            raise ValueError(f"'{name}' does not lie in '{self.root}'")
        return name[len(self.root) + 1 :]

    def is_beyond(self, inner: str) -> bool:
        """Whether a path leads through a link, out of this data set."""
        parts = inner.split("/")
        return bool(self.links) and any("/".join(parts[: k + 1]) in self.links for k in range(len(parts)))


@dataclass(eq=False)
class _Opening:
    """A data set that is being opened, for all who have asked for it. None of them ends it for the others."""

    root: str
    is_cover: bool
    waiting: int = 0
    is_over: bool = False
    is_retired: bool = False
    opened: OpenSet | None = None
    error: BaseException | None = None
    then: list[Callable[[], None]] = field(default_factory=list)


class _Hosts:
    """Open data sets of this process, by server."""

    def __init__(self) -> None:
        # Guards all that the sets of this process know. Held for moments only, never while something is waited for.
        self.lock = threading.RLock()
        self.forks = _inhaul.forks()
        self.open: dict[str, int] = {}
        self.waiting: dict[str, deque[Callable[[], None]]] = {}
        self.all: WeakSet[Sets] = WeakSet()


_hosts = _Hosts()


def _here() -> _Hosts:
    """Data sets of this process: a child does not use its parent's."""
    global _hosts
    if _hosts.forks != _inhaul.forks():
        _hosts = _Hosts()
    return _hosts


def host_of(name: str) -> str:
    """The servers of a name."""
    return name.partition("/")[0]


class Sets:
    """The open data sets of one client."""

    def __init__(
        self,
        client: Client,
        address: Callable[[str], str],
        *,
        idle_max: int | None = None,
        expiry_s: float | None = None,
    ) -> None:
        self._client, self._address = client, address
        self._idle_max = _IDLE_MAX if idle_max is None else min(idle_max, _IDLE_MAX)
        self._expiry_s = expiry_s
        self._hosts = _here()
        self._sets: dict[str, OpenSet] = {}
        self._opening: dict[str, _Opening] = {}
        self._uncoverable: set[str] = set()
        self._past = {"bytes": 0, "proof_bytes": 0, "requests": 0}
        with self._hosts.lock:
            self._hosts.all.add(self)

    def __del__(self) -> None:
        if getattr(self, "_sets", None) and self.is_here():
            self.retire(None)

    # --- Use -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def using(self, name: str, *, whole: bool = False, fresh: bool = False) -> AsyncIterator[OpenSet]:
        """The open data set that a name lies in, which stays open meanwhile. ``whole``: all beneath the name is wanted.
        ``fresh``: it is opened anew, even if it is open."""
        used = await self._take(name, whole, fresh)
        try:
            yield used
        finally:
            self._give_back(used)

    async def _take(self, name: str, whole: bool, fresh: bool) -> OpenSet:
        if fresh:
            self.retire(name)
        while True:
            with self._hosts.lock:
                found = self._covering(name, whole)
                if found is not None:
                    found.users += 1
                    return found
                opening = self._opening_of(name, whole)
            try:
                await _jobs.ended(partial(self._on_end, opening))
            except asyncio.CancelledError:
                with self._hosts.lock:
                    opening.waiting -= 1
                    abandoned = opening.opened
                if abandoned is not None:
                    self._give_back(abandoned)
                raise
            if opening.opened is not None:
                # Who has waited for it was counted as its user.
                if self._fits(opening.opened, name, whole):
                    return opening.opened
                self._give_back(opening.opened)
            elif opening.error is not None and not opening.is_cover:
                raise opening.error

    @staticmethod
    def _fits(found: OpenSet, name: str, whole: bool) -> bool:
        if whole and found.is_cover:
            # It may be older than requested.
            return False
        inner = found.inner(name)
        if not inner:
            return True
        if found.is_beyond(inner):
            return False
        # The requested name is known; other files may have come later.
        return not found.is_cover or inner in found.data_set.files or found.data_set.is_directory(inner)

    def _covering(self, name: str, whole: bool) -> OpenSet | None:
        prefix = name
        while True:
            found = self._sets.get(prefix)
            if found is not None and self._expiry_s is not None and time.monotonic() - found.opened > self._expiry_s:
                self._retire(found)
                found = None
            if found is not None and self._fits(found, name, whole):
                return found
            if "/" not in prefix:
                return None
            prefix = prefix.rsplit("/", 1)[0]

    def _opening_of(self, name: str, whole: bool) -> _Opening:
        """The running opening of a name's data set, or a new one; the call waits for it. Called with the lock."""
        root, is_cover = _names.askable(name), False
        if not whole and root == name:
            root = natural_root(name)
            if root == name and (cover := self._cover(name)) is not None:
                root, is_cover = cover, True
            if root in self._sets and root != name:
                # It is open, and has no such name: a link leads elsewhere.
                root, is_cover = name, False
        found = self._opening.get(root)
        if found is None:
            found = self._opening[root] = _Opening(root, is_cover, waiting=1)
            host = host_of(root)
            self._hosts.waiting.setdefault(host, deque()).append(partial(self._begin, found))
            self._begin_next(host)
        else:
            found.waiting += 1
        return found

    def _cover(self, name: str) -> str | None:
        """The directory that is opened in the place of a file, as several others in it are wanted."""
        above, wanted = name.rpartition("/")[0], _COVER_FROM
        while above:
            if above in self._opening:
                return above
            if above not in self._uncoverable and above not in self._sets:
                if sum(one.startswith(f"{above}/") for one in (*self._sets, *self._opening)) >= wanted:
                    return above
            # Directories further up have unwanted files.
            above, wanted = above.rpartition("/")[0], 2 * wanted
        return None

    def _on_end(self, opening: _Opening, then: Callable[[], None]) -> None:
        with self._hosts.lock:
            if not opening.is_over:
                return opening.then.append(then)
        then()

    def _give_back(self, used: OpenSet) -> None:
        host = host_of(used.root)
        with self._hosts.lock:
            used.users -= 1
            used.used = time.monotonic()
            if used.users:
                return
            if used.is_retired:
                self._close(used)
            elif any(used.root.startswith(f"{root}/") for root in self._sets):
                # A file of a directory that was opened meanwhile.
                self._retire(used)
            self._keep_few(host)
            self._begin_next(host)

    def _keep_few(self, host: str) -> None:
        own = sorted(self._idle(host), key=lambda one: one.used)
        for one in own[: max(0, len(own) - self._idle_max)]:
            self._retire(one)
        everywhere = sorted(self._idle_of_all(host), key=lambda both: both[1].used)
        for sets, one in everywhere[: max(0, len(everywhere) - _IDLE_MAX)]:
            sets._retire(one)

    def _idle(self, host: str) -> list[OpenSet]:
        return [one for one in self._sets.values() if not one.users and host_of(one.root) == host]

    def _idle_of_all(self, host: str) -> list[tuple[Sets, OpenSet]]:
        return [(sets, one) for sets in list(self._hosts.all) for one in sets._idle(host)]

    # --- Opening -------------------------------------------------------------------------------------------------

    def _begin_next(self, host: str) -> None:
        """Begins what waits, as far as this process may have more open there. Called with the lock."""
        hosts = self._hosts
        waiting = hosts.waiting.get(host)
        while waiting:
            if hosts.open.get(host, 0) >= _OPEN_MAX:
                idle = self._idle_of_all(host)
                if not idle:
                    return
                sets, longest = min(idle, key=lambda both: both[1].used)
                # That calls this again.
                sets._retire(longest)
                continue
            begin = waiting.popleft()
            hosts.open[host] = hosts.open.get(host, 0) + 1
            begin()

    def _begin(self, opening: _Opening) -> None:
        try:
            natives = self._client._natives(self._address(opening.root))
            if opening.is_cover:
                self._look(opening, natives)
            else:
                self._open(opening, natives)
        except BaseException as error:
            self._end(opening, None, error)

    def _look(self, opening: _Opening, natives: list[_inhaul.Client]) -> None:
        """Whether a directory is small enough to be opened for some of its files."""
        address = _names.raw_bytes_quoted(self._address(opening.root))
        job = natives[0].entries(address, True, _COVER_ENTRIES_MAX + 1)

        def looked() -> None:
            try:
                is_small = len(job.result()) <= _COVER_ENTRIES_MAX
                if is_small:
                    return self._open(opening, natives)
                self._end(opening, None, InhaulError("the directory is too large"))
            except BaseException as error:
                if isinstance(error, Untrusted) and len(natives) > 1:
                    return self._look(opening, natives[1:])
                self._end(opening, None, error)

        job.on_end(looked)

    def _open(self, opening: _Opening, natives: list[_inhaul.Client]) -> None:
        address = _names.raw_bytes_quoted(self._address(opening.root))
        job = natives[0].open(address, [])

        def opened() -> None:
            try:
                native = job.result()
                self._end(opening, native, None)
            except BaseException as error:
                if isinstance(error, Untrusted) and len(natives) > 1:
                    return self._open(opening, natives[1:])
                self._end(opening, None, error)

        job.on_end(opened)

    def _end(self, opening: _Opening, native: _inhaul.DataSet | None, error: BaseException | None) -> None:
        from . import DataSet

        made: OpenSet | None = None
        if native is not None:
            data_set = DataSet(self._client, self._address(opening.root), {}, native)
            made = OpenSet(opening.root, data_set, opening.is_cover, links=frozenset(data_set.links))
        host = host_of(opening.root)
        with self._hosts.lock:
            if self._opening.get(opening.root) is opening:
                del self._opening[opening.root]
            opening.opened, opening.error, opening.is_over = made, error, True
            if made is None:
                if opening.is_cover:
                    self._uncoverable.add(opening.root)
                self._release(host)
            else:
                made.users, made.used, made.is_retired = opening.waiting, time.monotonic(), opening.is_retired
                self._put(made)
                self._keep_few(host)
            then, opening.then = opening.then, []
        for one in then:
            one()

    def _put(self, made: OpenSet) -> None:
        if made.is_retired:
            if not made.users:
                self._close(made)
            return
        before = self._sets.get(made.root)
        if before is not None:
            self._retire(before)
        self._sets[made.root] = made
        # Files of it that were opened one by one have done their duty.
        for one in [one for one in self._idle(host_of(made.root)) if one.root.startswith(f"{made.root}/")]:
            self._retire(one)

    def _release(self, host: str) -> None:
        """One is closed at that server: the next may begin. Called with the lock."""
        self._hosts.open[host] -= 1
        self._begin_next(host)

    # --- End -----------------------------------------------------------------------------------------------------

    def retire(self, name: str | None) -> None:
        """Data sets that cover a name or lie beneath it are no longer used, and closed when their last reader ends."""
        with self._hosts.lock:
            for root, one in list(self._sets.items()):
                if name is None or _is_near(root, name):
                    self._retire(one)
            for opening in list(self._opening.values()):
                if name is None or _is_near(opening.root, name):
                    opening.is_retired = True
                    del self._opening[opening.root]
            self._uncoverable.clear()

    def retire_set(self, one: OpenSet) -> None:
        """That data set is not used any more."""
        with self._hosts.lock:
            self._retire(one)

    def _retire(self, one: OpenSet) -> None:
        if self._sets.get(one.root) is one:
            del self._sets[one.root]
        if not one.is_retired:
            one.is_retired = True
            if not one.users:
                self._close(one)

    def _close(self, one: OpenSet) -> None:
        try:
            self._count(self._past, one.data_set.stats)
        except (InhaulError, ValueError):
            # Its data thread has ended: then there is nothing to count.
            pass
        one.data_set.close()
        self._release(host_of(one.root))

    @staticmethod
    def _count(into: dict[str, int], stats: _inhaul.Stats) -> None:
        into["bytes"] += stats["placed_bytes"]
        into["proof_bytes"] += stats["proof_bytes"]
        into["requests"] += stats["proof_requests"]

    def statistics(self) -> dict[str, int]:
        """Received data of all present and past data sets."""
        with self._hosts.lock:
            total = dict(self._past)
            for one in self._sets.values():
                self._count(total, one.data_set.stats)
        return total

    def covering(self, name: str, *, with_covers: bool = False) -> OpenSet | None:
        """The open data set that a name lies in, if there is one. Without ``with_covers`` only what is open for its list of
        files."""
        with self._hosts.lock:
            return self._covering(name, whole=not with_covers)

    def is_here(self) -> bool:
        """Whether they are this process's."""
        return self._hosts is _here()


def _is_near(root: str, name: str) -> bool:
    return root == name or root.startswith(f"{name}/") or name.startswith(f"{root}/")


def natural_root(name: str) -> str:
    """The path that is opened for a name: the store that it lies in, or itself."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        if parts[depth].lower().endswith(_STORES):
            return "/".join(parts[: depth + 1])
    if len(parts) > 2 and parts[-1] in _STORE_KEYS:
        return "/".join(parts[:-1])
    return name

