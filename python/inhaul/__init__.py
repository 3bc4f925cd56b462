"""Remote data as if it were here.

>>> import inhaul
>>> client = inhaul.Client()                                             # doctest: +SKIP
>>> with client.open("inhaul://dtn1,dtn2/run7") as run:                  # doctest: +SKIP
...     header = run.read("events.h5", 0, 4096)
...     parts = run.read_ranges([("a", 0, 10), ("b", 500, 600)])         # one request, one round trip

Every byte is proven before it is handed out. Everything that waits lets other threads run, and Ctrl-C ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _inhaul, _jobs, _names
from .errors import InhaulError, Untrusted

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer, Self

__all__ = ["Client", "DataSet", "File", "InhaulError", "PolicyDial", "Read", "Server", "Transferred", "tqdm_progress"]

#: The policy of a transfer that runs, to be changed from any thread: see :meth:`Client.get`.
PolicyDial = _inhaul.PolicyDial

_T = TypeVar("_T")
_Path = str | os.PathLike[str]
_HEAR_S = 0.2
"""How often ``progress`` is called."""
Progress = Callable[[int, int, float], object]
"""Called several times a second with bytes that are verified, all bytes, and the rate at which data came during the last
second, in bits per second."""


@dataclass(frozen=True, slots=True)
class File:
    """A file or directory: ``path`` in its data set, ``size`` in bytes, ``mtime`` in seconds since 1970."""

    path: str
    size: int
    mtime: float
    type: str = "file"


def _text(path: bytes) -> str:
    return os.fsdecode(path)


class Transferred(int):
    """The result of a transfer: the number of its verified bytes, with details as attributes.

    A rate is bytes over a time that stands beside it: ``goodput_bps`` is ``fetched_bytes * 8 / seconds``.
    """

    report: Mapping[str, Any]
    """All that is known of it, as ``inhaul get --json`` prints it (docs/json.md)."""

    def __new__(cls, count: int, report: str) -> Self:
        made = super().__new__(cls, count)
        made.report = json.loads(report)
        return made

    @property
    def fetched_bytes(self) -> int:
        """Bytes that this call has fetched, without data of an earlier call and without holes."""
        return int(self.report["fetched_bytes"])

    @property
    def resumed_bytes(self) -> int:
        """Bytes that an earlier, interrupted call had left."""
        return int(self.report["resumed_bytes"])

    @property
    def seconds(self) -> float:
        """The whole call in seconds: from its start until all is verified and in its place."""
        return float(self.report["seconds"])

    @property
    def goodput_bps(self) -> float:
        """``fetched_bytes`` over ``seconds``, in bits per second."""
        return float(self.report["goodput_bps"])

    def __reduce__(self) -> tuple[type[Transferred], tuple[int, str]]:
        return Transferred, (int(self), json.dumps(self.report))


class _Here(Generic[_T]):
    """A native value that each process makes for itself: threads do not survive a fork, and neither do the locks of those
    that hold them."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: dict[int, _T] = {}
        self._locks: dict[int, threading.Lock] = {}

    def get(self) -> _T:
        forks = _inhaul.forks()
        made = self._made.get(forks)
        if made is None:
            # `setdefault` is one step for all threads.
            with self._locks.setdefault(forks, threading.Lock()):
                made = self._made.get(forks)
                if made is None:
                    made = self._made[forks] = self._make()
        return made

    def put(self, value: _T) -> None:
        self._made[_inhaul.forks()] = value

    def peek(self) -> _T | None:
        return self._made.get(_inhaul.forks())


