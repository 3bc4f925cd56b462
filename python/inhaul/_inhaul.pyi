from collections.abc import Callable, Sequence
from os import PathLike
from typing import TypedDict

class Options(TypedDict):
    state: str | None
    accept_new: bool
    ca: str | None
    proxy: str | None
    plaintext: bool
    transport: str | None
    parameters: list[tuple[str, str]]
    receive_rate: str | None
    rate: str | None
    mtu: int | None
    fallback: str
    retry_for: float
    cache: str | None
    cache_bytes: int

class Stats(TypedDict):
    wanted_bytes: int
    cached_bytes: int
    placed_bytes: int
    proof_bytes: int
    proof_requests: int
    parts: int
    mirrors: int
    rtt_seconds: float

Hear = Callable[[int, int, float], object]
Place = tuple[str, int, int]

class Client:
    def __new__(cls, options: Options) -> Client: ...
    def open(self, source: str, pins: list[tuple[str, str]]) -> DataSet: ...
    def open_rooted(self, source: str, root: str) -> DataSet: ...
    def entries(self, source: str, recursive: bool) -> list[tuple[bytes, int, str, float]]: ...
    def checksums(self, source: str) -> list[tuple[bytes, str]]: ...
    def get(
        self,
        sources: list[str],
        destination: str | PathLike[str],
        *,
        include: list[str],
        exclude: list[str],
        checksum: bool,
        existing: str,
        hear: Hear | None,
    ) -> tuple[int, float]: ...
    def put(
        self, paths: Sequence[str | PathLike[str]], destination: str, existing: str, hear: Hear | None
    ) -> tuple[int, float]: ...

class DataSet:
    @property
    def source(self) -> str: ...
    @property
    def is_file(self) -> bool: ...
    def files(self) -> list[tuple[bytes, int, float]]: ...
    def directories(self) -> list[bytes]: ...
    def start(self, ranges: list[Place], ahead: bool) -> Read: ...
    def start_into(self, ranges: list[Place], views: list[memoryview]) -> Read: ...
    def start_file(self, place: Place, path: str | PathLike[str], offset: int) -> Read: ...
    def stats(self) -> Stats: ...
    def close(self) -> None: ...

class Read:
    def progress(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def on_end(self, then: Callable[[], object]) -> None: ...
    def result(self) -> list[bytes]: ...

class Server:
    def __new__(
        cls,
        paths: Sequence[str | PathLike[str]],
        listen: str,
        public: bool,
        state: str | PathLike[str] | None,
        send_rate: str | None,
    ) -> Server: ...
    @property
    def address(self) -> str: ...
    def address_of(self, path: str) -> str: ...
    def stop(self) -> None: ...
