from collections.abc import Callable, Sequence
from os import PathLike
from typing import Generic, TypedDict, TypeVar

T_co = TypeVar("T_co", covariant=True)

def forks() -> int: ...

class Job(Generic[T_co]):
    def wait(self, seconds: float) -> bool: ...
    def result(self) -> T_co: ...
    def progress(self) -> tuple[int, int, float]: ...
    def on_end(self, then: Callable[[], object]) -> None: ...
    def cancel(self) -> None: ...

class Options(TypedDict):
    state: str | None
    accept_new: bool
    ca: str | None
    proxy: str | None
    plaintext: bool
    transport: str | None
    parameters: list[tuple[str, str]]
    policy: str | None
    receive_rate: str | None
    rate: str | None
    mtu: int | None
    fallback: str
    retry_for: float
    cache: str | None
    cache_bytes: int
    tickets: list[str]
    token_file: str | None

class Stats(TypedDict):
    wanted_bytes: int
    cached_bytes: int
    placed_bytes: int
    proof_bytes: int
    proof_requests: int
    parts: int
    mirrors: int
    rtt_seconds: float

Place = tuple[bytes, int, int]

class Client:
    def __new__(cls, options: Options) -> Client: ...
    def open(self, source: str, pins: list[tuple[bytes, str]]) -> Job[DataSet]: ...
    def open_rooted(self, source: str, root: str) -> Job[DataSet]: ...
    def entries(
        self, source: str, recursive: bool, rows_max: int
    ) -> Job[list[tuple[bytes, int, str, float]]]: ...
    def checksums(self, source: str) -> Job[list[tuple[bytes, str]]]: ...
    def get(
        self,
        sources: list[str],
        destination: str | PathLike[str],
        *,
        include: list[str],
        exclude: list[str],
        only: list[bytes] | None,
        checksum: bool,
        existing: str,
        dial: PolicyDial | None,
    ) -> Job[tuple[int, str]]: ...
    def put(
        self, paths: Sequence[str | PathLike[str]], destination: str, existing: str
    ) -> Job[tuple[int, str]]: ...

class PolicyDial:
    def __new__(cls) -> PolicyDial: ...
    def set(self, policy: str) -> None: ...

class DataSet:
    @property
    def source(self) -> str: ...
    @property
    def is_file(self) -> bool: ...
    def files(self) -> list[tuple[bytes, int, float]]: ...
    def directories(self) -> list[bytes]: ...
    def links(self) -> list[bytes]: ...
    def items(self) -> list[tuple[bytes, str, int, int, bytes]]: ...
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
    @staticmethod
    def start(
        paths: Sequence[tuple[str | None, str | PathLike[str]]],
        listen: str,
        public: bool,
        state: str | PathLike[str] | None,
        send_rate: str | None,
    ) -> Job[Server]: ...
    @property
    def address(self) -> str: ...
    def address_of(self, path: str) -> str: ...
    def stop(self) -> Job[None]: ...

# The laboratory: see inhaul/lab. A run's results are JSON.

Settings = list[tuple[str, str]]

class LabExperiment:
    name: str
    title: str
    source: str
    scenario: str
    readme: str
    quick: Settings
    control_paper: Settings

def lab_experiments() -> list[LabExperiment]: ...
def lab_experiment(name: str) -> LabExperiment: ...
def lab_judge(name: str, runs: list[str]) -> str: ...

class LabScenario:
    def __new__(
        cls, name: str, file: str, text: str, set: Settings, grid: list[tuple[str, list[str]]]
    ) -> LabScenario: ...
    @property
    def title(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def repetitions(self) -> int: ...
    def cells(self) -> list[tuple[str, Settings, list[tuple[str, str]]]]: ...
    def run(
        self, jobs: Sequence[tuple[int, int]], threads: int, hear: Callable[[float], object] | None
    ) -> list[str]: ...

class LawConfig:
    flow: str
    initial_window_packets: int
    window_max_packets: int
    seed: int

class RateSample:
    packets_per_s: float
    prior_delivered_packets: int
    delivered_packets: int
    lost_packets: int
    in_flight_at_send_packets: int
    app_limited: bool

class AckSample:
    now_s: float
    delivered_packets: int
    lost_packets: int
    in_flight_packets: int
    packet_bytes: int
    rtt_ms: float | None
    smoothed_rtt_ms: float
    round_began: bool
    window_limited: bool
    held: bool
    paced: bool
    rate: RateSample | None

class LossSample:
    now_s: float
    in_flight_packets: int

class Limits:
    window_packets: float
    pace_bps: float | None
    blocks: int | None
    slow_start: bool
    def __new__(
        cls,
        window_packets: float,
        *,
        pace_bps: float | None = None,
        blocks: int | None = None,
        slow_start: bool = False,
    ) -> Limits: ...

class LabStepper:
    def __new__(
        cls, scenario: LabScenario, cell: int, seed: int, laws: list[tuple[str, Callable[[LawConfig], object]]]
    ) -> LabStepper: ...
    @property
    def now_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...
    @property
    def is_over(self) -> bool: ...
    def advance(self, until_s: float, events: int | None) -> int: ...
    def finish(self) -> None: ...
    def flows(self) -> str: ...
    def links(self) -> str: ...
    def result(self) -> str: ...
