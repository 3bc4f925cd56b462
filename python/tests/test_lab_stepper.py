"""Runs that are moved on step by step, and control laws that are written in Python."""

from __future__ import annotations

import math

import pytest

from inhaul import errors, lab

LINE = """
title = "two flows over one link"
duration = "20 s"

[topology.dumbbell]
bottleneck = { rate = "10 Mbit/s", queue = "40 ms" }
pairs = [
  { sender = "a", receiver = "b", rtt = "30 ms" },
  { sender = "c", receiver = "d", rtt = "60 ms" },
]

[[flows]]
name = "near"
protocol = "reno"
from = "a"
to = "b"

[[flows]]
name = "far"
protocol = "reno"
from = "c"
to = "d"
start = "1 s"
"""


class Aimd(lab.Law):
    """One packet more in each round trip, half the window at a loss."""

    def __init__(self, config: lab.LawConfig) -> None:
        self.window, self.threshold = float(config.initial_window_packets), math.inf

    def on_ack(self, ack: lab.AckSample) -> None:
        if ack.window_limited and not ack.held:
            slow = self.window < self.threshold
            self.window += ack.delivered_packets if slow else ack.delivered_packets / self.window

    def on_loss(self, loss: lab.LossSample) -> None:
        self.window = self.threshold = max(self.window / 2, 2)

    def limits(self) -> lab.Limits:
        return lab.Limits(self.window, slow_start=self.window < self.threshold)


class Reno(lab.Law):
    """The built-in law of that name, to the letter (crates/protocols/src/laws/windowed.rs)."""

    def __init__(self, config: lab.LawConfig) -> None:
        self.window = self.initial = float(config.initial_window_packets)
        self.most = float(config.window_max_packets)
        self.threshold = math.inf
        self.before: tuple[float, float] | None = None

    def on_ack(self, ack: lab.AckSample) -> None:
        if ack.held or not ack.window_limited:
            return
        left = ack.delivered_packets
        if self.window < self.threshold:
            room = min(self.threshold - self.window, self.most)
            grown = min(left, math.ceil(room))
            self.window = min(self.window + grown, self.threshold)
            left -= grown
        if left > 0 and self.window >= self.threshold:
            self.window += left / self.window
        self.window = min(self.window, self.most)

    def on_loss(self, loss: lab.LossSample) -> None:
        self.before = (self.window, self.threshold)
        self.window = self.threshold = max(self.window * 0.5, 2.0)

    def on_timeout(self, loss: lab.LossSample, repeated: bool) -> None:
        if not repeated:
            self.on_loss(loss)
        self.window = min(loss.in_flight_packets + 1.0, self.most)

    def on_spurious(self, now_s: float) -> None:
        if self.before:
            window, self.threshold = self.before
            self.window, self.before = max(window, self.window), None

    def on_idle(self, now_s: float) -> None:
        self.window = min(self.window, self.initial)

    def limits(self) -> lab.Limits:
        return lab.Limits(max(self.window, 1), slow_start=self.window < self.threshold)


def test_a_law_in_python_that_is_reno_makes_the_same_run_as_the_built_in_one() -> None:
    scenario = lab.load(LINE)
    built_in = scenario.run().run
    assert built_in.metrics.loss_ratio > 0, "the law is put to the test"
    assert lab.Stepper(scenario).run().run.trace == built_in.trace
    for law in (Reno, {"near": Reno, "f*": Reno}):
        mine = lab.Stepper(scenario, law=law).run()
        assert mine.run.trace == built_in.trace
        assert mine.flows().equals(scenario.run().flows())


def test_aimd_in_a_dozen_lines_shares_as_reno_does() -> None:
    scenario = lab.load(LINE)
    mine, reno = lab.Stepper(scenario, law=Aimd).run().run, scenario.run().run
    assert lab.Stepper(scenario, law=Aimd).run().run.trace == mine.trace, "the same each time"
    for one, other in zip(mine.flows, reno.flows, strict=True):
        assert one.measured_bps == pytest.approx(other.measured_bps, rel=0.1)
    # Beside the built-in law, it is as fair as that is to itself.
    beside = lab.Stepper(scenario, law={"far": Aimd}).run().run
    assert beside.metrics.jain_index == pytest.approx(reno.metrics.jain_index, rel=0.1)


