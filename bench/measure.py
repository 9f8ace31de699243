"""The measurements: cells (what is copied, from where to where) × tools × rounds. Called by bench/run.sh.

Within a cell the tools run one after another in every round, in an order that rotates, so that a slow minute of the
machine meets all of them. Before each run everything is synced and the caches are dropped (except in the tmpfs cell,
where there is nothing to drop but the source). A run that fails is recorded as failed and stops nothing.
"""

import argparse
import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import summary
from meter import Meter

MIB = 1 << 20
GIB = 1 << 30


@dataclasses.dataclass
class Sizes:
    file: int  # bytes of the single file
    small: int  # files of SMALL_FILE bytes
    many: int  # files of SMALL_FILE bytes
    sparse: int  # bytes of the sparse file
    rounds: int
    few_rounds: int


FULL = Sizes(file=3 * GIB, small=20_000, many=100_000, sparse=1 << 40, rounds=5, few_rounds=3)
QUICK = Sizes(file=64 * MIB, small=200, many=1_000, sparse=1 << 34, rounds=1, few_rounds=1)
SMALL_FILE = 4096
SPARSE_DATA = MIB

CELLS = ["disk", "tmpfs", "small", "many", "sparse"]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.sizes = QUICK if arguments.quick else FULL
        if arguments.rounds:
            self.sizes = dataclasses.replace(self.sizes, rounds=arguments.rounds, few_rounds=arguments.rounds)
        self.scratch = Path(arguments.scratch)
        self.memory = Path(arguments.memory)
        self.meter = Meter(arguments.host)
        self.raw = self.scratch / "raw"
        self.raw.mkdir()
        self.measurements = []

    # -- cells ---------------------------------------------------------------------------------------------------

    def disk(self):
        """One large file, disk to disk, beside what the disk alone and one core alone can do."""
        source = self.random_file(self.scratch / "a" / "file", self.sizes.file)
        tools = {
            "fio read": lambda label: self.fio(label, read=source),
            "fio write": lambda label: self.fio(label, write=self.scratch / "b" / "fio"),
            "fio both": lambda label: self.fio(label, read=source, write=self.scratch / "b" / "fio"),
            "one core": self.one_core,
        }
        self.rounds("disk", self.sizes.rounds, tools | self.copies(source, self.scratch / "b", self.sizes.file))

    def tmpfs(self):
        """The same without a disk."""
        source = self.random_file(self.memory / "a" / "file", self.sizes.file)
        self.rounds("tmpfs", self.sizes.rounds, self.copies(source, self.memory / "b", self.sizes.file))

    def small(self):
        """A tree of small files from a cold cache."""
        source = self.small_files(self.scratch / "a" / "small", self.sizes.small)
        self.rounds("small", self.sizes.rounds, self.copies(source, self.scratch / "b", self.sizes.small * SMALL_FILE))

    def many(self):
        """Many small files: what counts is the memory."""
        source = self.small_files(self.scratch / "a" / "many", self.sizes.many)
        copies = self.copies(source, self.scratch / "b", self.sizes.many * SMALL_FILE)
        chosen = {tool: copies[tool] for tool in ("icdc", "rsync") if tool in copies}
        self.rounds("many", self.sizes.few_rounds, chosen)

    def sparse(self):
        """A huge file that is nearly all hole."""
        source = self.scratch / "a" / "sparse"
        source.parent.mkdir(exist_ok=True)
        with source.open("wb") as file:
            file.truncate(self.sizes.sparse)
            file.seek(self.sizes.sparse // 2)
            file.write(os.urandom(SPARSE_DATA))
        copies = self.copies(source, self.scratch / "b", SPARSE_DATA)
        self.rounds("sparse", self.sizes.few_rounds, {"icdc": copies["icdc"]})

    # -- tools ---------------------------------------------------------------------------------------------------

    def copies(self, source, destination, size):
        """The copying tools: each takes `source` from host a to the emptied directory `destination` on host b."""
        arguments = self.arguments
        remote = f"{arguments.address}:{destination}/"
        icdc = str(self.scratch / "icdc")
        commands = {
            "icdc": [icdc, "copy", "--ssh", arguments.remote_shell, "--remote-icdc", icdc, str(source), remote],
            "rsync": ["rsync", "-a", "-e", arguments.remote_shell, str(source), remote],
        }
        if arguments.ssh_config:
            commands["rsync over ssh"] = ["rsync", "-a", "-e", f"ssh -F {arguments.ssh_config}", str(source), remote]
            commands["scp"] = ["scp", "-q", "-r", "-p", "-F", arguments.ssh_config, str(source), remote]
        return {
            tool: lambda label, command=command: self.copy(label, command, source, destination, size)
            for tool, command in commands.items()
            if shutil.which(command[0])
        }

    def copy(self, label, command, source, destination, size):
        shutil.rmtree(destination, ignore_errors=True)
        destination.mkdir()
        self.drop_caches(destination)
        measured = self.meter.run(command, make_durable=str(destination))
        record = {"bytes": size, "rate": size / measured.durable_seconds}
        if label["round"] == 1 and measured.status == 0:
            record["identical"] = subprocess.run(
                ["diff", "-rq", source, destination / source.name], check=False
            ).returncode == 0 if label["cell"] != "sparse" else None
        self.record(label, command, measured, record)
        shutil.rmtree(destination, ignore_errors=True)

    def fio(self, label, read=None, write=None):
        """Direct I/O of 4 MiB at depth 8; with both at once, the rate is that of the one which ends last."""
        command = [
            "fio", "--output-format=json", "--direct=1", "--bs=4M", "--iodepth=8", "--ioengine=io_uring", f"--size={self.sizes.file}",
        ]
        if read:
            command += ["--name=read", "--rw=read", f"--filename={read}"]
        if write:
            write.parent.mkdir(exist_ok=True)
            command += ["--name=write", "--rw=write", f"--filename={write}", "--end_fsync=1"]
        self.drop_caches(self.scratch)
        measured = self.meter.run(command)
        record = {"bytes": self.sizes.file}
        if measured.status == 0:
            jobs = json.loads(measured.out[measured.out.index("{"):])["jobs"]
            slowest = max(job[job["jobname"]]["runtime"] for job in jobs) / 1000
            record["rate"] = self.sizes.file / slowest
        self.record(label, command, measured, record)
        if write:
            write.unlink(missing_ok=True)

    def one_core(self, label):
        """What one core can encrypt and digest: AES-128-GCM in records of 16 KiB, then BLAKE3 in one thread."""
        openssl = ["openssl", "speed", "-evp", "aes-128-gcm", "-bytes", "16384", "-seconds", "3"]
        encrypted = self.meter.run(openssl)
        aes = float(encrypted.out.split()[-1].rstrip("k")) * 1000
        self.record(label | {"tool": "AES-128-GCM"}, openssl, encrypted, {"rate": aes})

        size = min(self.sizes.file, GIB)
        cached = self.random_file(self.memory / "digest", size)
        b3sum = ["b3sum", "--num-threads", "1", "--no-mmap", str(cached)]
        digested = self.meter.run(b3sum)
        cached.unlink()
        blake3 = size / digested.seconds
        self.record(label | {"tool": "BLAKE3"}, b3sum, digested, {"bytes": size, "rate": blake3})
        self.measurements.append(label | {"failed": False, "rate": 1 / (1 / aes + 1 / blake3)})

    # -- machinery -----------------------------------------------------------------------------------------------

    def rounds(self, cell, count, tools):
        names = list(tools)
        for number in range(1, count + 1):
            shift = number % len(names)
            for tool in names[shift:] + names[:shift]:
                tools[tool]({"cell": cell, "tool": tool, "round": number})
        for side in ("a", "b"):
            for base in (self.scratch, self.memory):
                shutil.rmtree(base / side, ignore_errors=True)

    def record(self, label, command, measured, more):
        """Keeps one measurement, and its output beside it. Names of this machine's directories are replaced."""
        stem = f"{len(self.measurements):03}-{label['cell']}-{label['tool'].replace(' ', '-')}-{label['round']}"
        for suffix, text in (("out", measured.out), ("err", measured.err)):
            if text:
                (self.raw / f"{stem}.{suffix}").write_text(self.anonymous(text))
        measurement = label | {
            "command": self.anonymous(" ".join(command)),
            "failed": measured.status != 0 or more.get("identical") is False,
            "status": measured.status,
            "seconds": measured.seconds,
            "durable_seconds": measured.durable_seconds,
            "cpu_seconds": measured.cpu,
            "resident_bytes": measured.resident,
        } | more
        limits = re.search(r"limited by ([^;\n]+)", measured.out)
        if limits:
            measurement["limited_by"] = limits[1]
        self.measurements.append(measurement)
        outcome = f"failed with {measured.status}: {measured.err.strip()[-300:]}" if measurement["failed"] else (
            f"{measured.seconds:8.2f} s {more.get('rate', 0) / 1e6:9.1f} MB/s"
        )
        print(f"{label['cell']:7} {label['round']} {label['tool']:15} {outcome}", flush=True)

    def anonymous(self, text):
        for path, name in ((self.arguments.scratch, "$SCRATCH"), (self.arguments.memory, "$MEMORY")):
            text = text.replace(path, name)
        return text

    @staticmethod
    def drop_caches(directory):
        subprocess.run(["sync", "-f", directory], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("3\n")

    @staticmethod
    def random_file(path, size):
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            for _ in range(0, size, MIB):
                file.write(os.urandom(MIB))
        return path

    @staticmethod
    def small_files(path, count):
        contents = os.urandom(SMALL_FILE)
        for number in range(count):
            directory = path / f"{number // 500:03}"
            if number % 500 == 0:
                directory.mkdir(parents=True)
            (directory / f"{number:06}").write_bytes(number.to_bytes(4, "big") + contents[4:])
        return path

    def write(self):
        """Writes the record of the run and returns its directory."""
        run = about(self.scratch)
        if self.arguments.quick:
            directory = fresh(Path(self.arguments.quick_records) / f"quick-{time.strftime('%Y%m%d-%H%M%S')}")
        else:
            directory = fresh(Path(self.arguments.records) / f"{run['date']}-{run['commit']}")
        (self.raw / "run.json").write_text(json.dumps(run, indent=1))
        (self.raw / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.measurements))
        with tarfile.open(directory / "raw.tar.xz", "w:xz") as archive:
            archive.add(self.raw, arcname="raw", filter=without_owner)
        summary.write(directory)
        hand_over(directory)
        return directory


def about(scratch):
    """What was measured, where: nothing that identifies the machine's owner."""

    def output(*command):
        try:
            process = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return "not installed"
        return (process.stdout or process.stderr).strip()

    def first_line(*command):
        return (output(*command).splitlines() or [""])[0]

    git = ["git", "-c", "safe.directory=*", "-C", str(Path(__file__).parent)]
    commit = output(*git, "rev-parse", "--short=10", "--verify", "--quiet", "HEAD") or "uncommitted"
    changed = output(*git, "status", "--porcelain", "--untracked-files=no")
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit + ("-changed" if changed else ""),
        "kernel": platform.release(),
        "machine": {
            "cpu": cpu[0] if cpu else platform.machine(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "file_system": output("findmnt", "-n", "-o", "FSTYPE", "-T", str(scratch)),
        },
        "versions": {
            "icdc": first_line(str(scratch / "icdc"), "--version"),
            "fio": first_line("fio", "--version"),
            "rsync": first_line("rsync", "--version"),
            "ssh": first_line("ssh", "-V"),
            "openssl": first_line("openssl", "version"),
            "b3sum": first_line("b3sum", "--version"),
        },
    }


def fresh(path):
    """Makes the directory, with a number behind its name if there is one already."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    candidate.mkdir(parents=True)
    return candidate


def without_owner(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def hand_over(directory):
    """Under sudo, what was written belongs to the user who called."""
    if "SUDO_UID" in os.environ:
        owner = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
        for path in [directory.parent, directory, *directory.iterdir()]:
            os.chown(path, *owner)


def main():
    parser = argparse.ArgumentParser(description="Called by bench/run.sh")
    for option in ("scratch", "memory", "host", "address", "remote-shell", "ssh-config", "records", "quick-records"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round, kept out of the records")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of every cell")
    parser.add_argument("cells", nargs="*", metavar="CELL", help=f"any of {', '.join(CELLS)}; default: all")
    arguments = parser.parse_args()
    unknown = set(arguments.cells) - set(CELLS)
    if unknown:
        parser.error(f"no such cell: {', '.join(sorted(unknown))}; there are {', '.join(CELLS)}")
    bench = Bench(arguments)
    for cell in arguments.cells or CELLS:
        getattr(bench, cell)()
    directory = bench.write()
    print((directory / "summary.md").read_text())
    print(f"recorded: {directory}")
    return 1 if any(measurement["failed"] for measurement in bench.measurements) else 0


if __name__ == "__main__":
    sys.exit(main())
