"""How honest the emulator is: what a lab does to packets beside what it was asked to do. Root only.

    python3 bench/emulator.py [--icdc PROGRAM] [--long SECONDS] [CHECK...]      (default: all checks, 600 s)

Each check makes labs of its own and takes them down. The record goes to bench/runs/DATE-COMMIT-emulator/.
"""

import argparse
import csv
import datetime
import gzip
import json
import math
import mmap
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

# Runs on host a: UDP packets of `size` bytes of payload, `count` of them, paced to `rate` packets a second.
SENDER = """
import socket, sys, time
size, count, rate = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
s.connect(("10.26.33.2", 9))
data, begin, sent = bytes(size), time.monotonic(), 0
while sent < count:
    due = min(count, int((time.monotonic() - begin) * rate) + 1)
    while sent < due:
        try:
            s.send(data)
        except ConnectionRefusedError:
            continue
        sent += 1
    time.sleep(0.0002)
"""


class Lab:
    def __init__(self, icdc, *options):
        self.icdc, self.name = icdc, f"check-{os.getpid()}"
        self.options = options

    def __enter__(self):
        self.run("up", *self.options)
        return self

    def __exit__(self, *_):
        subprocess.run([self.icdc, "lab", "down", "--name", self.name], check=False)

    def run(self, command, *words):
        return subprocess.run([self.icdc, "lab", command, "--name", self.name, *words], check=True, capture_output=True, text=True).stdout

    def status(self):
        time.sleep(0.4)
        return json.loads(self.run("status", "--json"))

    def measure(self, *options):
        shell = f"{self.icdc} lab exec --name {self.name} --shell"
        words = ["--json", "--ssh", shell, "--remote-icdc", self.icdc, *options, "10.26.33.2"]
        out = self.run("exec", "a", self.icdc, "measure", *words)
        return json.loads(out.splitlines()[-1])

    def send(self, size, count, rate):
        return self.run("exec", "a", sys.executable, "-c", SENDER, str(size), str(count), str(rate))

    def throughput(self, directory):
        """Wire rate of each millisecond from a to b, bit/s."""
        path = Path(directory) / "path.csv"
        self.run("report", str(path))
        with path.open() as file:
            return [float(row["a_to_b_throughput_bps"] or 0) for row in csv.DictReader(file)]


def lateness(status):
    return {key: round(value * 1e3, 3) for key, value in status["a_to_b"]["lateness_seconds"].items()}


def trouble(status):
    return {
        key: sum(status[way][key] for way in ("a_to_b", "b_to_a"))
        for key in ("ring_overflow_packets", "send_failure_packets", "truncated_packets")
    } | {"device_drops_packets": status["device_drops_packets"]}


def delay(icdc, _):
    """Round trips by ping."""
    with Lab(icdc, "--rtt", "300ms") as lab:
        out = lab.run("exec", "a", "ping", "-c", "60", "-i", "0.2", "10.26.33.2")
        trips = [float(value) for value in re.findall(r"time=([\d.]+) ms", out)]
    return {"asked_ms": 300, "median_ms": statistics.median(trips), "min_ms": min(trips), "max_ms": max(trips), "trips": len(trips)}


def bottleneck(icdc, scratch):
    """UDP at 120 % of the bottleneck: rate, and where every packet went."""
    wire = 1400 + 42 + 24
    with Lab(icdc, "--rate", "1gbit", "--rtt", "20ms") as lab:
        lab.send(1400, int(1.2e9 / 8 / wire * 12), 1.2e9 / 8 / wire)
        time.sleep(1)
        series, status = lab.throughput(scratch), lab.status()
    middle = series[1000:-1000]
    way = status["a_to_b"]
    return {
        "asked_bps": 1_000_000_000,
        "offered_bps": round(way["offered_bytes"] * 8 / (len(series) / 1e3)),
        "delivered_bps": round(statistics.fmean(middle)),
        "deviation_percent": (statistics.fmean(middle) / 1e9 - 1) * 100,
        "seconds": len(middle) / 1e3,
        "offered": way["offered_packets"],
        "delivered": way["delivered_packets"],
        "dropped": way["queue_drops_packets"],
        "unaccounted": way["offered_packets"] - way["delivered_packets"] - way["queue_drops_packets"],
        "lateness_ms": lateness(status),
        "trouble": trouble(status),
    }