class Client:
    """A client of ``inhaul`` servers: one data thread for all that it opens. Can be pickled: it is made anew there.

    :param state: directory of this user's key and of known servers; ``None``: the command line's; ``""``: none.
    :param accept_new: trust servers that are met for the first time, and remember them.
    :param ca: believe certificates of these authorities: a PEM file, or ``"system"``.
    :param proxy: reach servers through ``http://HOST:PORT`` or ``socks5://HOST:PORT``.
    :param receive_rate: limit on the rate from all senders together, such as ``"850M"``, in bits per second.
    :param rate: the same for each sender.
    :param policy: the share beside others' traffic: ``"fair"``, as much as one TCP flow; ``"low"``, only bandwidth
        that others leave; ``"high"``, as much as two flows; ``"fixed"``, the ``receive_rate``, regardless of others.
    :param fallback: whether data may come over TLS where UDP does not pass: ``"auto"``, ``"never"``, ``"always"``.
    :param retry_for: seconds that servers are waited for that are not there.
    :param cache: directory for data that was read, so that it is not requested again; processes of one user may share
        it.
    :param cache_bytes: its limit on the disk.
    :param tickets: for servers whose addresses have none: ``HOST[:PORT]#TICKET`` is for the server of that name,
        ``FINGERPRINT.TOKEN`` for the one with that key. Arguments travel in pickles: rather use a file, or the environment.
    :param token_file: the same, from a file that only its owner may read. Default: the environment
        variables ``INHAUL_TICKET`` and ``INHAUL_TOKEN``.
    """

    def __init__(
        self,
        *,
        state: str | None = None,
        accept_new: bool = False,
        ca: str | None = None,
        proxy: str | None = None,
        plaintext: bool = False,
        transport: str | None = None,
        parameters: Mapping[str, str] | None = None,
        policy: str | None = None,
        receive_rate: str | None = None,
        rate: str | None = None,
        mtu: int | None = None,
        fallback: str = "auto",
        retry_for: float = 30.0,
        cache: _Path | None = None,
        cache_bytes: int = 10 << 30,
        tickets: str | Sequence[str] = (),
        token_file: _Path | None = None,
    ) -> None:
        self._options: _inhaul.Options = {
            "state": state,
            "accept_new": accept_new,
            "ca": ca,
            "proxy": proxy,
            "plaintext": plaintext,
            "transport": transport,
            "parameters": list((parameters or {}).items()),
            "policy": policy,
            "receive_rate": receive_rate,
            "rate": rate,
            "mtu": mtu,
            "fallback": fallback,
            "retry_for": retry_for,
            "cache": None if cache is None else os.fspath(cache),
            "cache_bytes": cache_bytes,
            "tickets": [tickets] if isinstance(tickets, str) else list(tickets),
            "token_file": None if token_file is None else os.fspath(token_file),
        }
        own: _inhaul.Options = {**self._options}
        if not tickets and token_file is None:
            own["tickets"] = _names.tickets_from_environment()
        self._own = _Here(lambda: _inhaul.Client(own))
        # It has looked whether others may read the file.
        self._own.get()
        words = _names.ticket_words(own["tickets"], own["token_file"])
        # A ticket for a server of a certain name is never left out: its fingerprint holds.
        by_name = [word for word in words if "#" in word]
        self._has_choice = len(by_name) < len(words)
        without: _inhaul.Options = {**own, "tickets": by_name, "token_file": None}
        self._without = _Here(lambda: _inhaul.Client(without))

    def _native(self) -> _inhaul.Client:
        return self._own.get()

    def _natives(self, *sources: str) -> list[_inhaul.Client]:
        """Attempts, one after the other: a ticket for the server with a certain key, of any name, is not
        for others, and these are asked without."""
        has_choice = self._has_choice and not any("#" in source for source in sources)
        return [self._own.get(), *([self._without.get()] if has_choice else [])]

    def _run(self, natives: list[_inhaul.Client], begin: Callable[[_inhaul.Client], _inhaul.Job[_T]]) -> _T:
        for native in natives[:-1]:
            try:
                return begin(native).result()
            except Untrusted:
                continue
        return begin(natives[-1]).result()

    async def _arun(self, natives: list[_inhaul.Client], begin: Callable[[_inhaul.Client], _inhaul.Job[_T]]) -> _T:
        for native in natives[:-1]:
            try:
                return await _jobs.result_of(begin(native))
            except Untrusted:
                continue
        return await _jobs.result_of(begin(natives[-1]))

    def __reduce__(self) -> tuple[Callable[[_inhaul.Options], Client], tuple[_inhaul.Options]]:
        return _client, (self._options,)

    def open(self, source: str, *, pins: Mapping[str, str] | None = None, root: str | None = None) -> DataSet:
        """Open a data set: ``inhaul://HOST[:PORT][,MIRROR...]/PATH[#TICKET]``.

        :param pins: BLAKE3 hashes of files, by their paths, in hexadecimal digits. Only bytes with these hashes are
            accepted.
        :param root: one hash for all files: the root that stands in the list of ``inhaul manifest``.
        """
        if pins and root:
            raise ValueError("pins and a root say the same: give one of them")
        return DataSet(self, source, root or dict(pins or {}))

    def ls(self, source: str, *, recursive: bool = False) -> list[File]:
        """Lists a source, without opening it."""
        address = _names.raw_bytes_quoted(source)
        rows = self._run(self._natives(source), lambda native: native.entries(address, recursive, _ALL))
        return [File(_text(path), size, mtime, kind) for path, size, kind, mtime in rows]

    async def als(self, source: str, *, recursive: bool = False) -> list[File]:
        """As :meth:`ls`, for ``asyncio``."""
        address = _names.raw_bytes_quoted(source)
        rows = await self._arun(self._natives(source), lambda native: native.entries(address, recursive, _ALL))
        return [File(_text(path), size, mtime, kind) for path, size, kind, mtime in rows]

    def checksums(self, source: str) -> dict[str, str]:
        """The BLAKE3 hash of every file at a source, as a server computes it, in hexadecimal digits."""
        address = _names.raw_bytes_quoted(source)
        rows = self._run(self._natives(source), lambda native: native.checksums(address))
        return {_text(path): digest for path, digest in rows}

    def get(
        self,
        sources: str | Sequence[str],
        destination: _Path,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        checksum: bool = False,
        existing: str = "refuse",
        progress: Progress | None = None,
        policy_dial: PolicyDial | None = None,
    ) -> Transferred:
        """Fetch data sets to files, as ``inhaul get`` does, verified; the same call goes on after an interruption.

        :param policy_dial: changes the policy while data comes: ``policy_dial.set("high")``, from any thread.
        :return: bytes of the data sets, with the time that it took and the rate.
        """
        all_of = [sources] if isinstance(sources, str) else list(sources)
        begin = self._getting(all_of, destination, include, exclude, None, checksum, existing, policy_dial)
        return self._follow(self._natives(*all_of), begin, progress)

    def _getting(
        self,
        sources: Sequence[str],
        destination: _Path,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        only: Sequence[str] | None = None,
        checksum: bool = False,
        existing: str = "refuse",
        dial: PolicyDial | None = None,
    ) -> Callable[[_inhaul.Client], _inhaul.Job[tuple[int, str]]]:
        addresses = [_names.raw_bytes_quoted(source) for source in sources]

        def begin(native: _inhaul.Client) -> _inhaul.Job[tuple[int, str]]:
            return native.get(
                addresses,
                destination,
                include=list(include),
                exclude=list(exclude),
                only=None if only is None else [os.fsencode(path) for path in only],
                checksum=checksum,
                existing=existing,
                dial=dial,
            )

        return begin

    def _follow(
        self,
        natives: list[_inhaul.Client],
        begin: Callable[[_inhaul.Client], _inhaul.Job[tuple[int, str]]],
        progress: Progress | None,
    ) -> Transferred:
        def heard(native: _inhaul.Client) -> _inhaul.Job[tuple[int, str]]:
            job = begin(native)
            try:
                told: tuple[int, int, float] | None = None
                is_over = False
                while not is_over:
                    is_over = job.wait(_HEAR_S)
                    now = job.progress()
                    if progress is not None and now != told and now[1]:
                        told = now
                        progress(*now)
            except BaseException:
                # It keeps verified data.
                job.cancel()
                raise
            return job

        done, report = self._run(natives, heard)
        return Transferred(done, report)

    def put(
        self,
        paths: _Path | Sequence[_Path],
        destination: str,
        *,
        existing: str = "refuse",
        progress: Progress | None = None,
    ) -> Transferred:
        """Send files and directories to a server that takes them. Returns their bytes, with the time and the rate."""
        all_of = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        address = _names.raw_bytes_quoted(destination)
        return self._follow(
            self._natives(destination), lambda native: native.put(all_of, address, existing), progress
        )


