"""What a bench keeps, and reads again to print its table."""

import datetime
import json
import re


def write(file, machine, **measured):
    """Writes what was measured, with when it was and on which machine."""
    finished = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    text = json.dumps({"finished": finished, "machine": machine, **measured}, indent=1)
    # A list of numbers on one line: there may be thousands.
    text = re.sub(r"\[\s+([-+\d.eE,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    file.write_text(text + "\n", encoding="utf-8")


def read(file):
    """What `write` has written."""
    return json.loads(file.read_text(encoding="utf-8"))
