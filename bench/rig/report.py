"""The table of a run, made only from its JSON."""

# Columns between the contestant and its loss: heading, field of the row, contestant that it is divided by, format. A
# column without values in the run is left out.
COLUMNS = (
    ("Gbit/s", "goodput_bps", None, "{:.2f}"),
    ("of raw UDP", "goodput_bps", "raw-udp", "{:.0%}"),
    ("of raw sealed", "goodput_bps", "raw-udp-sealed", "{:.0%}"),
    ("× UDT 4", "goodput_bps", "udt4", "{:.1f}"),
    ("× s2n-quic", "goodput_bps", "s2n-quic", "{:.2f}"),
    ("× quinn", "goodput_bps", "quinn", "{:.2f}"),
    ("CPU s/GB", "cpu_seconds_per_gigabyte", None, "{:.3f}"),
    ("of UDT 4's", "cpu_seconds_per_gigabyte", "udt4", "{:.2f}"),
    ("of s2n-quic's", "cpu_seconds_per_gigabyte", "s2n-quic", "{:.2f}"),
    ("of quinn's", "cpu_seconds_per_gigabyte", "quinn", "{:.2f}"),
    ("machine CPU s/GB", "machine_cpu_seconds_per_gigabyte", None, "{:.3f}"),
)
# Inhaul's UDT: its transport, and the foreign wire at both ends and at one.
UDT = ("inhaul-udt", "udt4-ours", "udt4-ours-to-libudt", "libudt-to-udt4-ours")


def table(results):
    """The whole run in Markdown."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    parts = [
        f"# {results['date']}, {results['extent']}",
        f"{machine['cpu']}, {machine['cores']} cores, {'virtual' if machine['virtual'] else 'metal'}, "
        f"Linux {machine['kernel']}, rmem_max {machine['rmem_max_bytes']}. {versions}.",
        *_sections(results["rows"]),
        *_ratios(results["rows"]),
        *_udt_ratios(results["rows"]),
    ]
    return "\n\n".join(parts) + "\n"


def _sections(rows):
    """One table for each case, its contestants below each other."""
    contestants = {row["contestant"] for row in rows if "goodput_bps" in row}
    columns = [column for column in COLUMNS if column[2] is None or column[2] in contestants]
    names = ["contestant", *(name for name, *_ in columns), "lost or resent", "stolen"]
    for case in dict.fromkeys(row["case"] for row in rows):
        members = [row for row in rows if row["case"] == case]
        lines = [f"## {case}", "", "| " + " | ".join(names) + " |", "|---" + "|---:" * (len(names) - 1) + "|"]
        lines += ["| " + " | ".join(_cells(row, members, columns)) + " |" for row in members]
        yield "\n".join(lines)


def _cells(row, members, columns):
    if "goodput_bps" not in row:
        return [row["contestant"], row["absent"]] + [""] * (len(columns) + 1)
    figures = [_figure(row, members, column) for column in columns]
    return [row["contestant"], *figures, _losses(row), f"{row['stolen_ratio']:.1%}"]


def _figure(row, members, column):
    """The row's own figure, or its part of another contestant's in the same case."""
    _, field, other, form = column
    value = _quotient(row, members, other, field) if other else row[field] * (1e-9 if field == "goodput_bps" else 1)
    return "" if value is None else form.format(value)


def _losses(row):
    if row.get("loss_ratio") is not None:
        return f"{row['loss_ratio']:.4%}"
    return f"{row['retransmits']} segments" if "retransmits" in row else ""


def _quotient(row, members, rival, field):
    """The row's value over its rival's in the same case; None where there is no rival."""
    other = next((each for each in members if each["contestant"] == rival and each.get(field)), None)
    return row[field] / other[field] if other is not None and field in row else None


def _ratios(rows):
    """Where inhaul stands: its worst and best ratio to each rival over the cases, each case in itself."""
    questions = (
        ("throughput of raw UDP, single sender", "raw-udp", "goodput_bps", lambda case: case.endswith("/1")),
        ("throughput of raw UDP, three senders", "raw-udp", "goodput_bps", lambda case: case.endswith("/3")),
        ("throughput of raw sealed UDP", "raw-udp-sealed", "goodput_bps", None),
        ("throughput of inhaul in the clear", "inhaul-plain", "goodput_bps", None),
        ("CPU per gigabyte of inhaul in the clear", "inhaul-plain", "cpu_seconds_per_gigabyte", None),
        ("throughput of s2n-quic", "s2n-quic", "goodput_bps", None),
        ("CPU per gigabyte of s2n-quic", "s2n-quic", "cpu_seconds_per_gigabyte", None),
        ("throughput of quinn", "quinn", "goodput_bps", None),
        ("CPU per gigabyte of quinn", "quinn", "cpu_seconds_per_gigabyte", None),
        ("throughput of gathered raw UDP, single sender", "raw-udp-gather", "goodput_bps", lambda case: case.endswith("/1")),
        ("throughput of kernel TCP, 128 KiB writes", "tcp", "goodput_bps", None),
        ("throughput of kernel TCP, 1 MiB writes", "tcp-1m", "goodput_bps", None),
        ("throughput of UDT 4", "udt4", "goodput_bps", None),
        ("CPU per gigabyte of UDT 4", "udt4", "cpu_seconds_per_gigabyte", None),
        ("throughput of aria2 from three nginx", "aria2+nginx", "goodput_bps", None),
    )
    lines = []
    for text, rival, field, wanted in questions:
        found = []
        for row in rows:
            if row["contestant"] == "inhaul" and (wanted is None or wanted(row["case"])):
                members = [each for each in rows if each["case"] == row["case"]]
                value = _quotient(row, members, rival, field)
                found += [(value, row["case"])] if value is not None else []
        if found:
            (low, where_low), (high, where_high) = min(found), max(found)
            lines.append(f"| {text} | {low:.2f} | {where_low} | {high:.2f} | {where_high} |")
    if lines:
        head = ["## inhaul's share", "", "| of the | lowest | where | highest | where |", "|---|---:|---|---:|---|"]
        yield "\n".join(head + lines)


def _udt_ratios(rows):
    """Where each stands that speaks UDT, or came of it: its worst and best ratio to libudt over the cases."""
    lines = []
    for name in ("srt", *UDT):
        cells = []
        for field in ("goodput_bps", "cpu_seconds_per_gigabyte"):
            found = []
            for row in rows:
                members = [each for each in rows if each["case"] == row["case"]]
                value = _quotient(row, members, "udt4", field) if row["contestant"] == name else None
                found += [(value, row["case"])] if value is not None else []
            if found:
                (low, where_low), (high, where_high) = min(found), max(found)
                cells += [f"{low:.2f}", where_low, f"{high:.2f}", where_high]
        if cells:
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if any(row["contestant"] in UDT for row in rows) and lines:
        head = "| over libudt's | Gbit/s, lowest | where | highest | where | CPU s/GB, lowest | where | highest | where |"
        yield "\n".join(["## UDT", "", head, "|---" + "|---:|---" * 4 + "|", *lines])