def loss(icdc, _):
    """Random loss of 1e-3 over a million packets."""
    packets, ratio = 1_000_000, 1e-3
    results = []
    for seed in (1, 2, 3):
        with Lab(icdc, "--rate", "1gbit", "--loss", f"{ratio},0", "--seed", str(seed)) as lab:
            lab.send(100, packets, 100_000)
            way = lab.status()["a_to_b"]
        results.append({"seed": seed, "offered": way["offered_packets"], "lost": way["random_drops_packets"], "queue_drops": way["queue_drops_packets"]})
    half = 2.576 * math.sqrt(packets * ratio * (1 - ratio))
    return {"interval_99": [packets * ratio - half, packets * ratio + half], "runs": results}


def touch(size):
    """Uses memory for a moment: a hypervisor may have taken back what lay idle, and gives it back at 0.5 GB/s."""
    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def speed(icdc, scratch):
    """One TCP connection as fast as it goes; memory for the bytes in flight touched beforehand."""
    cases = {
        "exact, MTU 1500, 2.1 Gbit/s, 20 ms": (["--rate", "2.1gbit", "--rtt", "20ms"], 20),
        "exact, MTU 9000, 6 Gbit/s, 20 ms": (["--rate", "6gbit", "--rtt", "20ms", "--mtu", "9000"], 20),
        "fast, 9 Gbit/s, 400 ms": (["--rate", "9gbit", "--rtt", "400ms", "--mode", "fast", "--queue", "450MB"], 30),
    }
    results = {}
    for name, (options, seconds) in cases.items():
        runs = []
        for _ in range(3):
            with Lab(icdc, *options) as lab:
                touch(8 << 30 if "fast" in name else 1 << 30)
                summary = lab.measure("--cc", "cubic", "--seconds", str(seconds))
                series, status = lab.throughput(scratch), lab.status()
            means = [statistics.fmean(series[at:at + 1000]) for at in range(0, len(series) - 1000, 100)]
            runs.append({
                "greatest_1s_wire_bps": round(max(means)),
                "goodput_bps": summary["goodput_bps"],
                "lateness_ms": lateness(status),
                "queue_drops": status["a_to_b"]["queue_drops_packets"],
                "superpackets": status["a_to_b"]["superpackets"],
                "ring_memory_bytes": status["ring_memory_bytes"],
                "trouble": trouble(status),
            })
        results[name] = runs
    return results


def awake(icdc, _):
    """Lateness beside a sender of 860 Mbit/s, with processors that may sleep and with such that may not, in turns."""
    results = {"asleep": [], "awake": []}
    for _ in range(5):
        for name, options in (("asleep", ["--let-sleep"]), ("awake", [])):
            with Lab(icdc, "--rate", "1gbit", "--rtt", "300ms", *options) as lab:
                before = stolen()
                summary = lab.measure("--cc", "cubic", "--rate", "860mbit", "--seconds", "15")
                results[name].append({
                    "goodput_bps": summary["goodput_bps"],
                    "lateness_ms": lateness(lab.status()),
                    "stolen_ticks": stolen() - before,
                })
    return results


def stolen():
    """Time that a hypervisor kept from processors that had work, in ticks of 10 ms."""
    return int(Path("/proc/stat").read_text().split()[8])


