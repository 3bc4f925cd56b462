"""The laboratory: scenarios in the simulator, sweeps on threads or a cluster, and control laws of one's own.

>>> from inhaul import lab
>>> result = lab.load("gtp-2004/table4").quick().run()                        # doctest: +SKIP
>>> result.flows()                                                             # doctest: +SKIP
>>> lab.sweep(scenario, {"topology.star.access.loss": ["0 %", "0.1 %"]}, client="tcp://head:8786")  # doctest: +SKIP

A simulated run is the same to the byte on every machine, on any number of threads. docs/python-lab.md says more.
"""

from __future__ import annotations

from .._inhaul import AckSample, LawConfig, Limits, LossSample, RateSample
from .results import Epoch, Flow, Group, Link, Metrics, Point, Result, Run, ScaleIndex, Verdict
from .scenarios import Cell, Experiment, Scenario, experiments, load
from .stepper import FlowState, Law, LinkState, Stepper
from .sweeps import sweep

__all__ = [
    "AckSample",
    "Cell",
    "Epoch",
    "Experiment",
    "Flow",
    "FlowState",
    "Group",
    "Law",
    "LawConfig",
    "Limits",
    "Link",
    "LinkState",
    "LossSample",
    "Metrics",
    "Point",
    "RateSample",
    "Result",
    "Run",
    "ScaleIndex",
    "Scenario",
    "Stepper",
    "Verdict",
    "experiments",
    "load",
    "sweep",
]
