"""Serves a directory from Python and reads a file of it from Python: read.py DIRECTORY. For packaging/check."""

import sys
from pathlib import Path

import inhaul

folder = Path(sys.argv[1])
expected = (folder / "large").read_bytes()
client = inhaul.Client()
with inhaul.Server(folder, public=True) as server:
    with client.open(server.address_of("large")) as data_set:
        assert data_set.read("", 1000, 2_000_000) == expected[1000:2_000_000]
