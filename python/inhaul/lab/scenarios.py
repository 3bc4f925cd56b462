"""Experiments and scenarios: reading, changing and running them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _inhaul
from ..errors import NotFound, ScenarioError
from .results import Result

__all__ = ["Cell", "Experiment", "Scenario", "experiments", "load"]

_TEXT_MAX = 1 << 20
"""Largest file that is read, in bytes: no scenario is larger."""

Value = str | int | float | bool | list[Any] | dict[str, Any]
"""A value of a scenario. Text has the form of the command line's ``--set``: ``"20 ms"``, ``"cubic"``, ``"[]"``."""

Progress = Callable[[float], object]
"""Receives the part of all runs that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table of a paper, or an experiment beyond them."""

    name: str
    """``PAPER/ITEM``: what :func:`load` takes."""
    title: str
    source: str
    """Where the paper has it."""
    readme: str
    """The expected result, the criteria, and the deviations."""

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of a sweep's values; a scenario without a sweep has one."""

    case: str
    settings: Mapping[str, str]
    """The sweep's settings in it."""
    protocols: Mapping[str, str]
    """Its flows, and their protocols."""


def experiments(paper: str | None = None) -> list[Experiment]:
    """The built-in experiments: all, or those of a paper."""
    found = (Experiment(e.name, e.title, e.source, e.readme) for e in _inhaul.lab_experiments())
    return [experiment for experiment in found if paper in (None, experiment.paper)]


def load(what: str | os.PathLike[str]) -> Scenario:
    """A scenario: of an experiment by its name, of a TOML file, or of TOML text (which has several lines)."""
    name = os.fspath(what)
    if isinstance(what, str) and "\n" in what:
        return Scenario("scenario", what)
    if isinstance(what, str) and not os.path.exists(what):
        try:
            experiment = _inhaul.lab_experiment(name)
        except NotFound as unknown:
            if name.endswith(".toml"):
                raise NotFound(2, "there is no such file", name) from None
            raise NotFound(f"{unknown}; nor is there such a file") from None
        return Scenario(name, experiment.scenario, experiment=name)
    with open(what, "rb") as file:
        text = file.read(_TEXT_MAX + 1)
    if len(text) > _TEXT_MAX:
        raise ScenarioError(f"{name}: a scenario has at most {_TEXT_MAX} bytes")
    try:
        return Scenario(name, text.decode())
    except UnicodeDecodeError:
        raise ScenarioError(f"{name}: a scenario is text in UTF-8") from None


