"""One copy and what it goes through: its options and troubles, the runs under them, and the promises of each."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import defaultdict

import judge
from ends import WAYS, Copy, Site, descendants
from troubles import DestinationRaces, Signals, SourceRaces
from world import Shape, World

# A run that has not ended by then hangs: it retries for less, and its data takes a second or two.
PATIENCE = 120
RETRY_FOR = "4s"
MOST_CLEAN_RUNS = 4
ENDS_WELL = {0, 1, 2, 3, 4}
# Signals that end a program, one that is not ready for them yet.
ENDED_BY = {"kill-client": -signal.SIGKILL, "interrupt": -signal.SIGINT, "terminate": -signal.SIGTERM}
# Of the dynamic loader, which is refused what it needs.
NOT_STARTED = 127
ORPHANING = ["touch-unfinished", "source rename", "source unlink", "source reuse-inode"]
CALLS = {
    "EIO": ["fsync", "fdatasync", "syncfs", "pwrite64", "pread64", "renameat", "renameat2", "linkat", "getdents64"],
    "ENOSPC": ["pwrite64", "fallocate", "mkdirat", "openat2", "linkat"],
    "EACCES": ["openat2", "renameat", "mkdirat", "fchmod", "unlinkat"],
    "EPERM": ["fchmod", "utimensat", "linkat", "symlinkat", "fsetxattr"],
    "EMFILE": ["openat2", "openat"],
    "ENOMEM": ["clone3"],
    "EAGAIN": ["clone3"],
}


class Fault(Exception):
    """A promise that was not kept."""


class Cycle:
    """One copy and what it goes through."""

    COMMAND = "copy"
    OPTIONS = []
    ERRORS = list(CALLS)
    WAYS = WAYS

    def __init__(self, directory, program, seed, number):
        self.rng = random.Random(f"{seed}/{number}")
        self.number = number
        self.directory = directory
        self.program = program
        self.foreign = defaultdict(set)
        self.told = []
        # Unfinished files of names that no source has any more, or whose journal somebody has removed, stay.
        self.is_orphaned = False
        self.raced = {"source": False, "destination": False}
        self.mounted = None

    def run(self):
        rng = self.rng
        world_at = os.path.join(self.directory, "world")
        os.mkdir(world_at)
        self.world = World(os.fsencode(world_at), random.Random(rng.random()))
        shape = rng.choice([Shape(8, 3, 3, 2), Shape(60, 0, 6, 4), Shape(400, 0, 4, 2), Shape(0, 4, 2, 0), Shape(1500, 1, 5, 5)])
        self.world.grow(self.sources(), shape)
        self.destination = os.fsencode(os.path.join(self.directory, "out", "d"))
        os.mkdir(os.path.dirname(self.destination))
        way = rng.choice(self.WAYS)
        self.site = Site(self.directory, self.program)
        if way.endswith("daemon"):
            self.site.start_daemon()
        self.tell(f"{way}, {len(self.world.sources)} sources, {shape}")
        try:
            self.troubled(way)
        finally:
            self.site.stop_daemon()
            self.unmount()

    def sources(self):
        """Number of sources."""
        return self.rng.choice([1, 1, 2, 3])

    def troubled(self, way):
        options = self.options(way)
        is_full = self.rng.random() < 0.15 and self.mount(self.rng.choice([3, 6, 12]))
        for _ in range(self.rng.randint(1, 3)):
            self.disturbed(way, options)
        if is_full:
            self.enlarge()
        before = [judge.fingerprint(source) for source in self.world.sources]
        for attempt in range(MOST_CLEAN_RUNS):
            code, summary = self.copy(way, options, [], [])
            self.check_names()
            if code == 0:
                break
        else:
            raise Fault(f"still not complete after {MOST_CLEAN_RUNS} undisturbed runs")
        if faults := judge.differences(self.world, self.destination, with_attributes=True):
            raise Fault("after an undisturbed run with exit code 0: " + "; ".join(faults[:5]))
        self.check_verified(summary)
        if (left := judge.leftovers(self.destination)) and not self.is_orphaned:
            raise Fault(f"left behind: {left[:5]!r}")
        if before != [judge.fingerprint(source) for source in self.world.sources]:
            raise Fault("the sources were changed by the copy")

    def options(self, way):
        rng = self.rng
        found = ["--retry-for", RETRY_FOR]
        for option, chance in {
            ("--streams", "4"): 0.3 if way != "local" else 0,
            ("--buffered",): 0.3,
            ("--verify",): 0.3,
            ("--skip-equal",): 0.2,
            ("--no-resume",): 0.1,
            ("--preserve", "all"): 0.15 if os.geteuid() == 0 else 0,
            ("--ring", "32MiB"): 0.3,
        }.items():
            if rng.random() < chance:
                found += option
        # Slow enough to be disturbed.
        return found + ["--rate", rng.choice(["200mbit", "400mbit", "1gbit", "auto"])]

    def disturbed(self, way, options):
        rng = self.rng
        prefix = self.injection() if rng.random() < 0.25 else []
        if self.site.port is not None and (self.site.daemon is None or self.site.daemon.poll() is not None):
            self.site.stop_daemon()
            self.site.start_daemon()
        span = rng.uniform(0.05, 1.2)
        chosen = []
        if rng.random() < 0.5:
            chosen.append(lambda process: Signals(rng.random(), span, rng.randint(1, 2), process, self.site))
        if rng.random() < 0.4:
            count = rng.randint(1, 40)
            chosen.append(lambda _: SourceRaces(rng.random(), span, count, self.world))
            self.raced["source"] = True
        if rng.random() < 0.3:
            number = rng.randint(1, 20)
            chosen.append(lambda _: DestinationRaces(rng.random(), span, number, self.destination, self.foreign))
            self.raced["destination"] = True
        races_now = len(chosen) > 0
        code, summary = self.copy(way, options, prefix, chosen)
        self.check_names()
        if code == 0 and not races_now and not any(self.raced.values()):
            if faults := judge.differences(self.world, self.destination, with_attributes=True):
                raise Fault("exit code 0, but " + "; ".join(faults[:5]))
            self.check_verified(summary)

    def injection(self):
        """Makes some calls of one kind fail, from a random one on or from time to time."""
        if shutil.which("strace") is None:
            return []
        error = self.rng.choice(self.ERRORS)
        call = self.rng.choice(CALLS[error])
        when = self.rng.choice([f"{self.rng.randint(1, 60)}", f"{self.rng.randint(1, 20)}+{self.rng.randint(1, 30)}"])
        self.tell(f"{call} fails with {error}, {when}")
        return ["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", f"trace={call}"] + [
            "-e", f"inject={call}:error={error}:when={when}"
        ]

    def copy(self, way, options, prefix, makers):
        """Runs the command under the troubles that `makers` make for its process; exit code and summary."""
        if self.site.port is not None and (self.site.daemon is None or self.site.daemon.poll() is not None):
            self.site.stop_daemon()
            self.site.start_daemon()
        copy = Copy(self.site, way, self.world.sources, self.destination, [*self.OPTIONS, *options], prefix, self.COMMAND)
        out, log = (os.path.join(self.directory, name) for name in ("stdout", "stderr"))
        with open(out, "wb") as stdout, open(log, "wb") as stderr:
            process = subprocess.Popen(
                copy.command(),
                env=self.site.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            troubles = [make(process) for make in makers]
            for trouble in troubles:
                trouble.start()
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.dump(process.pid)
                raise Fault(f"has not ended after {PATIENCE} s: {copy.command()!r}") from None
            finally:
                for pid in [process.pid, *descendants(process.pid)] if process.poll() is None else []:
                    os.kill(pid, signal.SIGKILL)
                process.wait()
                for trouble in troubles:
                    trouble.end()
        done = [what for trouble in troubles for what in trouble.done]
        self.tell(f"exit code {code} after {done or 'nothing'}")
        self.is_orphaned |= any(word in what for what in done for word in ORPHANING)
        if code not in ENDS_WELL and code not in [ENDED_BY.get(what) for what in done] and not (prefix and (code < 0 or code == NOT_STARTED)):
            raise Fault(f"exit code {code}: {tail(log)}")
        if "panicked" in tail(log):
            raise Fault(f"panicked: {tail(log)}")
        self.settle()
        return code, last_event(out)

    def settle(self):
        """Waits until no far end of an ended command is left that could still publish: all have this cycle's directory as
        their working place or their parent gone."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            own = self.site.daemon.pid if self.site.daemon else None
            running = [pid for pid in self.programs() if pid != own]
            if not running:
                return
            time.sleep(0.02)
        self.dump(running[0])
        raise Fault(f"a far end has not ended {PATIENCE} s after its client: {running}")

    def programs(self):
        """Processes that run the program under test with this cycle's home."""
        found = []
        home = f"HOME={self.site.home}\0".encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/exe") != self.site.program:
                    continue
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if home in file.read():
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def dump(self, pid):
        """Notes where each thread of a process that hangs waits."""
        for process in [pid, *descendants(pid)]:
            for task in os.listdir(f"/proc/{process}/task"):
                waits = []
                for name in ("comm", "wchan", "syscall"):
                    try:
                        with open(f"/proc/{process}/task/{task}/{name}") as file:
                            waits.append(file.read().strip())
                    except OSError:
                        continue
                self.tell(f"process {process}, thread {task}: {' '.join(waits)}")

    def check_names(self):
        if os.path.isdir(self.destination) and (
            faults := judge.wrong_bytes(self.world, self.destination, self.foreign)
        ):
            raise Fault("wrong: " + "; ".join(faults[:5]))

    @staticmethod
    def check_verified(summary):
        """Of a run with exit code 0. What an earlier run has published is taken over unread, and so is what is skipped."""
        if not summary.get("verified") and not summary.get("taken_over_files"):
            raise Fault("exit code 0, nothing taken over from an earlier run, but not verified")

    def mount(self, megabytes):
        """Gives the destination a small file system of its own."""
        if os.geteuid() != 0:
            return False
        parent = os.path.dirname(self.destination)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "chaos", parent], check=True)
        self.mounted = parent
        self.tell(f"the destination has {megabytes} MiB")
        return True

    def enlarge(self):
        subprocess.run(["mount", "-o", "remount,size=4g", self.mounted], check=True)

    def unmount(self):
        if self.mounted is not None:
            subprocess.run(["umount", "--lazy", self.mounted], check=True)

    def tell(self, line):
        self.told.append(line)


def tail(path):
    with open(path, "rb") as file:
        return file.read()[-2000:].decode(errors="replace")


def events(path):
    """What a run has said, as far as it came."""
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def last_event(path):
    return next((event for event in reversed(list(events(path))) if event.get("type") == "summary"), {})