_ALL = (1 << 63) - 1


def _client(options: _inhaul.Options) -> Client:
    arguments: dict[str, Any] = dict(options)
    arguments["parameters"] = dict(options["parameters"])
    return Client(**arguments)


def _open_set(client: Client, source: str, pins: dict[str, str] | str) -> _inhaul.DataSet:
    address = _names.raw_bytes_quoted(source)

    def begin(native: _inhaul.Client) -> _inhaul.Job[_inhaul.DataSet]:
        if isinstance(pins, str):
            return native.open_rooted(address, pins)
        return native.open(address, [(os.fsencode(path), digest) for path, digest in pins.items()])

    return client._run(client._natives(source), begin)


class DataSet:
    """An open data set: its description is here, and its sessions stay open. Can be pickled: it is opened anew there.

    Use it as a context manager, or :meth:`close` it. Threads may share it.
    """

    def __init__(
        self, client: Client, source: str, pins: dict[str, str] | str, native: _inhaul.DataSet | None = None
    ) -> None:
        # Pins are hashes of files, or the root of all.
        self._client, self._source, self._pins = client, source, pins
        # Without a reference to itself, so that it ends with the last other reference.
        self._set = _Here(partial(_open_set, client, source, pins))
        self._index: tuple[object, dict[str, File]] | None = None
        self._beneath: tuple[object, dict[str, tuple[list[File], list[str]]]] | None = None
        if native is None:
            self._set.get()
        else:
            self._set.put(native)

    def _native(self) -> _inhaul.DataSet:
        return self._set.get()

    def refresh(self) -> None:
        """Open it anew: its files are then the present ones. Running reads continue."""
        before = self._set.peek()
        self._set.put(_open_set(self._client, self._source, self._pins))
        if before is not None:
            before.close()

    def __reduce__(self) -> tuple[type[DataSet], tuple[Client, str, dict[str, str] | str]]:
        return DataSet, (self._client, self._source, self._pins)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DataSet({self.source!r})"

    def close(self) -> None:
        """Close its sessions."""
        native = self._set.peek()
        if native is not None:
            native.close()

    @property
    def source(self) -> str:
        """Where it is, without tickets."""
        return self._native().source

    @property
    def is_file(self) -> bool:
        """Whether it is one file, whose path is ``""``."""
        return self._native().is_file

    @property
    def files(self) -> Mapping[str, File]:
        """Its files, by their paths."""
        native, index = self._native(), self._index
        if index is None or index[0] is not native:
            files = {text: File(text, size, mtime) for path, size, mtime in native.files() for text in (_text(path),)}
            self._index = index = native, files
        return index[1]

    @property
    def directories(self) -> list[str]:
        """Paths of its directories."""
        return [_text(path) for path in self._native().directories()]

    def is_directory(self, path: str) -> bool:
        """Whether a path is a directory of it. ``""`` is the data set itself, if it is no file."""
        return path in self._tree()

    def children(self, path: str = "") -> tuple[list[File], list[str]]:
        """The files right beneath a directory, and the paths of the directories there."""
        found = self._tree().get(path)
        if found is None:
            raise NotADirectoryError(20, "there is no such directory in the data set", path)
        return list(found[0]), list(found[1])

    def _tree(self) -> dict[str, tuple[list[File], list[str]]]:
        native, tree = self._native(), self._beneath
        if tree is None or tree[0] is not native:
            beneath: dict[str, tuple[list[File], list[str]]] = {} if native.is_file else {"": ([], [])}
            for path in map(_text, native.directories()):
                beneath[path] = [], []
            for path in list(beneath):
                if path:
                    beneath.setdefault(path.rpartition("/")[0], ([], []))[1].append(path)
            if beneath:
                for path, file in self.files.items():
                    beneath.setdefault(path.rpartition("/")[0], ([], []))[0].append(file)
            self._beneath = tree = native, beneath
        return tree[1]

    @property
    def links(self) -> list[str]:
        """Paths of its symbolic links. A link's target is not among the files, and can be opened on its own."""
        return [_text(path) for path in self._native().links()]

    def __contains__(self, path: str) -> bool:
        return path in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def _place(self, path: str, start: int | None, end: int | None) -> _inhaul.Place:
        file = self.files.get(path)
        if file is None:
            raise FileNotFoundError(2, "there is no such file in the data set", path)
        first, last, _ = slice(start, end).indices(file.size)
        return os.fsencode(path), first, max(first, last)

    def start(self, ranges: Iterable[tuple[str, int | None, int | None]], *, ahead: bool = False) -> Read:
        """Begin to read ranges, in one request. ``ahead``: at low priority; they come only when no other read waits."""
        places = [self._place(path, start, end) for path, start, end in ranges]
        return Read(self._native().start(places, ahead))

    def read(self, path: str = "", start: int | None = None, end: int | None = None) -> bytes:
        """Bytes of a file, from ``start`` up to ``end``, as a slice takes them: both may be negative or ``None``."""
        (data,) = self.start([(path, start, end)]).result()
        return data

    def read_ranges(self, ranges: Iterable[tuple[str, int | None, int | None]]) -> list[bytes]:
        """Bytes of many ranges, in one request: a round trip for all of them."""
        return self.start(ranges).result()

    def start_into(self, ranges: Iterable[tuple[str, int | None, int | None]], buffers: Sequence[Buffer]) -> Read:
        """Begin to read ranges into writable buffers, such as numpy arrays, each as long as its range."""
        places = [self._place(path, start, end) for path, start, end in ranges]
        flat = [memoryview(buffer).cast("B") for buffer in buffers]
        return Read(self._native().start_into(places, flat))

    def read_into(self, buffer: Buffer, path: str = "", start: int | None = None, end: int | None = None) -> None:
        """Read a range into a writable buffer, which is as long as the range."""
        self.start_into([(path, start, end)], [buffer]).result()

    def read_to_file(
        self, path: str, start: int | None, end: int | None, destination: _Path, offset: int = 0
    ) -> None:
        """Read a range into a file on this host, from ``offset`` on; it is made if it is missing, and synced."""
        Read(self._native().start_file(self._place(path, start, end), destination, offset)).result()

    async def aread(self, path: str = "", start: int | None = None, end: int | None = None) -> bytes:
        """As :meth:`read`, for ``asyncio``."""
        (data,) = await self.start([(path, start, end)])
        return data

    async def aread_ranges(self, ranges: Iterable[tuple[str, int | None, int | None]]) -> list[bytes]:
        """As :meth:`read_ranges`, for ``asyncio``."""
        return await self.start(ranges)

    @property
    def stats(self) -> _inhaul.Stats:
        """Traffic so far: bytes of content and proofs, requests, mirrors and their round-trip time."""
        return self._native().stats()


