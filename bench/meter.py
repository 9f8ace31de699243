"""Runs one command on host a and measures it: time, CPU time of both hosts, largest resident process of both hosts.

CPU time is `usage_usec` of cpu.stat of the cgroup that holds all processes of a host (kernel time on their behalf
included). Resident memory is VmHWM of /proc/PID/status, so the page cache is not in it; it is read every 50 ms, and
as it only grows within a process, the last reading is its peak.
"""

import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.05
COMMAND_SECONDS = 1800  # a command that takes longer has hung


@dataclass
class Measured:
    """One command as it ran. Seconds; CPU in seconds and resident memory in bytes by host ("a", "b")."""

    status: int
    seconds: float
    durable_seconds: float  # until what was written is on the medium
    cpu: dict
    resident: dict
    out: str
    err: str


class Meter:
    def __init__(self, host):
        self.host = host
        self.cgroups = {"a": Path(os.environ["CGROUP_A"]), "b": Path(os.environ["CGROUP_B"])}

    def run(self, command, make_durable=None):
        """Runs `command` (list of words) on host a; `make_durable` is a directory to sync afterwards, which is timed too."""
        enrolled = ["sh", "-c", 'echo $$ >"$CGROUP_A/cgroup.procs"; exec nsenter --net="/run/netns/$0" "$@"', self.host, *command]
        peaks = {"a": 0, "b": 0}
        ended = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(peaks, ended))
        cpu_before = self._cpu()
        sampler.start()
        start = time.monotonic()
        try:
            process = subprocess.run(
                enrolled, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
            )
            seconds = time.monotonic() - start
            if make_durable:
                subprocess.run(["sync", "-f", make_durable], check=True)
            durable_seconds = time.monotonic() - start
        finally:
            ended.set()
            sampler.join()
        cpu_after = self._cpu()
        return Measured(
            status=process.returncode,
            seconds=seconds,
            durable_seconds=durable_seconds,
            cpu={side: cpu_after[side] - cpu_before[side] for side in cpu_after},
            resident=peaks,
            out=process.stdout.decode(errors="replace"),
            err=process.stderr.decode(errors="replace"),
        )

    def _cpu(self):
        return {side: self._cpu_of(cgroup) for side, cgroup in self.cgroups.items()}

    @staticmethod
    def _cpu_of(cgroup):
        fields = dict(line.split() for line in (cgroup / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6

    def _sample(self, peaks, ended):
        while not ended.wait(SAMPLE_SECONDS):
            for side, cgroup in self.cgroups.items():
                for process in (cgroup / "cgroup.procs").read_text().split():
                    peaks[side] = max(peaks[side], resident_peak(process))


def resident_peak(process):
    """VmHWM in bytes; 0 if the process is gone."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
