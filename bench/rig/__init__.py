"""The benchmark rig: networks, processes, contestants and their report."""
