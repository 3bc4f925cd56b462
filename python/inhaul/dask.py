"""Data sets over the workers of a Dask cluster: each worker is a receiver, and hauls its part from the senders itself.

>>> import inhaul.dask                                                             # doctest: +SKIP
>>> inhaul.dask.fetch("inhaul://dtn1,dtn2/run7", to="/shared/run7", client=client)  # doctest: +SKIP

Bytes never pass through the scheduler or the caller. Each part is proven and synced before its task is done. If a worker
dies, its unfinished parts go to others, and only they are fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from . import Client, DataSet, _inhaul
from .errors import IntegrityError

__all__ = ["Fetched", "Part", "fetch", "plan"]

_PART_BYTES = 64 << 20
"""Longest part that a worker fetches as one task: a lost worker loses at most this for each of its threads."""
_RETRIES = 3


_OPEN_MAX = 4
"""Most data sets that a worker has open; running reads from a closed one continue."""
_sets: OrderedDict[tuple[int, str, str, str], DataSet] = OrderedDict()
"""Open data sets of this process's workers."""
_lock = threading.Lock()


def _forget() -> None:
    global _lock
    # A parent's lock may be held by a thread that is not here.
    _lock = threading.Lock()
    _sets.clear()


os.register_at_fork(after_in_child=_forget)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a file."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A cluster's fetched bytes: in all, by worker, and of parts that were begun again, because a worker died or
    a part failed; and how many seconds the call took, from its start until all had its name."""

    bytes: int
    by_worker: Mapping[str, int]
    again_bytes: int = 0
    seconds: float = 0.0

    @property
    def goodput_bps(self) -> float:
        """``bytes`` over ``seconds``, in bits per second."""
        return self.bytes * 8 / self.seconds if self.seconds > 0 else 0.0

    @property
    def fairness(self) -> float | None:
        """Jain's index of the workers' bytes: 1 if all have fetched the same. ``None`` if less than two have fetched."""
        shares = list(self.by_worker.values())
        squares = sum(share * share for share in shares)
        return sum(shares) ** 2 / (len(shares) * squares) if squares and len(shares) > 1 else None


class _Item(NamedTuple):
    """Something in a data set: a file, directory, symlink or hardlink, and where the latter two lead."""

    path: str
    kind: str
    mode: int
    time_ns: int
    to: str


class _Items:
    """The entries of a data set beside the bytes of its files, made at the destination as by ``inhaul get``."""

    def __init__(self, data_set: DataSet) -> None:
        self._items = [
            _Item(os.fsdecode(path), kind, mode, time_ns, os.fsdecode(to))
            for path, kind, mode, time_ns, to in data_set._native().items()
        ]
        self.directories = [item.path for item in self._items if item.kind == "directory"]
        self.other_names = {item.path: item.to for item in self._items if item.kind == "hardlink"}

    def finish(self, top: str) -> None:
        """All bytes are there: makes links, and gives all things their permissions and times. Those of directories
        come last, from below: new entries change a directory's time, and its permissions may forbid writing."""

        def place(path: str) -> str:
            return os.path.join(top, path) if path else top

        lost: dict[str, list[str]] = {}

        def keep(what: str, path: str, act: Callable[[], object]) -> None:
            try:
                act()
            except OSError as error:
                lost.setdefault(f"{what} ({error.strerror})", []).append(path or ".")

        for path, file in self.other_names.items():
            try:
                os.link(place(file), place(path))
            except OSError:
                # Some file systems have no second names.
                shutil.copyfile(place(file), place(path))
        for item in self._items:
            if item.kind == "symlink":
                at, times = place(item.path), (item.time_ns, item.time_ns)
                keep("a link could not be made", item.path, partial(os.symlink, item.to, at))
                if os.path.lexists(at) and os.utime in os.supports_follow_symlinks:
                    act = partial(os.utime, at, ns=times, follow_symlinks=False)
                    keep("a time could not be kept", item.path, act)
        kept = [item for item in self._items if item.kind in ("file", "hardlink")]
        kept += [item for item in reversed(self._items) if item.kind == "directory"]
        for item in kept:
            at, times = place(item.path), (item.time_ns, item.time_ns)
            keep("a time could not be kept", item.path, partial(os.utime, at, ns=times))
            keep("permissions could not be kept", item.path, partial(os.chmod, at, item.mode))
        for what, paths in lost.items():
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            warnings.warn(f"{what}: {paths[0]}{more}", RuntimeWarning, stacklevel=3)


def plan(data_set: DataSet, part_bytes: int = _PART_BYTES) -> list[Part]:
    """The parts of a data set: each file once, even with several names, in pieces of at most ``part_bytes``."""
    parts = []
    other_names = _Items(data_set).other_names
    for path, file in data_set.files.items():
        if path in other_names:
            continue
        for start in range(0, max(file.size, 1), part_bytes):
            parts.append(Part(path, start, min(start + part_bytes, file.size)))
    return parts


def _version(data_set: DataSet) -> str:
    """What tells a data set from another, by the names, sizes and times of its files."""
    files = sorted((path, file.size, file.mtime) for path, file in data_set.files.items())
    return hashlib.sha256(repr(files).encode("utf-8", "surrogateescape")).hexdigest()


