"""Scenarios, sweeps and their results. Simulated, so every value is the same on every machine."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from inhaul import errors, lab
from inhaul.lab.scenarios import toml
from inhaul.lab.sweeps import _run

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

STAR = """
title = "two of ten"
duration = "500 ms"
record = "50 ms"
repetitions = 2

[topology.star]
access = { rate = "10 Mbit/s", queue = "20 ms", loss = "0.1 %" }
senders = [
  { name = "near", rtt = "10 ms", link = { rate = "100 Mbit/s" } },
  { name = "far", rtt = "40 ms", link = { rate = "100 Mbit/s" } },
]

[[flows]]
name = "n"
protocol = "gtp"
from = "near"
to = "receiver"

[[flows]]
name = "f"
protocol = "gtp"
from = "far"
to = "receiver"

[[sweep]]
key = "flows.*.protocol"
values = ["gtp", "reno"]
"""
GRID = {"topology.star.access.loss": ["0 %", "1 %"]}


def star() -> lab.Scenario:
    return lab.load(STAR)


def test_experiments_are_those_of_the_papers_and_can_be_loaded_by_name() -> None:
    everything = lab.experiments()
    papers = {experiment.paper for experiment in everything}
    assert papers == {"beyond", "eval-2004", "fhstcp-2005", "gtp-2004", "rbudp-plus-2006", "udt-2004"}
    assert all("## What must come out" in experiment.readme for experiment in everything)
    items = [experiment.name.partition("/")[2] for experiment in lab.experiments("fhstcp-2005")]
    assert items == ["fig3", "fig3-scaled", "table1"]
    fig7 = lab.load("gtp-2004/fig7")
    assert fig7.experiment == "gtp-2004/fig7" and fig7.cells[0].protocols["flow4"] == "gtp"


def test_load_takes_files_and_text_and_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "star.toml"
    file.write_text(star().text)
    assert lab.load(file).cells == star().cells == lab.load(str(file)).cells
    with pytest.raises(errors.NotFound, match="Did you mean 'gtp-2004/fig7'.*nor is there such a file"):
        lab.load("fig7")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        lab.load("none.toml")
    with pytest.raises(errors.ScenarioError, match="there is no protocol 'gpt'") as refused:
        lab.load(star().text.replace('"gtp", "reno"', '"gtp", "gpt"'))
    assert isinstance(refused.value, ValueError)
    with pytest.raises(errors.ScenarioError, match="scenario:3:12:") as refused:
        lab.load(star().text.replace('"500 ms"', '"500 metres"'))
    assert (refused.value.line, refused.value.column) == (3, 12)
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(errors.ScenarioError, match="at most 1048576 bytes"):
        lab.load(file)


def test_values_are_written_as_the_scenario_has_them() -> None:
    value: Any = [{"name": 'a "b"\n', "set": {"x.y": 1, "on": True}}, 0.5]
    name = '"a \\U00000022b\\U00000022\\U0000000a"'
    assert toml(value) == '[{ "name" = ' + name + ', "set" = { "x.y" = 1, "on" = true } }, 0.5]'
    assert toml("20 ms") == "20 ms"
    changed = star().set({"sweep": [{"cases": [{"name": 'a "b"'}]}], "flows.n.mtu": 1000})
    assert [cell.case for cell in changed.cells] == ['a "b"']
    with pytest.raises(errors.ScenarioError, match="is no value of a scenario"):
        star().set({"duration": object()})  # type: ignore[dict-item]


def test_a_result_has_types_and_frames_that_agree() -> None:
    result = star().run(seed=3, threads=2)
    assert [(run.case, run.seed) for run in result.runs] == [
        (f"protocol = {name}", seed) for name in ("gtp", "reno") for seed in (3, 4)
    ]
    run = result.runs[0]
    assert run.valid and run.metrics.jain_index is not None and run.metrics.jain_index > 0.9
    assert run.flow("f").rtt_ms == 40 and len(run.flow("f").series) == 10

    flows = result.flows()
    assert list(flows.columns[:4]) == ["case", "seed", "flow", "protocol"] and len(flows) == 8
    assert flows["goodput_bps"].tolist() == [flow.goodput_bps for run in result.runs for flow in run.flows]
    series = result.series("polars")
    assert series.columns == ["case", "seed", "flow", "t_s", "goodput_bps"] and series.height == 80
    assert result.links()["link"].tolist().count("access") == 4
    assert result.metrics("polars")["trace"].to_list() == [run.trace for run in result.runs]
    for to_pandas, to_polars in [(flows, result.flows("polars")), (result.series(), series)]:
        assert to_pandas.where(to_pandas.notna(), None).values.tolist() == [list(row) for row in to_polars.rows()]
    with pytest.raises(errors.UsageError, match="not 'arrow'"):
        result.flows("arrow")  # type: ignore[call-overload]
    with pytest.raises(errors.UsageError, match="only experiments have"):
        result.table()


def test_the_classes_of_a_result_have_the_fields_of_its_json() -> None:
    def check(made: Any, document: Any) -> None:
        if dataclasses.is_dataclass(made):
            names = [field.name for field in dataclasses.fields(made)]
            assert names == list(document), type(made)
            for name in names:
                check(getattr(made, name), document[name])
        elif isinstance(made, tuple):
            assert len(made) == len(document)
            for one, other in zip(made, document, strict=True):
                check(one, other)
        else:
            assert made == document

    result = lab.load("gtp-2004/fig12").quick().run()
    lines = [json.loads(line) for line in result.json().splitlines()]
    check(result.runs, lines)
    stepped = lab.Stepper(star(), case="protocol = gtp").run().run
    check(stepped, json.loads(star().run(repetitions=1).json().splitlines()[0]))


def test_an_experiment_is_judged_as_on_the_command_line() -> None:
    result = lab.load("gtp-2004/fig7").run()
    table = result.table()
    assert list(table.columns) == ["case", "quantity", "mean", "ci95", "samples", "runs", "published", "unit"]
    index = table[table["quantity"] == "metrics.jain_index"].iloc[0]
    assert index["published"] == 1.0 and index["mean"] == pytest.approx(result.run.metrics.jain_index)
    # Of rates in windows, which are not in the JSON.
    early = table[table["quantity"] == "flows.flow1.goodput_bps[1..2]"].iloc[0]
    assert early["mean"] > 900e6
    assert result.verdicts and all(verdict.passed for verdict in result.verdicts)
    assert result.checks()["passed"].all() and result.run.checks == result.verdicts
    with pytest.raises(errors.ScenarioError, match="has no quick settings"):
        lab.load("gtp-2004/fig7").quick()
    paper = lab.load("gtp-2004/fig7").paper_control()
    assert dict(paper.settings)["flows.*.parameters.control"] == "paper"


def test_neither_pandas_nor_polars_nor_dask_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from inhaul import lab; lab.load('gtp-2004/fig12').quick().run();"
        "assert not {'pandas', 'polars', 'distributed', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=120)


def test_runs_tell_how_far_they_are_and_what_is_raised_then_ends_them() -> None:
    endless = star().set({"duration": "20000 s", "record": "10 s"})
    heard: list[float] = []

    def enough(part: float) -> None:
        heard.append(part)
        if len(heard) == 3:
            raise OverflowError("enough")

    with pytest.raises(OverflowError, match="enough"):
        endless.run(progress=enough)
    assert len(heard) == 3 and all(0 <= part < 1 for part in heard)


def test_ctrl_c_ends_runs() -> None:
    endless = star().set({"duration": "20000 s", "record": "10 s"})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for run in (lambda: endless.run(), lambda: lab.Stepper(endless, case="protocol = gtp").run()):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                run()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_sweep_is_the_same_wherever_it_runs() -> None:
    told: list[float] = []
    here = lab.sweep(star(), GRID, seed=7, workers=2)
    assert here.json() == lab.sweep(star(), GRID, seed=7, workers=1).json()
    metrics = here.metrics()
    assert metrics["topology.star.access.loss"].tolist() == ["0 %", "0 %", "1 %", "1 %"] * 2
    assert metrics["case"].iloc[2] == "protocol = gtp, loss = 1 %"
    # A seed makes a run of its own where there is chance, and loss alone is chance here.
    trace = metrics.groupby("topology.star.access.loss")["trace"]
    assert trace.nunique()["1 %"] == 4, metrics
    assert metrics["seed"].tolist() == [7, 8] * 4

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        spread = lab.sweep(star(), GRID, seed=7, client=processes, progress=told.append)
    assert told == [k / 8 for k in range(1, 9)]
    pandas.testing.assert_frame_equal(spread.metrics(), metrics)
    pandas.testing.assert_frame_equal(spread.series(), here.series())
    with pytest.raises(errors.UsageError, match="workers are for threads"):
        lab.sweep(star(), client="tcp://127.0.0.1:1", workers=3)


def test_a_sweep_over_a_cluster_is_the_same_as_here() -> None:
    distributed = pytest.importorskip("distributed")
    here = lab.sweep(star(), GRID, repetitions=1)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as client:
            there = lab.sweep(star(), GRID, repetitions=1, client=client)
        by_address = lab.sweep(star(), GRID, repetitions=1, client=cluster.scheduler_address)
    for other in (there, by_address):
        pandas.testing.assert_frame_equal(other.flows(), here.flows())
        assert other.series("polars").equals(here.series("polars")) and other.json() == here.json()


def test_a_worker_with_another_release_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="a worker has inhaul .*, but the sweep is of 0.0.1: install the same"):
        _run(star(), 0, 1, "0.0.1")


def test_scenarios_can_be_pickled() -> None:
    scenario = star().set({"duration": "1 s"}).vary(GRID)
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario and again.cells == scenario.cells
