"""Daily jobs: mirrors, moves and snapshots of trees that change between their runs, and sources that are followed while they
are written; and what they promise whenever they are killed."""

import os
import re
import stat

import judge
from cycle import CALLS, MOST_CLEAN_RUNS, Cycle, Fault, events
from troubles import Ending, Instrument, Signals, SourceRaces
from world import below, digest, digest_of

CHANGES = ["replace", "truncate", "append", "rename", "link", "unlink", "make"]


class Changing(Cycle):
    """A job of several rounds: the sources change between them, and in each some runs are killed before one may end."""

    ROUNDS = 3

    def troubled(self, way):
        options = self.options(way)
        is_full = self.rng.random() < 0.1 and self.mount(self.rng.choice([6, 12]))
        for number in range(self.ROUNDS):
            self.prepare(number)
            for _ in range(self.rng.randint(1, 3)):
                self.killed(way, options)
            if is_full:
                self.enlarge()
            for _ in range(MOST_CLEAN_RUNS):
                code, _ = self.judged(way, options, [], [])
                if code == 0:
                    break
            else:
                raise Fault(f"still not complete after {MOST_CLEAN_RUNS} undisturbed runs")
            self.complete()
            if left := judge.leftovers(self.destination):
                raise Fault(f"left behind: {left[:5]!r}")

    def killed(self, way, options):
        prefix = self.injection() if self.rng.random() < 0.25 else []
        # Most runs are short.
        span = 10 ** self.rng.uniform(-1.5, 0.2)
        seed = self.rng.random()
        self.judged(way, options, prefix, [lambda process: Signals(seed, span, 1, process, self.site)])

    def judged(self, way, options, prefix, makers):
        before = self.state()
        code, summary = self.copy(way, options, prefix, makers)
        self.check_names()
        self.check(before)
        return code, summary

    def prepare(self, number):
        """Changes the sources, and perhaps the destination, before a round."""
        if number > 0:
            changes = SourceRaces(self.rng.random(), 0, self.rng.randint(1, 30), self.world)
            for _ in changes.moments:
                changes.act(self.rng.choice(CHANGES))
            self.tell("; ".join(changes.done))

    def state(self):
        """What the next run must respect, for a job that looks at it."""
        return None

    def check(self, before):
        """Raises Fault unless everything that must hold after any run does."""
        raise NotImplementedError

    def complete(self):
        """Raises Fault unless everything is as it must be after exit code 0."""
        raise NotImplementedError


class Mirror(Changing):
    """`sync --delete` with a rule that keeps names at the destination, which others write."""

    COMMAND = "sync"
    OPTIONS = ["--delete", "--yes-empty", "--exclude", "protected-*"]

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.protected = {}

    def options(self, way):
        # What is equal by size and time is taken for equal, so it is not read.
        return [option for option in super().options(way) if option != "--verify"]

    def prepare(self, number):
        super().prepare(number)
        if number > 0 and self.rng.random() < 0.5:
            self.rename_directory()
        os.makedirs(self.destination, exist_ok=True)
        places = [path for path, found in below(self.destination) if stat.S_ISDIR(found.st_mode)]
        for count in range(self.rng.randint(0, 8)):
            is_protected = self.rng.random() < 0.5
            name = b"%s-%d-%d" % (b"protected" if is_protected else b"extra", number, count)
            path = os.path.join(self.rng.choice([b"", *places]), name)
            data = self.rng.randbytes(self.rng.choice([0, 100, 70_000]))
            with open(os.path.join(self.destination, path), "wb") as file:
                file.write(data)
            if is_protected:
                self.protected[path] = digest(data)
            self.foreign[path].add(digest(data))

    def rename_directory(self):
        source = self.rng.choice(self.world.sources)
        found = [path for path, found in below(source) if stat.S_ISDIR(found.st_mode)]
        if not found:
            return
        old = self.rng.choice(found)
        self.world.made += 1
        new = os.path.join(os.path.dirname(old), b"moved%d" % self.world.made)
        for path in [path for path in [*self.world.names, *self.world.contents, *self.world.targets] if path == old or path.startswith(old + b"/")]:
            moved = new + path[len(old) :]
            self.world.names.add(moved)
            self.world.contents[moved] |= self.world.contents[path]
            self.world.targets[moved] |= self.world.targets[path]
        os.rename(os.path.join(source, old), os.path.join(source, new))
        self.tell(f"directory {old!r} renamed to {new!r}")

    def state(self):
        return {path: self.seen(path, found) for path, found in below(self.destination) if not judge.is_unfinished(path)}

    def seen(self, path, found):
        kind = stat.S_IFMT(found.st_mode)
        return kind, digest_of(os.path.join(self.destination, path)) if kind == stat.S_IFREG else None

    def check(self, before):
        after = self.state()
        for path, wanted in self.protected.items():
            if after.get(path) != (stat.S_IFREG, wanted):
                raise Fault(f"{path!r}, which a rule protects, is gone or changed")
        source = self.world.winners()
        gone = before.keys() - after.keys()
        if lost := [path for path in gone if path in source]:
            raise Fault(f"deleted, though the source has them: {lost[:5]!r}")
        elsewhere = {found for kind, found in after.values() if kind == stat.S_IFREG}
        deleted = [path for path in gone if before[path][0] != stat.S_IFREG or before[path][1] not in elsewhere]
        if deleted and (missing := judge.differences(self.world, self.destination, with_attributes=False)):
            raise Fault(f"{deleted[:3]!r} deleted before everything was there: " + "; ".join(missing[:3]))

    def complete(self):
        if faults := judge.differences(self.world, self.destination, with_attributes=True):
            raise Fault("after exit code 0: " + "; ".join(faults[:5]))
        kept = set(self.protected)
        for path in self.protected:
            while path := os.path.dirname(path):
                kept.add(path)
        if extra := self.state().keys() - self.world.winners().keys() - kept:
            raise Fault(f"not deleted: {sorted(extra)[:5]!r}")