@dataclass(frozen=True)
class Scenario:
    """A scenario that was read and checked (docs/scenario.md). It can be pickled."""

    name: str
    text: str = field(repr=False)
    settings: tuple[tuple[str, str], ...] = ()
    """Changes of its text."""
    grid: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Values varied beside its own sweep."""
    experiment: str | None = None
    _native: _inhaul.LabScenario = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        file = f"experiments/{self.name}/scenario.toml" if self.experiment else self.name
        grid = [(key, list(values)) for key, values in self.grid]
        native = _inhaul.LabScenario(self.name, file, self.text, list(self.settings), grid)
        object.__setattr__(self, "_native", native)

    def __reduce__(self) -> tuple[type[Scenario], tuple[Any, ...]]:
        return Scenario, (self.name, self.text, self.settings, self.grid, self.experiment)

    @property
    def title(self) -> str:
        """Its description."""
        return self._native.title

    @property
    def seed(self) -> int:
        """Seed of the first repetition; each further one has the next."""
        return self._native.seed

    @property
    def repetitions(self) -> int:
        """How often each cell is run."""
        return self._native.repetitions

    @property
    def cells(self) -> list[Cell]:
        """The cells of its sweep."""
        return [Cell(case, dict(settings), dict(flows)) for case, settings, flows in self._native.cells()]

    @property
    def jobs(self) -> list[tuple[int, int]]:
        """All of its runs: cells by their numbers, and seeds."""
        seeds = range(self.seed, self.seed + self.repetitions)
        return [(cell, seed) for cell in range(len(self._native.cells())) for seed in seeds]

    def set(self, changes: Mapping[str, Value]) -> Scenario:
        """The same with changes, like ``{"duration": "5 s", "flows.*.protocol": "cubic"}``."""
        more = tuple((key, toml(value)) for key, value in changes.items())
        return Scenario(self.name, self.text, self.settings + more, self.grid, self.experiment)

    def vary(self, grid: Mapping[str, Sequence[Value]]) -> Scenario:
        """The same with more dimensions of its sweep: every combination of these values is a cell."""
        more = tuple((key, tuple(toml(value) for value in values)) for key, values in grid.items())
        return Scenario(self.name, self.text, self.settings, self.grid + more, self.experiment)

    def quick(self) -> Scenario:
        """The experiment scaled down to seconds. Its checks need not pass then."""
        return self._with("quick settings", lambda experiment: experiment.quick)

    def paper_control(self) -> Scenario:
        """The experiment with GTP as the paper has it: capacities are given (``--control paper``)."""
        return self._with("control of the paper", lambda experiment: experiment.control_paper)

    def _with(self, what: str, pick: Callable[[_inhaul.LabExperiment], list[tuple[str, str]]]) -> Scenario:
        settings = pick(_inhaul.lab_experiment(self.experiment)) if self.experiment else []
        if not settings:
            raise ScenarioError(f"{self.name} has no {what}")
        return self.set(dict(settings))

    def run(
        self,
        *,
        seed: int | None = None,
        repetitions: int | None = None,
        set: Mapping[str, Value] | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Result:
        """Runs every cell and repetition in the simulator. Other Python threads go on meanwhile; Ctrl-C ends it.

        :param set: changes, as :meth:`set` takes them.
        :param threads: simulations at once; the results do not depend on it. By default as many as processors.
        :param progress: is called several times a second with the part that is done. An exception in it ends the runs.
        """
        scenario = self.seeded(seed, repetitions, set)
        texts = scenario._native.run(scenario.jobs, threads or os.cpu_count() or 1, progress)
        return scenario.result(texts)

    def seeded(self, seed: int | None, repetitions: int | None, set: Mapping[str, Value] | None = None) -> Scenario:
        """The same with changes, its seed and repetitions among them."""
        changes: dict[str, Value] = dict(set or {})
        changes |= {} if seed is None else {"seed": seed}
        changes |= {} if repetitions is None else {"repetitions": repetitions}
        return self.set(changes) if changes else self

    def run_text(self, cell: int, seed: int) -> str:
        """One run, as JSON."""
        return self._native.run([(cell, seed)], 1, None)[0]

    def result(self, texts: Sequence[str]) -> Result:
        """Results of runs, from their JSON texts."""
        keys = [key for key, _ in self.grid]
        grid = {cell.case: {key: cell.settings[key] for key in keys} for cell in self.cells} if keys else {}
        return Result(texts, self.experiment, grid)

    def stepper_of(
        self, case: str | None, seed: int | None, laws: list[tuple[str, Callable[[_inhaul.LawConfig], object]]]
    ) -> _inhaul.LabStepper:
        """A run of one cell at time zero; see :class:`inhaul.lab.Stepper`."""
        cases = [cell.case for cell in self.cells]
        if case is None and len(cases) > 1:
            raise ScenarioError(f"{self.name} has {len(cases)} cases: say which one, like case={cases[0]!r}")
        if case is not None and case not in cases:
            raise ScenarioError(f"{self.name} has no case {case!r}; it has: {', '.join(map(repr, cases))}")
        at = 0 if case is None else cases.index(case)
        return _inhaul.LabStepper(self._native, at, self.seed if seed is None else seed, laws)


def toml(value: Value) -> str:
    """A value as ``--set`` takes it."""
    return value if isinstance(value, str) else _inline(value)


def _inline(value: object) -> str:
    """A value as TOML in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
        return f'"{escaped}"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_inline(str(key))} = {_inline(part)}" for key, part in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_inline, value)) + "]"
    raise ScenarioError(f"{value!r} is no value of a scenario: take text, numbers, booleans, lists and mappings")
