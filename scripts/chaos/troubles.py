"""What happens to a copy while it runs: signals to either end, other programs at the source and at the destination."""

import contextlib
import errno
import hashlib
import os
import random
import signal
import threading
import time

from ends import Handle, descendants
from judge import is_unfinished
from world import below, digest

SIGNALS = ["kill-client", "kill-far", "interrupt", "terminate", "pause", "kill-daemon"]
SOURCE = ["replace", "truncate", "append", "overwrite", "rename", "link", "unlink", "reuse-inode", "make"]
DESTINATION = ["replace", "remove", "symlink", "rename", "touch-unfinished"]


class Trouble(threading.Thread):
    """Does `count` random things of `kinds` within `span` seconds, and notes them in `done`."""

    def __init__(self, seed, span, count):
        super().__init__(daemon=True)
        self.rng = random.Random(seed)
        self.moments = sorted(self.rng.uniform(0, span) for _ in range(count))
        self.done = []
        self.ended = threading.Event()
        self.error = None

    def run(self):
        begin = time.monotonic()
        try:
            for moment in self.moments:
                if self.ended.wait(max(0.0, begin + moment - time.monotonic())):
                    break
                self.act()
        except BaseException as error:  # told by whoever waits for the thread
            self.error = error

    def act(self):
        raise NotImplementedError

    def end(self):
        self.ended.set()
        self.join()
        if self.error is not None:
            raise self.error


class Signals(Trouble):
    """Kills, interrupts or stops one of the processes of a copy."""

    def __init__(self, seed, span, count, process, site):
        super().__init__(seed, span, count)
        self.process, self.site = process, site

    def act(self):
        kind = self.rng.choice(SIGNALS)
        target = self.target(kind)
        if target is None:
            return
        try:
            handle = Handle(target)
        except ProcessLookupError:
            return
        number = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "pause": signal.SIGSTOP}
        if handle.send(number.get(kind, signal.SIGKILL)):
            self.done.append(kind)
        if kind == "pause":
            self.ended.wait(self.rng.uniform(0, 0.3))
            handle.send(signal.SIGCONT)
        handle.close()

    def target(self, kind):
        client = self.programs(self.process.pid, with_itself=True)
        far = self.programs(self.process.pid)[1:] if not self.site.daemon else self.programs(self.site.daemon.pid)
        if kind == "kill-daemon":
            return self.site.daemon.pid if self.site.daemon and self.site.daemon.poll() is None else None
        candidates = {"kill-far": far, "pause": client + far}.get(kind, client[:1])
        return self.rng.choice(candidates) if candidates else None

    def programs(self, pid, with_itself=False):
        """Processes below `pid` that run the program under test, the eldest first."""
        found = []
        for candidate in ([pid] if with_itself else []) + descendants(pid):
            try:
                if os.readlink(f"/proc/{candidate}/exe") == self.site.program:
                    found.append(candidate)
            except OSError:
                continue
        return found