class Move(Changing):
    """`copy --move` of one source that is written again between the rounds."""

    OPTIONS = ["--move"]
    ROUNDS = 2

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.due = {}

    def options(self, way):
        # What is only equal by size and time is not removed.
        return [option for option in super().options(way) if option != "--skip-equal"]

    def sources(self):
        return 1

    def prepare(self, number):
        source = self.world.sources[0]
        if number > 0:
            os.makedirs(source, exist_ok=True)
            self.world.directories[source] = [path for path, found in below(source) if stat.S_ISDIR(found.st_mode)] + [b""]
            for count in range(self.rng.randint(1, 40)):
                self.world.write(source, self.world.name(source, b"later%d" % count), self.world.small_size())
        self.due |= {
            path: digest_of(os.path.join(source, path)) for path, found in below(source) if stat.S_ISREG(found.st_mode)
        }

    def check(self, before):
        source = self.world.sources[0]
        for path, wanted in self.due.items():
            if wanted not in (digest_of(os.path.join(source, path)), digest_of(os.path.join(self.destination, path))):
                raise Fault(f"{path!r} is neither at the source nor at the destination")

    def complete(self):
        source = self.world.sources[0]
        for path, wanted in self.due.items():
            if digest_of(os.path.join(self.destination, path)) != wanted:
                raise Fault(f"after exit code 0, {path!r} is not at the destination")
        if os.path.isdir(source) and (left := [path for path, _ in below(source)]):
            raise Fault(f"after exit code 0, the source still has {left[:5]!r}")