class Read:
    """A running read. ``await`` it, or take its :meth:`result`."""

    def __init__(self, native: _inhaul.Read) -> None:
        self._read = native

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes that are there, and all."""
        return self._read.progress()

    def cancel(self) -> None:
        """End it now: who waits for it gets :class:`inhaul.errors.Interrupted`."""
        self._read.cancel()

    def result(self) -> list[bytes]:
        """Wait for its end: the bytes of each range, or nothing where they went into buffers or a file."""
        return self._read.result()

    def __await__(self) -> Generator[Any, None, list[bytes]]:
        return self._wait().__await__()

    async def _wait(self) -> list[bytes]:
        try:
            await _jobs.ended(self._read.on_end)
        except asyncio.CancelledError:
            self._read.cancel()
            raise
        return self._read.result()


class Server:
    """A server of files on this host, for tests and for programs that offer data. A context manager.

    :param paths: directories and files, whose names paths of addresses begin with: ``NAME/PATH``. The name of a single
        one may be left out. A mapping gives names of its own, which are never left out.
    :param public: whether everybody may list and read; without a ``state`` and not public, no client is admitted.
    :param state: directory of the server's key, of the keys and tokens that it lets in, and of its audit log.
    """

    def __init__(
        self,
        paths: _Path | Sequence[_Path] | Mapping[str, _Path],
        *,
        listen: str = "127.0.0.1:0",
        public: bool = False,
        state: _Path | None = None,
        send_rate: str | None = None,
    ) -> None:
        all_of: list[tuple[str | None, _Path]]
        if isinstance(paths, str | os.PathLike):
            all_of = [(None, paths)]
        elif isinstance(paths, Mapping):
            all_of = list(paths.items())
        else:
            all_of = [(None, path) for path in paths]
        self._server = _inhaul.Server.start(all_of, listen, public, state, send_rate).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Host and port."""
        return self._server.address

    def address_of(self, path: str = "") -> str:
        """The address of a path, with the fingerprint of the server's key behind its ``#``."""
        # Bytes that are not UTF-8 are not for the native function, which quotes the rest.
        start, _, key = self._server.address_of("").partition("#")
        return f"{start}{_names.quoted(path.lstrip('/'))}#{key}"

    def stop(self) -> None:
        """End it. In the child of a fork it does nothing: the server is its parent's."""
        self._server.stop().result()


def tqdm_progress(**arguments: Any) -> Progress:
    """A ``progress`` that shows a bar of ``tqdm``, which must be installed; arguments go to it."""
    from tqdm.auto import tqdm

    bar = tqdm(unit="B", unit_scale=True, **arguments)

    def hear(done: int, total: int, _bps: float) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return hear