def test_steps_show_flows_links_and_queues_as_they_stand() -> None:
    stepper = lab.Stepper(lab.load(LINE))
    assert (stepper.now_s, stepper.end_s, stepper.is_over) == (0.0, 20.0, False)
    assert stepper.step() == 1 and stepper.step(10) == 10
    stepper.run_until(0.9)
    assert stepper.now_s == 0.9 and [flow.phase for flow in stepper.flows] == ["running", "waiting"]
    assert stepper.flow("far").placed_bytes == 0
    queues = []
    while stepper.now_s < 5:
        stepper.run_for(0.05)
        queues.append(stepper.link("bottleneck").queue_bytes)
    near, link = stepper.flow("near"), stepper.link("bottleneck")
    assert near.phase == "running" and near.rtt_ms >= 30 and near.window_bytes > 0 and near.lost_packets > 0
    assert link.rate_bps == 10_000_000 and 0 < max(queues) <= link.queue_bytes_max <= 50_000
    assert link.offered_packets > near.received_packets > 0 and link.dropped_packets > 0
    so_far = stepper.result().run
    assert so_far.duration_s == pytest.approx(5, abs=0.06) and so_far.flow("near").bytes == near.placed_bytes
    # Steps do not change the run.
    assert stepper.run().run.trace == lab.load(LINE).run().run.trace
    assert stepper.is_over and stepper.step() == 0
    with pytest.raises(ValueError, match="time does not go back"):
        stepper.run_until(1)


def test_a_paced_law_keeps_its_rate() -> None:
    class Slow(Aimd):
        def limits(self) -> lab.Limits:
            return lab.Limits(1000, pace_bps=2e6)

    flow = lab.Stepper(lab.load(LINE), law={"near": Slow}).run().run.flow("near")
    assert 1.7e6 < flow.measured_bps < 2e6


def test_what_a_law_raises_comes_out_and_ends_the_run() -> None:
    class Boom(Aimd):
        def on_loss(self, loss: lab.LossSample) -> None:
            raise ZeroDivisionError(f"at {loss.now_s}")

    stepper = lab.Stepper(lab.load(LINE), law={"near": Boom})
    with pytest.raises(ZeroDivisionError, match="at 0"):
        stepper.run()
    assert 0 < stepper.now_s < 5, "it can be looked at"
    with pytest.raises(errors.SimulationError, match="a law has raised an exception"):
        stepper.step()

    class Unbuilt(Aimd):
        def __init__(self, config: lab.LawConfig) -> None:
            raise LookupError(config.flow)

    with pytest.raises(LookupError, match="near"):
        lab.Stepper(lab.load(LINE), law=Unbuilt).run()

    class Wordy(Aimd):
        def limits(self) -> lab.Limits:
            return "all"  # type: ignore[return-value]

    with pytest.raises(TypeError):
        lab.Stepper(lab.load(LINE), law=Wordy).run()
    with pytest.raises(ValueError, match="a window is a number of packets, not NaN"):
        lab.Limits(math.nan)
    with pytest.raises(ValueError, match="at least 1; None does not pace"):
        lab.Limits(1, pace_bps=0)
    with pytest.raises(ValueError, match="not by both"):
        lab.Limits(1, pace_bps=1e6, blocks=2)


def test_a_law_cannot_look_at_its_own_stepper() -> None:
    class Curious(Aimd):
        def on_ack(self, ack: lab.AckSample) -> None:
            assert stepper.flows

    stepper = lab.Stepper(lab.load(LINE), law=Curious)
    with pytest.raises(ValueError, match="in the middle of a step"):
        stepper.run()


def test_laws_and_cases_that_there_are_not_are_refused() -> None:
    with pytest.raises(errors.UsageError, match="there is no flow 'fra'; there are: near, far"):
        lab.Stepper(lab.load(LINE), law={"fra": Aimd})
    with pytest.raises(errors.UsageError, match="has the protocol gtp, whose law cannot be exchanged"):
        lab.Stepper(lab.load(LINE).set({"flows.far.protocol": "gtp"}), law=Aimd)
    two = lab.load(LINE).vary({"flows.*.protocol": ["reno", "cubic"]})
    with pytest.raises(errors.ScenarioError, match="has 2 cases: say which one, like case='protocol = reno'"):
        lab.Stepper(two)
    with pytest.raises(errors.ScenarioError, match="has no case 'bbr'"):
        lab.Stepper(two, case="bbr")
    with pytest.raises(TypeError):
        lab.Law(None)  # type: ignore[abstract, arg-type]
