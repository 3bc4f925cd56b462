"""Servers of real files over loopback."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import inhaul

# Nothing of this user's keys is read or written.
os.environ["INHAUL_STATE"] = os.environ.get("INHAUL_STATE", "")


def content(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all sizes, in directories."""
    root = tmp_path_factory.mktemp("tree")
    for name, size in {"a": 10, "empty": 0, "d/one": 5000, "d/e/two": 3_000_000, "d/three": 1_048_577}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(size, size))
    return root


@pytest.fixture(scope="session")
def server(tree: Path) -> Iterator[inhaul.Server]:
    with inhaul.Server(tree, public=True) as running:
        yield running


@pytest.fixture(scope="session")
def client() -> inhaul.Client:
    return inhaul.Client(state="")
