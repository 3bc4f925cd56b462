"""Sweeps: the runs of a scenario on the threads of this machine, on processes, or over a Dask cluster.

A run depends on the scenario and its seed alone, so it does not matter where it is made.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .results import Result
from .scenarios import Progress, Scenario, Value

if TYPE_CHECKING:
    import distributed

__all__ = ["sweep"]


def sweep(
    scenario: Scenario,
    grid: Mapping[str, Sequence[Value]] | None = None,
    *,
    seed: int | None = None,
    repetitions: int | None = None,
    client: distributed.Client | Executor | str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Runs the scenario's own sweep, with every combination of the values of ``grid`` in each cell.

    :param client: makes the runs: a ``distributed.Client``, the address of a Dask scheduler, or an executor of
        ``concurrent.futures``. ``None``: threads of this process. The results do not depend on it.
    :param workers: simulations at once, without ``client``. By default as many as processors.
    :param progress: is called with the part that is done.
    """
    scenario = scenario.vary(grid or {}).seeded(seed, repetitions)
    if client is None:
        return scenario.run(threads=workers, progress=progress)
    if workers is not None:
        raise UsageError("workers are for threads of this process: a cluster or an executor has its own")
    if isinstance(client, str):
        from distributed import Client

        with Client(client, set_as_default=False) as cluster:  # type: ignore[no-untyped-call]
            return _spread(scenario, cluster, progress)
    return _spread(scenario, client, progress)


def _version() -> str:
    return importlib.metadata.version("inhaul")


def _run(scenario: Scenario, cell: int, seed: int, version: str) -> str:
    """One run, where it is made. Another release may simulate differently."""
    if version != _version():
        raise UsageError(f"a worker has inhaul {_version()}, but the sweep is of {version}: install the same")
    return scenario.run_text(cell, seed)


def _spread(scenario: Scenario, client: Any, progress: Progress | None) -> Result:
    """Has others make the runs. If one fails, or the user has enough, the rest is cancelled."""
    jobs, version = scenario.jobs, _version()
    futures = [client.submit(_run, scenario, cell, seed, version) for cell, seed in jobs]
    texts: list[str] = []
    try:
        for future in futures:
            texts.append(future.result())
            if progress is not None:
                progress(len(texts) / len(futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return scenario.result(texts)
