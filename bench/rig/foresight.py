"""A receiver's foreseen pauses, compared with the actual ones: read from its log, as a table and as a plot."""

import re

# The contestant that only logs foreseen pauses. If a contestant acts on a pause, the pause changes, and does not show
# the quality of the prediction.
LOGGED = "udt, logged"
LINE = re.compile(r"inhaul_udp::watch::watcher: (?P<what>.*)$")
SOURCES = ("quota", "switches", "run-delay", "competitors", "disk")
COLOURS = {"quota": "#1b6ca8", "switches": "#b8500a", "run-delay": "#3a7d2c", "competitors": "#7a3f9d", "disk": "#555555"}


def read(log):
    """The pauses, and of each source its forecasts that came (foreseen and actual) and that did not; times in ms."""
    pauses, stalls, right, wrong, cost = [], [], {}, {}, None
    for line in log.splitlines():
        found = LINE.search(line)
        words = found["what"].split() if found else []
        numbers = [round(int(word) / 1e6, 3) for word in words if word.isdigit()]
        if words[:3] == ["the", "watcher", "took"]:
            cost = float(words[3])
        elif words[:1] == ["pause"]:
            pauses.append(numbers)
        elif words[:1] == ["stall"]:
            stalls.append(numbers)
        elif words[1:2] == ["right"]:
            right.setdefault(words[0], []).append(numbers)
        elif words[1:2] == ["wrong"]:
            wrong.setdefault(words[0], []).append(numbers)
    return {"pauses": pauses, "stalls": stalls, "right": right, "wrong": wrong, "cost_ms": cost}


def scores(rows):
    """For each condition and source: precision, recall, errors, over all runs that only logged."""
    found = {}
    for row in uninfluenced(rows):
        seen = row["foresight"]
        for source in SOURCES:
            actual = seen["stalls"] if source == "disk" else seen["pauses"]
            right, wrong = seen["right"].get(source, []), seen["wrong"].get(source, [])
            if not actual and not right and not wrong:
                continue
            sums = found.setdefault((row["condition"], source), {"actual": 0, "caught": 0, "right": [], "wrong": 0})
            sums["actual"] += len(actual)
            sums["caught"] += sum(any(overlap(pause, r[:2]) for r in right) for pause in actual)
            sums["right"] += right
            sums["wrong"] += len(wrong)
    return found


def uninfluenced(rows):
    return [row for row in rows if row["name"] == LOGGED]


def overlap(pause, foreseen, tolerance=3.0):
    """Whether two pauses overlap, or nearly, as the watcher itself judges."""
    return foreseen[0] <= pause[0] + pause[1] + tolerance and pause[0] <= foreseen[0] + foreseen[1] + tolerance


def table(rows):
    lines = [
        "| receiver | source | pauses | mean length | foreseen | precision | recall | error of start | error of length |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (condition, source), sums in scores(rows).items():
        right, count = sums["right"], len(sums["right"]) + sums["wrong"]
        mean = lambda values: f"{sum(values) / len(values):.2f} ms" if values else "–"
        lengths = [pause[1] for row in uninfluenced(rows) if row["condition"] == condition for pause in row["foresight"]["stalls" if source == "disk" else "pauses"]]
        part = lambda of, whole: f"{of / whole:.0%}" if whole else "–"
        cells = [condition, source, sums["actual"], mean(lengths), count, part(len(right), count), part(sums["caught"], sums["actual"])]
        cells += [mean([abs(r[0] - r[2]) for r in right]), mean([abs(r[1] - r[3]) for r in right])]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def plot(rows, size=360, margin=50):
    """Foreseen against actual lengths of the pauses that came, one panel for each condition, as SVG."""
    rows = uninfluenced(rows)
    conditions = list(dict.fromkeys(row["condition"] for row in rows if row["foresight"]["right"]))
    points = {c: [(s, r) for row in rows if row["condition"] == c for s, list_ in row["foresight"]["right"].items() for r in list_] for c in conditions}
    out = []
    for column, condition in enumerate(conditions):
        most = max([1.0] + [max(r[1], r[3]) for _, r in points[condition]]) * 1.05
        x0 = column * (size + margin) + margin
        at = lambda value, most=most: value / most * (size - margin)
        out.append(f'<g transform="translate({x0},{size})">')
        out.append(f'<text x="0" y="{-size + 30}" font-weight="bold">{condition}: length of pauses, ms</text>')
        out.append(f'<path d="M0,{-at(most)} V0 H{at(most)}" fill="none" stroke="#333"/><path d="M0,0 L{at(most):.1f},{-at(most):.1f}" stroke="#bbb" stroke-dasharray="4"/>')
        for tick in range(5):
            value = most * tick / 4
            out.append(f'<text x="{at(value):.1f}" y="16" text-anchor="middle">{value:.0f}</text><text x="-6" y="{-at(value) + 4:.1f}" text-anchor="end">{value:.0f}</text>')
        out.append(f'<text x="{at(most) / 2:.1f}" y="34" text-anchor="middle">actual</text><text transform="translate(-34,{-at(most) / 2:.1f}) rotate(-90)" text-anchor="middle">foreseen</text>')
        for source, (_, foreseen, _, actual) in points[condition]:
            out.append(f'<circle cx="{at(actual):.1f}" cy="{-at(foreseen):.1f}" r="2.5" fill="{COLOURS[source]}" fill-opacity="0.5"/>')
        out.append("</g>")
    for number, source in enumerate(SOURCES):
        out.append(f'<circle cx="{margin + 110 * number}" cy="{size + 60}" r="4" fill="{COLOURS[source]}"/><text x="{margin + 8 + 110 * number}" y="{size + 64}">{source}</text>')
    width = max(1, len(conditions)) * (size + margin) + margin
    body = "\n".join(out)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{size + 80}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
