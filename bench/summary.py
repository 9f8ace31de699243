"""Summarises a recorded run: `python3 bench/summary.py bench/runs/DATE-COMMIT` rewrites summary.md and summary.json
from raw.tar.xz, so that what is said can be checked against what was measured."""

import json
import statistics
import sys
import tarfile
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
TITLES = {
    "disk": "One large file, disk to disk",
    "tmpfs": "One large file, tmpfs to tmpfs",
    "small": "A tree of files of 4 KiB, cold, disk to disk",
    "many": "A larger tree of files of 4 KiB, cold, disk to disk",
    "sparse": "A sparse file with 1 MiB of data",
}
# Cells whose result is a time and not a rate.
TIMED = ("small", "many", "sparse")
# The order of the rows.
TOOLS = ("icdc", "rsync", "rsync over ssh", "scp", "fio read", "fio write", "fio both", "AES-128-GCM", "BLAKE3", "one core")
# The slowest of these bounds an encrypted and digested copy from disk to disk.
BOUNDS = ("fio read", "fio write", "one core")


def write(directory):
    run, measurements = load(directory / "raw.tar.xz")
    result = run | {"cells": summarize(measurements)}
    (directory / "summary.json").write_text(json.dumps(result, indent=1) + "\n")
    (directory / "summary.md").write_text(render(result))


def load(archive):
    with tarfile.open(archive) as files:
        run = json.load(files.extractfile("raw/run.json"))
        lines = files.extractfile("raw/measurements.jsonl").read().decode().splitlines()
    return run, [json.loads(line) for line in lines]


def summarize(measurements):
    cells = {}
    for measurement in measurements:
        cells.setdefault(measurement["cell"], {}).setdefault(measurement["tool"], []).append(measurement)
    return {cell: summarize_cell(tools) for cell, tools in cells.items()}


def summarize_cell(tools):
    rows = {tool: summarize_tool(tools[tool]) for tool in TOOLS if tool in tools}
    cell = {"tools": rows}
    icdc = rows.get("icdc", {}).get("rate")
    if not icdc:
        return cell
    cell["icdc_over"] = {
        tool: icdc["median"] / row["rate"]["median"] for tool, row in rows.items() if tool != "icdc" and "rate" in row
    }
    bounds = {tool: rows[tool]["rate"]["median"] for tool in BOUNDS if "rate" in rows.get(tool, {})}
    if len(bounds) == len(BOUNDS):
        slowest = min(bounds, key=bounds.get)
        cell["bound"] = {"slowest": slowest, "icdc_share": icdc["median"] / bounds[slowest]}
    return cell


def summarize_tool(runs):
    good = [run for run in runs if not run["failed"]]
    row = {"runs": len(runs), "failed": len(runs) - len(good)}
    if not good:
        return row
    row["command"] = good[0].get("command")
    for key in ("rate", "seconds", "durable_seconds"):
        values = [run[key] for run in good if key in run]
        if values:
            row[key] = spread(values)
    if "cpu_seconds" in good[0] and good[0].get("bytes"):
        row["cpu_seconds"] = sides(good, "cpu_seconds", spread)
        row["cpu_seconds_per_gib"] = {
            side: statistics.median(run["cpu_seconds"][side] * GIB / run["bytes"] for run in good) for side in ("a", "b")
        }
    if "resident_bytes" in good[0]:
        row["resident_bytes_max"] = sides(good, "resident_bytes", max)
    if "limited_by" in good[-1]:
        row["limited_by"] = good[-1]["limited_by"]
    return row


def sides(runs, key, combine):
    return {side: combine([run[key][side] for run in runs]) for side in ("a", "b")}


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def render(result):
    machine, versions = result["machine"], result["versions"]
    lines = [
        f"# Run of {result['date']}, commit {result['commit']}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / GIB:.0f} GiB, {machine['file_system']}; Linux {result['kernel']}.  ",
        "; ".join(version for version in versions.values() if version) + ".",
        "",
        "Two network namespaces on this machine, joined by a veth pair, share its cores; CUBIC for all. Medians, in parentheses the smallest and the",
        "largest. Time runs until the data is on the medium (`sync -f` after the command, for every tool). CPU: user and system time of",
        "all processes of a host. Resident: largest process of a host, without the page cache. `rsync` runs in clear, with no ssh between.",
        "Rates of `fio` are Direct I/O of 4 MiB at depth 8; \"both\" reads and writes at once, as a copy on one machine has to. \"One core\":",
        "AES-128-GCM and BLAKE3 one after another on one core, 1/(1/a + 1/b).",
    ]
    for cell, summary in result["cells"].items():
        lines += ["", f"## {cell}: {TITLES[cell]}", ""]
        lines += table(summary["tools"], timed=cell in TIMED)
        lines += conclusions(summary)
    return "\n".join(lines) + "\n"


def table(tools, timed):
    head = ["tool", "s" if timed else "MB/s", "CPU s a + b" if timed else "CPU s/GiB a + b", "resident MiB a / b", "runs"]
    lines = [row(head), row(["---"] + ["---:"] * (len(head) - 1))]
    for tool, summary in tools.items():
        failed = f" ({summary['failed']} failed)" if summary["failed"] else ""
        value = shown(summary, "durable_seconds", 1, 2) if timed else shown(summary, "rate", 1e6, 0)
        resident = summary.get("resident_bytes_max")
        lines.append(row([
            tool,
            value,
            cpu(summary, timed) if "cpu_seconds" in summary and not is_budget(tool) else "",
            f"{resident['a'] / MIB:.0f} / {resident['b'] / MIB:.0f}" if resident and not is_budget(tool) else "",
            f"{summary['runs']}{failed}",
        ]))
    return lines


def is_budget(tool):
    return tool.startswith("fio") or tool in ("AES-128-GCM", "BLAKE3", "one core")


def cpu(summary, timed):
    if timed:
        seconds = summary["cpu_seconds"]
        return f"{seconds['a']['median']:.2f} + {seconds['b']['median']:.2f}"
    seconds = summary["cpu_seconds_per_gib"]
    return f"{seconds['a']:.2f} + {seconds['b']:.2f}"


def shown(summary, key, unit, digits):
    if key not in summary:
        return ""
    median, low, high = (summary[key][part] / unit for part in ("median", "min", "max"))
    return f"{median:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def conclusions(summary):
    lines = [""]
    if "bound" in summary:
        bound = summary["bound"]
        lines.append(f"icdc reaches {bound['icdc_share']:.0%} of the slowest bound ({bound['slowest']}).")
    ratios = {tool: ratio for tool, ratio in summary.get("icdc_over", {}).items() if not is_budget(tool) or tool == "fio both"}
    if ratios:
        lines.append("icdc has " + ", ".join(f"{ratio:.2f} × the speed of {tool}" for tool, ratio in ratios.items()) + ".")
    limits = summary["tools"].get("icdc", {}).get("limited_by")
    if limits:
        lines.append(f"Last icdc run limited by: {limits}.")
    return lines if len(lines) > 1 else []


if __name__ == "__main__":
    write(Path(sys.argv[1]))
