"""Runs a command in a host of an emulated network, and records meanwhile the bytes of its device and its UDP sockets:
`python3 sampler.py FILE COMMAND [ARGUMENT ...]`. Needs nothing of the rig, since it runs in the host."""

import json
import subprocess
import sys
import time

# A tenth of a round-trip time of 50 ms; it costs the host 1 to 2 % of a processor.
PERIOD_SECONDS = 0.005
DEVICE = "grid0:"


def main():
    file, *command = sys.argv[1:]
    samples = [sample()]
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            samples.append(sample())
            time.sleep(PERIOD_SECONDS)
    with open(file, "w", encoding="utf-8") as out:
        json.dump(samples, out)
    sys.exit(process.returncode)


def sample():
    """Now in seconds; bytes and packets that the device has received; datagrams that were sent, and that found no room in a socket's buffer."""
    received = next(line.split() for line in lines("/proc/net/dev") if line.split()[0] == DEVICE)
    names, values = (line.split() for line in lines("/proc/net/snmp") if line.startswith("Udp:"))
    udp = dict(zip(names[1:], map(int, values[1:])))
    return [time.monotonic(), int(received[1]), int(received[2]), udp["OutDatagrams"], udp["RcvbufErrors"]]


def lines(path):
    with open(path, encoding="ascii") as file:
        return file.readlines()


if __name__ == "__main__":
    main()