class Ending(Trouble):
    """Ends the client of a copy that would go on."""

    def __init__(self, seed, span, process):
        super().__init__(seed, 0, 1)
        self.moments, self.process = [span], process

    def act(self):
        kind = self.rng.choice(["kill-client", "interrupt", "terminate"])
        self.process.send_signal({"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}.get(kind, signal.SIGKILL))
        self.done.append(kind)


class Instrument(Trouble):
    """Writes files below a source, under names that it never uses again: aside and renamed, at once, and slowly, so that they grow."""

    PIECE = 2 << 20

    def __init__(self, seed, span, count, world, is_last):
        super().__init__(seed, span, count)
        self.world, self.is_last = world, is_last
        # Names whose contents have only one state, however often a copy looks.
        self.whole = []

    def run(self):
        super().run()
        if self.is_last and self.error is None:
            self.note(b"done", b"")
            with open(os.path.join(self.world.sources[0], b"done"), "wb"):
                pass

    def note(self, path, data):
        self.world.contents[path].add(digest(data))
        self.world.names.add(path)

    def act(self):
        source = self.world.sources[0]
        self.world.made += 1
        kind = self.rng.choice(["aside", "aside", "at-once", "directory", "grow"])
        directory = self.rng.choice(self.world.directories[source])
        path = os.path.join(directory, b"i%d" % self.world.made)
        getattr(self, kind.replace("-", "_"))(source, path)
        self.done.append(f"{kind} {path!r}")

    def directory(self, source, path):
        self.world.names.add(path)
        os.mkdir(os.path.join(source, path))
        self.world.directories[source].append(path)

    def aside(self, source, path):
        data = self.world.fresh(self.rng.choice([self.world.small_size(), self.world.large_size()]))
        self.note(path, data)
        with open(os.path.join(source, path + b".part"), "wb") as file:
            file.write(data)
        os.rename(os.path.join(source, path + b".part"), os.path.join(source, path))
        if data:
            self.whole.append(path)

    def at_once(self, source, path):
        # A copy that begins anew may see it while it is written, and cannot know that it is open.
        data = self.world.fresh(self.world.small_size())
        self.note(path, b"")
        self.note(path, data)
        with open(os.path.join(source, path), "wb", buffering=0) as file:
            file.write(data)

    def grow(self, source, path):
        data = self.world.fresh(self.rng.randrange(12 << 20, 28 << 20))
        sofar = hashlib.sha256()
        self.note(path, b"")
        with open(os.path.join(source, path), "wb", buffering=0) as file:
            for begin in range(0, len(data), self.PIECE):
                piece = data[begin : begin + self.PIECE]
                sofar.update(piece)
                self.world.contents[path].add(sofar.copy().digest())
                file.write(piece)
                time.sleep(self.rng.uniform(0, 0.08))
            if self.rng.random() < 0.3:
                # A header that is known at the end.
                begin = self.rng.choice([0, 0, self.rng.randrange(len(data) - 16)])
                data = data[:begin] + b"header, 16 bytes" + data[begin + 16 :]
                self.note(path, data)
                os.pwrite(file.fileno(), b"header, 16 bytes", begin)
            if self.rng.random() < 0.2:
                os.rename(os.path.join(source, path), os.path.join(source, path + b"-renamed"))
                self.world.contents[path + b"-renamed"] |= self.world.contents[path]
                self.world.names.add(path + b"-renamed")


class SourceRaces(Trouble):
    """Another program changes the sources."""

    def __init__(self, seed, span, count, world):
        super().__init__(seed, span, count)
        self.world = world

    def act(self, kind=None):
        kind = kind or self.rng.choice(SOURCE)
        source = self.rng.choice(self.world.sources)
        files = [path for path, found in below(source) if (found.st_mode & 0o170000) == 0o100000]
        if not files:
            return
        path = self.rng.choice(files)
        getattr(self, kind.replace("-", "_"))(source, path)
        self.done.append(f"source {kind} {path!r}")

    def note(self, path, data):
        self.world.contents[path].add(digest(data))
        self.world.names.add(path)

    def same_file(self, source, path):
        """All names, in any source, of the file that `path` names."""
        found = os.stat(os.path.join(source, path))
        return [
            name
            for other in self.world.sources
            for name, stat in below(other)
            if (stat.st_dev, stat.st_ino) == (found.st_dev, found.st_ino)
        ]

    def change(self, source, path, change):
        """Applies `change` to the contents in one step, for every name of the file."""
        full = os.path.join(source, path)
        with open(full, "rb") as file:
            data = bytearray(file.read())
        begin, new = change(data)
        for name in self.same_file(source, path):
            self.note(name, data)
        with open(full, "r+b") as file:
            if new is None:
                file.truncate(begin)
            else:
                os.pwrite(file.fileno(), new, begin)

    def fresh(self):
        return self.rng.randbytes(self.rng.choice([10, 5000, 300_000, 5 << 20]))

    def new_name(self, path):
        self.world.made += 1
        return os.path.join(os.path.dirname(path), b"new%d" % self.world.made)

    def replace(self, source, path):
        data = self.fresh()
        self.note(path, data)
        aside = os.path.join(self.world.directory, b"aside")
        with open(aside, "wb") as file:
            file.write(data)
        os.rename(aside, os.path.join(source, path))

    def truncate(self, source, path):
        def change(data):
            length = self.rng.randrange(len(data) + 1)
            del data[length:]
            return length, None

        self.change(source, path, change)

    def append(self, source, path):
        def change(data):
            begin, new = len(data), self.rng.randbytes(1000)
            data += new
            return begin, new

        self.change(source, path, change)

    def overwrite(self, source, path):
        def change(data):
            begin, new = self.rng.randrange(len(data) + 1), self.rng.randbytes(100)
            data[begin : begin + 100] = new
            return begin, new

        self.change(source, path, change)

    def rename(self, source, path):
        new = self.new_name(path)
        self.world.contents[new] |= self.world.contents[path]
        self.world.names.add(new)
        os.rename(os.path.join(source, path), os.path.join(source, new))

    def link(self, source, path):
        new = self.new_name(path)
        self.world.contents[new] |= self.world.contents[path]
        self.world.names.add(new)
        os.link(os.path.join(source, path), os.path.join(source, new))

    def unlink(self, source, path):
        os.unlink(os.path.join(source, path))

    def reuse_inode(self, source, path):
        """All names of a file go, and new files are likely to get its inode, with several names like it."""
        for other in self.world.sources:
            for name in self.same_file(source, path) if os.path.exists(os.path.join(source, path)) else []:
                full = os.path.join(other, name)
                if os.path.lexists(full) and full != os.path.join(source, path):
                    os.unlink(full)
        os.unlink(os.path.join(source, path))
        self.make(source, path)

    def make(self, source, path):
        new = self.new_name(path)
        data = self.fresh()
        self.note(new, data)
        with open(os.path.join(source, new), "wb") as file:
            file.write(data)
        if self.rng.random() < 0.5:
            self.link(source, new)


class DestinationRaces(Trouble):
    """Another program changes the destination. What it writes is noted in `foreign` by name."""

    def __init__(self, seed, span, count, destination, foreign):
        super().__init__(seed, span, count)
        self.destination, self.foreign = destination, foreign

    def act(self):
        if not os.path.isdir(self.destination):
            return
        kind = self.rng.choice(DESTINATION)
        files = [path for path, found in below(self.destination) if (found.st_mode & 0o170000) == 0o100000]
        files = [path for path in files if is_unfinished(path) == (kind == "touch-unfinished")]
        if not files:
            return
        path = self.rng.choice(files)
        try:
            getattr(self, kind.replace("-", "_"))(path)
        except OSError as error:
            # It is gone meanwhile, or the disk is full for others, too.
            if error.errno not in (errno.ENOENT, errno.ENOSPC):
                raise
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.aside())
            return
        self.done.append(f"destination {kind} {path!r}")

    def aside(self):
        return os.path.join(os.path.dirname(self.destination), b"foreign")

    def replace(self, path):
        data = self.rng.randbytes(self.rng.choice([3, 5000]))
        self.foreign[path].add(digest(data))
        with open(self.aside(), "wb") as file:
            file.write(data)
        os.rename(self.aside(), os.path.join(self.destination, path))

    def remove(self, path):
        self.foreign[path] |= set()
        os.unlink(os.path.join(self.destination, path))

    def symlink(self, path):
        target = b"elsewhere-%d" % self.rng.randrange(1000)
        self.foreign[path].add(target)
        os.symlink(target, self.aside())
        os.rename(self.aside(), os.path.join(self.destination, path))

    def rename(self, path):
        """Away from the destination: under its name there is nothing any more."""
        self.foreign[path] |= set()
        os.rename(os.path.join(self.destination, path), self.aside())
        os.unlink(self.aside())

    def touch_unfinished(self, path):
        """Removes an unfinished file or a journal."""
        os.unlink(os.path.join(self.destination, path))
