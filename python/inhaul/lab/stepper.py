"""A simulated run that is moved on step by step, with control laws of one's own."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from .._inhaul import AckSample, LawConfig, Limits, LossSample
from .results import Result
from .scenarios import Scenario

__all__ = ["FlowState", "Law", "LinkState", "Stepper"]


class Law(ABC):
    """A congestion control law: small and pure. It repairs nothing and sends nothing.

    It maps measurements to limits of sending. Times are simulated seconds. After each call it is asked for its
    :meth:`limits`. To stay deterministic, it takes random numbers from ``config.seed`` alone, and looks at no clock.
    """

    rules_recovery: bool = False
    """Whether the window holds while losses are repaired, too. Otherwise the sender comes down to it in proportion to
    what is delivered (RFC 9937)."""

    def __init__(self, config: LawConfig) -> None:
        """A law for a flow that starts."""

    @abstractmethod
    def on_ack(self, ack: AckSample) -> None:
        """An acknowledgement reported something new."""

    @abstractmethod
    def on_loss(self, loss: LossSample) -> None:
        """Packets were lost: once per round trip with losses."""

    def on_timeout(self, loss: LossSample, repeated: bool) -> None:
        """All packets in flight count as lost. ``repeated``: the law knows of these losses already."""
        if not repeated:
            self.on_loss(loss)

    def on_recovered(self, now_s: float) -> None:
        """All lost packets have been acknowledged."""

    def on_spurious(self, now_s: float) -> None:
        """The last loss or timeout was a mistake."""

    def on_idle(self, now_s: float) -> None:
        """Nothing was sent for longer than a retransmission timeout."""

    @abstractmethod
    def limits(self) -> Limits:
        """Limits of sending. A window below 1 counts as 1 packet."""


MakeLaw = Callable[[LawConfig], Law]
"""Builds the law of a flow that starts: a subclass of :class:`Law`, or any callable."""

Phase = Literal["waiting", "running", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class FlowState:
    """State of a flow. Counters run from its start; values that no end measures are zero. Rates include headers."""

    name: str
    protocol: str
    phase: Phase
    failure: str | None
    placed_bytes: int
    wire_bytes: int
    received_packets: int
    lost_packets: int
    rtt_ms: float
    received_bps: int
    target_bps: int
    requested_bps: int
    window_bytes: int
    queue_delay_ms: float


@dataclass(frozen=True, slots=True)
class LinkState:
    """How a link stands. Counters run from the start of the run."""

    name: str
    rate_bps: int | None
    queue_bytes: int
    queue_packets: int
    queue_bytes_max: int
    offered_packets: int
    carried_bytes: int
    dropped_packets: int


class Stepper:
    """A run of one cell of a scenario, from time zero. The same steps or others, the run is the same.

    >>> stepper = Stepper(lab.load("gtp-2004/fig8").quick(), case="protocol = reno", law=Aimd)   # doctest: +SKIP
    >>> while not stepper.is_over:                                                                # doctest: +SKIP
    ...     stepper.run_for(0.1)
    ...     print(stepper.now_s, stepper.link("access").queue_bytes)
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        law: MakeLaw | Mapping[str, MakeLaw] | None = None,
        case: str | None = None,
        seed: int | None = None,
    ) -> None:
        """A run at time zero.

        :param law: the law of all flows, or laws by the names of flows, which may end in ``*``. These flows have a
            protocol of the TCP family, whose law it replaces.
        :param case: which cell, if there is more than one.
        """
        laws = dict(law) if isinstance(law, Mapping) else {} if law is None else {"*": law}
        self._scenario = scenario
        self._native = scenario.stepper_of(case, seed, list(laws.items()))
        self._case = case or ""

    @property
    def now_s(self) -> float:
        """What time it is."""
        return self._native.now_s

    @property
    def end_s(self) -> float:
        """When the run ends."""
        return self._native.end_s

    @property
    def is_over(self) -> bool:
        """Whether the end has come, or every flow has a size and is complete."""
        return self._native.is_over

    def step(self, events: int = 1) -> int:
        """The next events: a packet that arrives, a deadline, a change. Returns how many were left before the end."""
        return self._native.advance(self.end_s, events)

    def run_until(self, t_s: float) -> int:
        """Lets time pass until ``t_s``, but not beyond the end. Returns the number of events.

        An exception in a law is raised here. The run cannot continue then.
        """
        return self._native.advance(t_s, None)

    def run_for(self, seconds: float) -> int:
        """Lets time pass, in seconds. Returns the number of events."""
        return self.run_until(self.now_s + seconds)

    def run(self) -> Result:
        """Lets the rest of the time pass. The result is what :meth:`Scenario.run` has for it."""
        self._native.finish()
        return self.result()

    @property
    def flows(self) -> list[FlowState]:
        """The flows, in the order of the scenario."""
        return [FlowState(**state) for state in json.loads(self._native.flows())]

    def flow(self, name: str) -> FlowState:
        """The flow of that name."""
        return {flow.name: flow for flow in self.flows}[name]

    @property
    def links(self) -> list[LinkState]:
        """The links, in the order of the scenario."""
        return [LinkState(**state) for state in json.loads(self._native.links())]

    def link(self, name: str) -> LinkState:
        """The link of that name."""
        return {link.name: link for link in self.links}[name]

    def result(self) -> Result:
        """The run until now, as if it had ended. It is not judged: it has laws that no paper knows."""
        document = json.loads(self._native.result())
        document |= {"experiment": self._scenario.name, "case": self._case}
        return Result([json.dumps(document)])