class Snapshot(Changing):
    """`sync --snapshot`: directories named by time, each of which is complete, and never changes."""

    COMMAND = "sync"
    OPTIONS = ["--snapshot", "--yes-empty"]
    # A mode that the file system refuses is noted, and no later run sets it.
    ERRORS = [error for error in CALLS if error != "EPERM"]
    NAME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.made, self.before_round = {}, set()
        self.due = {}
        self.keeps_all = True

    def options(self, way):
        self.keeps_all = self.rng.random() < 0.5
        # All are of one day or two.
        keep = [] if self.keeps_all else ["--keep", "2d"]
        return keep + [option for option in super().options(way) if option not in ("--skip-equal", "--verify")]

    def prepare(self, number):
        super().prepare(number)
        os.makedirs(self.destination, exist_ok=True)
        self.due = {path: self.described(full) for path, full in self.world.winners().items()}
        self.before_round = set(self.made)

    @staticmethod
    def described(path):
        found = os.lstat(path)
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFLNK:
            return kind, os.readlink(path)
        # The times of directories may be those of what was made in them.
        return kind, stat.S_IMODE(found.st_mode), *((digest_of(path), found.st_mtime_ns) if kind == stat.S_IFREG else ())

    def check_names(self):
        for name in sorted(os.listdir(self.destination)):
            path = os.path.join(self.destination, name)
            if judge.is_unfinished(name) or name == b"latest":
                continue
            if not self.NAME.fullmatch(name):
                raise Fault(f"{name!r} is at the destination")
            now = {below_it: self.described(os.path.join(path, below_it)) for below_it, _ in below(path)}
            wanted = self.made.setdefault(name, self.due)
            if now != wanted:
                changed = sorted(item for item in now.keys() | wanted.keys() if now.get(item) != wanted.get(item))
                raise Fault(f"snapshot {name!r} is not what the sources were: {changed[:5]!r}")

    def check(self, before):
        there = set(os.listdir(self.destination))
        gone = self.made.keys() - there
        if gone and (self.keeps_all or max(gone) > max(self.made.keys() & there, default=b"")):
            raise Fault(f"older snapshots are gone: {sorted(gone)!r}")
        if b"latest" in there and os.readlink(os.path.join(self.destination, b"latest")).rstrip(b"/") not in there:
            raise Fault("`latest` leads nowhere")

    def complete(self):
        latest = os.readlink(os.path.join(self.destination, b"latest")).rstrip(b"/")
        if latest in self.before_round or latest != max(self.made):
            raise Fault(f"after exit code 0, `latest` is {latest!r} of {sorted(self.made)!r}")
        there = sorted(filter(self.NAME.fullmatch, os.listdir(self.destination)))
        if not self.keeps_all and len(there) > 2:
            raise Fault(f"after exit code 0, there are {there!r}")


class Follow(Cycle):
    """`copy --follow` of what an instrument writes meanwhile; the last run ends by a marker."""

    OPTIONS = ["--follow", "--settle", "100ms", "--final", "done", "--exclude", "*.part"]
    WAYS = ["local", "push", "push", "to-daemon"]

    def sources(self):
        return 1

    def options(self, way):
        rng = self.rng
        found = ["--retry-for", "10s", "--rate", rng.choice(["200mbit", "1gbit", "auto"])]
        for option, chance in {("--streams", "4"): 0.3 if way != "local" else 0, ("--buffered",): 0.3, ("--ring", "32MiB"): 0.3}.items():
            if rng.random() < chance:
                found += option
        return found

    def troubled(self, way):
        options = self.options(way)
        arrived, whole = [], set()
        rounds = self.rng.randint(3, 6)
        for number in range(rounds + 1):
            is_last = number == rounds
            span = self.rng.uniform(0.1, 2)
            instruments = []

            def writing(_, span=span, is_last=is_last, seed=self.rng.random(), count=self.rng.randint(0, 12)):
                instruments.append(Instrument(seed, span, count, self.world, is_last))
                return instruments[0]

            makers = [writing]
            if not is_last:
                seeds = self.rng.random(), self.rng.random()
                makers.append(lambda process, seeds=seeds, span=span: Signals(seeds[0], span, 1, process, self.site))
                makers.append(lambda process, seeds=seeds, span=span: Ending(seeds[1], span, process))
            code, _ = self.copy(way, options, [], makers)
            whole.update(instruments[0].whole)
            self.check_names()
            said = events(os.path.join(self.directory, "stdout"))
            arrived += [event["path"] for event in said if event.get("type") == "followed" and event["bytes"]]
        if code != 0:
            raise Fault(f"exit code {code} of the last run, which nobody disturbed")
        if faults := judge.differences(self.world, self.destination, with_attributes=True):
            raise Fault("after the last run: " + "; ".join(faults[:5]))
        if left := judge.leftovers(self.destination):
            raise Fault(f"left behind: {left[:5]!r}")
        paths = {b"s0/" + path for path in whole}
        named = [path for path in arrived if os.fsencode(path) in paths]
        self.tell(f"{len(named)} of {len(whole)} files whole")
        if twice := sorted({path for path in named if named.count(path) > 1}):
            raise Fault(f"was durable, and has travelled again: {twice[:5]!r}")