def _data_set(source: str, options: dict[str, Any], pins: dict[str, str], version: str) -> DataSet:
    """The worker's own open data set, in the version that is fetched: one for each worker and source."""
    from distributed import get_worker

    key = (_inhaul.forks(), get_worker().address, source, repr((sorted(options.items()), sorted(pins.items()))))
    with _lock:
        found = _sets.get(key)
        if found is None or _version(found) != version:
            found = _sets[key] = Client(**options).open(source, pins=pins)
            if _version(found) != version:
                del _sets[key]
                raise IntegrityError(f"{found.source} has changed while it was fetched: fetch it again")
        _sets.move_to_end(key)
        while len(_sets) > _OPEN_MAX:
            # Not closed: a thread of this worker may be about to read from it. It closes with its last reference.
            _sets.popitem(last=False)
        return found


def _fetch_part(
    part: Part, source: str, to: str, options: dict[str, Any], pins: dict[str, str], version: str, topic: str
) -> tuple[str, int]:
    from distributed import get_worker

    get_worker().log_event(topic, part.end - part.start)
    destination = os.path.join(to, part.path) if part.path else to
    data_set = _data_set(source, options, pins, version)
    try:
        data_set.read_to_file(part.path, part.start, part.end, destination, part.start)
    except IntegrityError:
        # Its source has changed: it is of no use to a later fetch.
        with _lock:
            for key in [key for key, one in _sets.items() if one is data_set]:
                del _sets[key]
        raise
    return get_worker().address, part.end - part.start


def fetch(
    source: str,
    to: str,
    *,
    client: Any = None,
    part_bytes: int = _PART_BYTES,
    pins: Mapping[str, str] | None = None,
    **options: Any,
) -> Fetched:
    """Fetch a data set to a directory that all workers see; a file to a file. Links, permissions and times are kept, as
    ``inhaul get`` keeps them.

    :param client: a ``distributed.Client``; ``None``: a cluster of this host's processors, for as long as it takes.
    :param options: of :class:`inhaul.Client`, for each worker. ``receive_rate`` is each worker's own.
    """
    from distributed import Client as DaskClient

    if client is None:
        with DaskClient(processes=True, threads_per_worker=1) as own:  # type: ignore[no-untyped-call]
            return fetch(source, to, client=own, part_bytes=part_bytes, pins=pins, **options)
    begun = time.monotonic()
    with Client(**options).open(source, pins=pins) as data_set:
        parts, items = plan(data_set, part_bytes), _Items(data_set)
        sizes = {path: file.size for path, file in data_set.files.items() if path not in items.other_names}
        version = _version(data_set)
    target = os.path.abspath(to)
    unfinished = f"{target}.partial-{uuid.uuid4().hex[:8]}"
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "it exists", target)
    if "" in sizes:
        os.makedirs(os.path.dirname(unfinished), exist_ok=True)
    else:
        for directory in items.directories:
            os.makedirs(os.path.join(unfinished, directory), exist_ok=True)
    for path, size in sizes.items():
        # As long as they will be from the start: parts come in any order.
        with open(os.path.join(unfinished, path) if path else unfinished, "wb") as file:
            file.truncate(size)
    try:
        by_worker, again = _fetch_all(client, parts, source, unfinished, options, dict(pins or {}), version)
        items.finish(unfinished)
        _name(unfinished, target)
    except BaseException:
        # The received data is under a name that no later call knows.
        if os.path.isdir(unfinished):
            for directory in items.directories:
                # It may have got permissions that forbid removal.
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(unfinished, directory), 0o700)
            shutil.rmtree(unfinished, ignore_errors=True)
        elif os.path.lexists(unfinished):
            os.unlink(unfinished)
        raise
    return Fetched(sum(sizes.values()), by_worker, again, time.monotonic() - begun)


def _name(partial: str, target: str) -> None:
    """Gives the received data its name, and never takes it from another file."""
    if os.path.isdir(partial):
        # A directory replaces nothing but an empty one.
        os.rename(partial, target)
    else:
        try:
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError as error:
            # Some file systems have no second names.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, "it exists", target) from error
            os.rename(partial, target)
        else:
            os.unlink(partial)
    descriptor = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some file systems sync no directories. The files are still whole.
        pass
    finally:
        os.close(descriptor)


def _fetch_all(
    client: Any,
    parts: list[Part],
    source: str,
    partial: str,
    options: dict[str, Any],
    pins: dict[str, str],
    version: str,
) -> tuple[dict[str, int], int]:
    """Has all parts fetched, and waits for them: bytes by worker, and of parts that were begun again."""
    from distributed import as_completed

    # Workers say when they begin a part. The scheduler passes that on before it tells of the part's end.
    topic, begun = f"inhaul-{uuid.uuid4().hex}", [0]

    def note(event: tuple[float, int]) -> None:
        begun[0] += event[1]

    client.subscribe_topic(topic, note)
    futures = client.map(
        _fetch_part,
        [part for part in parts if part.end > part.start],
        source=source,
        to=partial,
        options=options,
        pins=pins,
        version=version,
        topic=topic,
        retries=_RETRIES,
        pure=False,
        batch_size=16,
    )
    by_worker: dict[str, int] = {}
    try:
        for _, (worker, done) in as_completed(futures, with_results=True):  # type: ignore[no-untyped-call]
            by_worker[worker] = by_worker.get(worker, 0) + done
    finally:
        client.unsubscribe_topic(topic)
    return by_worker, begun[0] - sum(by_worker.values())
