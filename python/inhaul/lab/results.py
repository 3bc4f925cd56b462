"""Results of runs: objects with types, and frames of pandas or polars. docs/json.md explains every field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .. import _inhaul
from ..errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Epoch", "Flow", "Group", "Link", "Metrics", "Point", "Result", "Run", "ScaleIndex", "Verdict"]

Pandas = Literal["pandas"]
Polars = Literal["polars"]


@dataclass(frozen=True, slots=True)
class Point:
    """A mean rate over the time since the point before."""

    t_s: float
    goodput_bps: float


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow."""

    name: str
    protocol: str
    group: str | None
    background: bool
    rtt_ms: float
    rtt_measured_ms: float | None
    start_s: float
    stop_s: float
    bytes: int
    goodput_bps: float
    measured_bps: float
    ideal_bps: float | None
    loss_ratio: float
    held_s: float | None
    failure: str | None
    series: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Flows taken together."""

    name: str
    flows: int
    measured_bps: float
    jain_index: float | None
    loss_ratio: float


@dataclass(frozen=True, slots=True)
class Link:
    """One link."""

    name: str
    rate_bps: int | None
    utilisation: float | None
    measured_utilisation: float | None
    drop_ratio: float
    marked_packets: int | None
    queue_bytes_max: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of time in which the same flows were active over the same links."""

    from_s: float
    to_s: float
    flows: int
    convergence_s: float | None
    jain_index_ideal: float | None
    ideal_bps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScaleIndex:
    """Fairness at a time scale."""

    scale_s: float
    jain_index: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """A run's metrics."""

    jain_index: float | None
    jain_index_ideal: float | None
    min_max_ratio: float | None
    aggregate_goodput_bps: float
    aggregate_over_ideal: float | None
    convergence_s: float | None
    convergence_mean_s: float | None
    converged_ratio: float | None
    loss_ratio: float
    stability_index: float | None
    stability_interval_s: float | None
    influence_ratio: float | None
    sender_cpu_s_per_gb: float | None
    receiver_cpu_s_per_gb: float | None
    jain_by_scale: tuple[ScaleIndex, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A check, and its outcome."""

    what: str
    expected: str
    found: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    experiment: str
    case: str
    backend: str
    seed: int
    valid: bool
    invalid_reason: str | None
    attempts: int
    duration_s: float
    measured_s: tuple[float, float]
    flows: tuple[Flow, ...]
    groups: tuple[Group, ...]
    links: tuple[Link, ...]
    epochs: tuple[Epoch, ...]
    metrics: Metrics
    published: Mapping[str, float]
    checks: tuple[Verdict, ...]
    packet_hops: int
    trace: str

    def flow(self, name: str) -> Flow:
        """The flow of that name."""
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise KeyError(name)


_T = TypeVar("_T")
_PARTS: dict[str, type[Any]] = {
    "Run.flows": Flow,
    "Run.groups": Group,
    "Run.links": Link,
    "Run.epochs": Epoch,
    "Run.metrics": Metrics,
    "Run.checks": Verdict,
    "Flow.series": Point,
    "Metrics.jain_by_scale": ScaleIndex,
}
"""The fields that are objects, or lists of them."""


def _made(cls: type[_T], document: Mapping[str, Any]) -> _T:
    """An object of its JSON. Fields that a later release adds are passed over."""
    values: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        value, part = document[field.name], _PARTS.get(f"{cls.__name__}.{field.name}")
        if isinstance(value, list):
            value = tuple(_made(part, one) for one in value) if part else tuple(value)
        elif part:
            value = _made(part, value)
        values[field.name] = value
    return cls(**values)


class Result:
    """The runs of a scenario, in the order of its cells, then seeds."""

    def __init__(
        self, texts: Sequence[str], experiment: str | None = None, grid: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        """``texts``: the JSON of runs. ``experiment`` judges them. ``grid``: the varied values, by case."""
        self._texts = tuple(texts)
        self._experiment = experiment
        self._grid = dict(grid or {})

    @cached_property
    def _judged(self) -> dict[str, Any]:
        if self._experiment is None:
            return {"runs": [json.loads(text) for text in self._texts], "table": None, "checks": None}
        judged: dict[str, Any] = json.loads(_inhaul.lab_judge(self._experiment, list(self._texts)))
        return judged

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"<inhaul.lab.Result: {len(self)} runs>"

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs."""
        return tuple(_made(Run, document) for document in self._judged["runs"])

    @property
    def run(self) -> Run:
        """The run, if there is one only."""
        if len(self) != 1:
            raise UsageError(f"there are {len(self)} runs: say which one, like runs[0]")
        return self.runs[0]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The checks of the experiment."""
        return tuple(_made(Verdict, check) for check in self._of_experiment("checks"))

    def json(self) -> str:
        """One object on a line for each run, as ``inhaul lab run --json`` prints them."""
        return "".join(json.dumps(document) + "\n" for document in self._judged["runs"])

    def _of_experiment(self, what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] | None = self._judged[what]
        if found is None:
            raise UsageError("only experiments have published values and checks: load one by its name")
        return found

    def _heads(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Each run, and the beginning of its rows."""
        for document in self._judged["runs"]:
            yield document, {"case": document["case"], "seed": document["seed"], **self._grid.get(document["case"], {})}

    @overload
    def flows(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def flows(self, to: Polars) -> polars.DataFrame: ...
    def flows(self, to: str = "pandas") -> Any:
        """A row for each flow of each run."""
        columns = [field.name for field in fields(Flow) if field.name not in ("name", "series")]
        rows = [
            {**head, "flow": flow["name"], **{name: flow[name] for name in columns}}
            for run, head in self._heads()
            for flow in run["flows"]
        ]
        return frame(rows, to)

    @overload
    def series(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def series(self, to: Polars) -> polars.DataFrame: ...
    def series(self, to: str = "pandas") -> Any:
        """The rates of all flows over time: a row for each sample."""
        rows = [
            {**head, "flow": flow["name"], **point}
            for run, head in self._heads()
            for flow in run["flows"]
            for point in flow["series"]
        ]
        return frame(rows, to)

    @overload
    def links(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def links(self, to: Polars) -> polars.DataFrame: ...
    def links(self, to: str = "pandas") -> Any:
        """A row for each link of each run."""
        columns = [field.name for field in fields(Link) if field.name != "name"]
        rows = [
            {**head, "link": link["name"], **{name: link[name] for name in columns}}
            for run, head in self._heads()
            for link in run["links"]
        ]
        return frame(rows, to)

    @overload
    def metrics(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def metrics(self, to: Polars) -> polars.DataFrame: ...
    def metrics(self, to: str = "pandas") -> Any:
        """A row for each run, with its metrics."""
        of_run = ("valid", "duration_s", "packet_hops", "trace")
        columns = [field.name for field in fields(Metrics) if field.name != "jain_by_scale"]
        rows = [
            {**head, **{name: run[name] for name in of_run}, **{name: run["metrics"][name] for name in columns}}
            for run, head in self._heads()
        ]
        return frame(rows, to)

    @overload
    def table(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def table(self, to: Polars) -> polars.DataFrame: ...
    def table(self, to: str = "pandas") -> Any:
        """Our means beside the paper's values, in bits per second, ratios and seconds."""
        return frame(self._of_experiment("table"), to)

    @overload
    def checks(self, to: Pandas = ...) -> pandas.DataFrame: ...
    @overload
    def checks(self, to: Polars) -> polars.DataFrame: ...
    def checks(self, to: str = "pandas") -> Any:
        """The experiment's checks, and their found values."""
        return frame(self._of_experiment("checks"), to)


def frame(rows: Sequence[Mapping[str, Any]], to: str) -> Any:
    """Rows as a frame. Neither library is imported before it is asked for."""
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    if to == "pandas":
        import pandas

        return pandas.DataFrame(columns)
    if to == "polars":
        import polars

        return polars.DataFrame(columns, strict=False)
    raise UsageError(f"frames are made 'pandas' or 'polars', not '{to}'")
