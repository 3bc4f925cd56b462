"""Kept results of a bench, from which it prints its table."""

import argparse
import datetime
import json
import re
from pathlib import Path

from . import machine as this_machine

KEPT = Path(__file__).resolve().parent.parent / "results"


def kept_file(name):
    """Where a bench keeps its results, as the type of an argument. Those of the repository name the commit that makes them again, so
    they are not made from changed sources."""
    file = Path(name)
    commit = this_machine.commit()
    if KEPT in file.resolve().parents and (commit is None or commit.endswith(this_machine.DIRTY)):
        raise argparse.ArgumentTypeError(
            f"{name} must name a commit that makes it again, and the source here is changed ({commit}): commit the changes, or give a file outside of {KEPT}"
        )
    return file


def write(file, machine, **measured):
    """Writes the measurements, with their time and machine."""
    finished = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    text = json.dumps({"finished": finished, "machine": machine, **measured}, indent=1)
    # A list of numbers on one line: there may be thousands.
    text = re.sub(r"\[\s+([-+\d.eE,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    file.write_text(text + "\n", encoding="utf-8")


def read(file):
    """What `write` has written."""
    return json.loads(file.read_text(encoding="utf-8"))
