"""Runs programs beside each other in a host of an emulated network, and records meanwhile the received bytes of each:
`python3 beside.py PLAN FILE`. Needs nothing of the rig, since it runs in the host.

PLAN is JSON: `seconds`, and `programs`, each with `name`, `start` (seconds), `command`, and `file`: its size is the
number of received bytes. Without
`file` the program is `inhaul get --json-stream`, which tells."""

import json
import os
import signal
import subprocess
import sys
import time

PERIOD_SECONDS = 0.1


class Program:
    """A program of the plan, and its samples: seconds since the start of all, and bytes received until then."""

    def __init__(self, plan, began):
        self.plan, self.began, self.samples, self.text = plan, began, [], b""
        self.process = subprocess.Popen(plan["command"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)

    def look(self):
        """Takes its received bytes until now. A program that has ended before the others has failed."""
        if self.process.poll() is not None:
            raise SystemExit(f"{self.plan['name']} ended with {self.process.returncode} before it was measured")
        file = self.plan.get("file")
        received = self._told() if file is None else os.path.getsize(file) if os.path.exists(file) else 0
        if received is not None:
            self.samples.append([round(time.monotonic() - self.began, 4), received])

    def _told(self):
        self.text += self.process.stdout.read() or b""
        *lines, self.text = self.text.split(b"\n")
        told = [json.loads(line).get("received_bytes") for line in lines if line.startswith(b"{")]
        return told[-1] if told else None

    def stop(self):
        for number, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(patience)
                return
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    # A signal unwinds, so that no program is left.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    began, waiting, running = time.monotonic(), list(plan["programs"]), []
    try:
        while (now := time.monotonic() - began) < plan["seconds"]:
            for one in [one for one in waiting if one["start"] <= now]:
                waiting.remove(one)
                running.append(Program(one, began))
            for program in running:
                program.look()
            time.sleep(PERIOD_SECONDS)
    finally:
        for program in running:
            program.stop()
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump([{"name": program.plan["name"], "samples": program.samples} for program in running], out)


if __name__ == "__main__":
    main()