def stalls(icdc, _):
    """The wire is stopped for 50 ms, again and again, while a sender is paced at 95 % of the bottleneck."""
    with Lab(icdc, "--rate", "1gbit", "--rtt", "300ms", "--queue", "3.75MB") as lab:
        wire, over = lab.status()["wire_pid"], threading.Event()
        stops = 0

        def stop_and_go():
            nonlocal stops
            # Late deliveries look like a growing queue, which ends CUBIC's slow start: not before it is over.
            over.wait(8)
            while not over.wait(0.2):
                os.kill(wire, signal.SIGSTOP)
                over.wait(0.05)
                os.kill(wire, signal.SIGCONT)
                stops += 1

        stopper = threading.Thread(target=stop_and_go)
        stopper.start()
        try:
            summary = lab.measure("--cc", "cubic", "--rate", "890mbit", "--seconds", "25")
        finally:
            over.set()
            stopper.join()
        status = lab.status()
    return {
        "stops": stops,
        "goodput_bps": summary["goodput_bps"],
        "queue_drops": status["a_to_b"]["queue_drops_packets"],
        "retransmitted_segments": summary["retransmitted_segments"],
        "lateness_ms": lateness(status),
        "trouble": trouble(status),
    }


def long_run(icdc, scratch, seconds):
    """A sender paced at 95 % of the bottleneck, queue 0.1 BDP; memory; the report in a browser."""
    with Lab(icdc, "--rate", "1gbit", "--rtt", "300ms", "--queue", "3.75MB") as lab:
        summary = lab.measure("--cc", "cubic", "--rate", "890mbit", "--seconds", str(seconds))
        page = Path(scratch) / "report.html"
        lab.run("report", str(page))
        status = lab.status()
        memory = Path(f"/proc/{status['wire_pid']}/status").read_text()
    in_flight = 2 * (1e9 / 8 * 0.15 + 3.75e6)
    result = {
        "seconds": seconds,
        "goodput_bps": summary["goodput_bps"],
        "queue_drops": status["a_to_b"]["queue_drops_packets"],
        "retransmitted_segments": summary["retransmitted_segments"],
        "lateness_ms": lateness(status),
        "trouble": trouble(status),
        "in_flight_bound_bytes": round(in_flight),
        "ring_memory_bytes": status["ring_memory_bytes"],
        "wire_anonymous_kb": int(re.search(r"RssAnon:\s+(\d+)", memory)[1]),
        "report_bytes": page.stat().st_size,
    }
    if browser := shutil.which("chromium") or shutil.which("chromium-browser"):
        picture = page.with_suffix(".png")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={picture}", "--window-size=1000,1600", page.as_uri()]
        times = []
        for _ in range(3):
            began = time.monotonic()
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            times.append(round(time.monotonic() - began, 2))
        result["browser_start_to_picture_seconds"] = times
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--icdc", default=str(TOP / "target/release/icdc"))
    parser.add_argument("--long", type=int, default=600)
    parser.add_argument("checks", nargs="*")
    arguments = parser.parse_args()
    git = ["git", "-C", str(TOP)]
    commit = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    checks = {
        "delay": delay,
        "bottleneck": bottleneck,
        "loss": loss,
        "speed": speed,
        "awake": awake,
        "stalls": stalls,
        "long": lambda icdc, scratch: long_run(icdc, scratch, arguments.long),
    }
    out = TOP / "bench/runs" / f"{datetime.date.today()}-{commit}-emulator"
    out.mkdir(parents=True, exist_ok=True)
    record = {"commit": commit, "kernel": platform.release(), "processors": os.cpu_count(), "command": sys.argv, "checks": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for name, check in checks.items():
            if arguments.checks and name not in arguments.checks:
                continue
            print(f"{name}: {check.__doc__ or ''}", flush=True)
            record["checks"][name] = check(os.path.abspath(arguments.icdc), scratch)
            print(json.dumps(record["checks"][name], indent=1), flush=True)
            (out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
        for kept in ("report.html", "report.png"):
            if (Path(scratch) / kept).exists():
                data = (Path(scratch) / kept).read_bytes()
                if kept.endswith(".html"):
                    (out / f"{kept}.gz").write_bytes(gzip.compress(data))
                else:
                    (out / kept).write_bytes(data)
    print(f"recorded: {out}")


main()
