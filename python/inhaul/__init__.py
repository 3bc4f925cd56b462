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
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _inhaul
from .errors import InhaulError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer, Self

__all__ = ["Client", "DataSet", "File", "InhaulError", "Read", "Server", "tqdm_progress"]

_Path = str | os.PathLike[str]
Progress = Callable[[int, int, float], object]
"""Called with bytes that are done, all bytes, and bits per second, several times a second."""


@dataclass(frozen=True, slots=True)
class File:
    """A file or directory: ``path`` in its data set, ``size`` in bytes, ``mtime`` in seconds since 1970."""

    path: str
    size: int
    mtime: float
    type: str = "file"


def _text(path: bytes) -> str:
    return os.fsdecode(path)


class Client:
    """A client of ``inhaul`` servers: one data thread for all that it opens. Can be pickled: it is made anew there.

    :param state: directory of this user's key and of known servers; ``None``: the command line's; ``""``: none.
    :param accept_new: trust servers that are met for the first time, and remember them.
    :param ca: believe certificates of these authorities: a PEM file, or ``"system"``.
    :param proxy: reach servers through ``http://HOST:PORT`` or ``socks5://HOST:PORT``.
    :param receive_rate: what is taken in from all senders together at most, such as ``"850M"``, in bits per second.
    :param rate: the same for each sender.
    :param fallback: whether data may come over TLS where UDP does not pass: ``"auto"``, ``"never"``, ``"always"``.
    :param retry_for: seconds that servers are waited for that are not there.
    :param cache: directory for what was read, which is not asked for again; processes of one user may share it.
    :param cache_bytes: what it may take on the disk.
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
        receive_rate: str | None = None,
        rate: str | None = None,
        mtu: int | None = None,
        fallback: str = "auto",
        retry_for: float = 30.0,
        cache: _Path | None = None,
        cache_bytes: int = 10 << 30,
    ) -> None:
        self._options: _inhaul.Options = {
            "state": state,
            "accept_new": accept_new,
            "ca": ca,
            "proxy": proxy,
            "plaintext": plaintext,
            "transport": transport,
            "parameters": list((parameters or {}).items()),
            "receive_rate": receive_rate,
            "rate": rate,
            "mtu": mtu,
            "fallback": fallback,
            "retry_for": retry_for,
            "cache": None if cache is None else os.fspath(cache),
            "cache_bytes": cache_bytes,
        }
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._client = _inhaul.Client(self._options)

    def _native(self) -> _inhaul.Client:
        # Threads do not survive a fork: a child makes its own.
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._client = _inhaul.Client(self._options)
            return self._client

    def __reduce__(self) -> tuple[Callable[[_inhaul.Options], Client], tuple[_inhaul.Options]]:
        return _client, (self._options,)

    def open(self, source: str, *, pins: Mapping[str, str] | None = None, root: str | None = None) -> DataSet:
        """Open a data set: ``inhaul://HOST[:PORT][,MIRROR...]/PATH[#TICKET]``.

        :param pins: BLAKE3 hashes of files, by their paths, in hexadecimal digits. Nothing else is taken for their bytes.
        :param root: one hash for all files: the root that stands in the list of ``inhaul manifest``.
        """
        if pins and root:
            raise ValueError("pins and a root say the same: give one of them")
        return DataSet(self, source, root or dict(pins or {}))

    def ls(self, source: str, *, recursive: bool = False) -> list[File]:
        """What there is at a source, without opening it."""
        rows = self._native().entries(source, recursive)
        return [File(_text(path), size, mtime, kind) for path, size, kind, mtime in rows]

    def checksums(self, source: str) -> dict[str, str]:
        """The BLAKE3 hash of every file at a source, as a server computes it, in hexadecimal digits."""
        return {_text(path): digest for path, digest in self._native().checksums(source)}

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
    ) -> int:
        """Fetch data sets to files, as ``inhaul get`` does, verified; the same call goes on after an interruption.

        :return: bytes of the data sets.
        """
        all_of = [sources] if isinstance(sources, str) else list(sources)
        done, _ = self._native().get(
            all_of,
            destination,
            include=list(include),
            exclude=list(exclude),
            checksum=checksum,
            existing=existing,
            hear=progress,
        )
        return done

    def put(
        self,
        paths: _Path | Sequence[_Path],
        destination: str,
        *,
        existing: str = "refuse",
        progress: Progress | None = None,
    ) -> int:
        """Send files and directories to a server that takes them. Returns their bytes."""
        all_of = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        done, _ = self._native().put(all_of, destination, existing, progress)
        return done


def _client(options: _inhaul.Options) -> Client:
    arguments: dict[str, Any] = dict(options)
    arguments["parameters"] = dict(options["parameters"])
    return Client(**arguments)


class DataSet:
    """An open data set: its description is here, and its sessions stay open. Can be pickled: it is opened anew there.

    Use it as a context manager, or :meth:`close` it. Threads may share it.
    """

    def __init__(self, client: Client, source: str, pins: dict[str, str] | str) -> None:
        # Pins are hashes of files, or the root of all.
        self._client, self._source, self._pins = client, source, pins
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._set = self._open()
        self._index: dict[str, File] | None = None

    def _open(self) -> _inhaul.DataSet:
        native, pins = self._client._native(), self._pins
        if isinstance(pins, str):
            return native.open_rooted(self._source, pins)
        return native.open(self._source, list(pins.items()))

    def _native(self) -> _inhaul.DataSet:
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._set = self._open()
                self._index = None
            return self._set

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
        self._native().close()

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
        native = self._native()
        if self._index is None:
            self._index = {_text(path): File(_text(path), size, mtime) for path, size, mtime in native.files()}
        return self._index

    @property
    def directories(self) -> list[str]:
        """Paths of its directories."""
        return [_text(path) for path in self._native().directories()]

    def __contains__(self, path: str) -> bool:
        return path in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def _place(self, path: str, start: int | None, end: int | None) -> _inhaul.Place:
        file = self.files.get(path)
        if file is None:
            raise FileNotFoundError(2, "there is no such file in the data set", path)
        first, last, _ = slice(start, end).indices(file.size)
        return path, first, max(first, last)

    def start(self, ranges: Iterable[tuple[str, int | None, int | None]], *, ahead: bool = False) -> Read:
        """Begin to read ranges, in one request. ``ahead``: nobody waits for them; they come when nothing else is wanted."""
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
        """What has come so far: bytes of content and proofs, requests, mirrors and their round-trip time."""
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
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not ended.done():
                ended.set_result(None)

        def on_end() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                pass

        self._read.on_end(on_end)
        try:
            await ended
        except asyncio.CancelledError:
            self._read.cancel()
            raise
        return self._read.result()


class Server:
    """A server of files on this host, for tests and for programs that offer data. A context manager.

    :param public: whether everybody may list and read; without a ``state`` nobody else is let in.
    :param state: directory of the server's key, of the keys and tokens that it lets in, and of its audit log.
    """

    def __init__(
        self,
        paths: _Path | Sequence[_Path],
        *,
        listen: str = "127.0.0.1:0",
        public: bool = False,
        state: _Path | None = None,
        send_rate: str | None = None,
    ) -> None:
        all_of = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self._server = _inhaul.Server(all_of, listen, public, state, send_rate)

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
        """The address of what lies at a path, with the fingerprint of the server's key behind its ``#``."""
        return self._server.address_of(path)

    def stop(self) -> None:
        """End it."""
        self._server.stop()


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
