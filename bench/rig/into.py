"""Reads a remote file into one numpy array, again and again, and prints the seconds of each read: into.py URL TIMES."""

import json
import sys
import time

import inhaul
import numpy


def main():
    url, times = sys.argv[1], int(sys.argv[2])
    with inhaul.Client(accept_new=True).open(url) as data_set:
        (file,) = data_set.files.values()
        array = numpy.zeros(file.size, dtype=numpy.uint8)
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            data_set.read_into(array)
            seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
