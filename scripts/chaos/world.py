"""The trees of one cycle: sources with every state that each name ever had, and what a finished copy must look like.

Each content is unique (random bytes from the cycle's seed), so that a file with the bytes of another one is noticed
wherever it stands. States are kept as SHA-256 digests by the name that they have at the destination. A state is noted
before it can be seen: what a copy may hold is a subset of what is noted.
"""

import hashlib
import os
import random
import stat
from collections import defaultdict
from dataclasses import dataclass, field

BLOCK = 4 << 20
ODD_NAMES = [b"caf\xc3\xa9", b"bad\xff\xfename", b" blank ", b"-dash", b"new\nline", b"a:b", b"*", b"'quote\""]


def digest(data):
    return hashlib.sha256(data).digest()


def digest_of(path):
    """SHA-256 of a regular file's contents, None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return hashlib.file_digest(file, "sha256").digest()


def below(top):
    """All names below a directory: relative path and lstat, directories before their contents."""
    pending = [b""]
    while pending:
        relative = pending.pop()
        with os.scandir(os.path.join(top, relative) if relative else top) as entries:
            for entry in entries:
                path = os.path.join(relative, entry.name)
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                yield path, found
                if stat.S_ISDIR(found.st_mode):
                    pending.append(path)


@dataclass
class Shape:
    """How much a tree holds."""

    small: int
    large: int
    groups: int
    links: int


@dataclass
class World:
    """Sources whose contents are merged into one destination, in order: of equal names the last one stays."""

    directory: bytes
    rng: random.Random
    sources: list = field(default_factory=list)
    contents: dict = field(default_factory=lambda: defaultdict(set))
    targets: dict = field(default_factory=lambda: defaultdict(set))
    names: set = field(default_factory=set)
    directories: dict = field(default_factory=dict)
    made: int = 0

    def fresh(self, size):
        """Contents that no other file has, unless it is too short for that."""
        return self.rng.randbytes(size)

    def grow(self, count, shape):
        """Makes `count` sources of this shape each, some names in several of them, some files linked across them."""
        for index in range(count):
            source = os.path.join(self.directory, b"s%d" % index)
            os.mkdir(source)
            self.sources.append(source)
            self.directories[source] = [b""]
            for _ in range(self.rng.randint(1, 6)):
                self.make_directory(source)
            for number in range(shape.small):
                self.write(source, self.name(source, b"f%d" % number), self.small_size())
            for number in range(shape.large):
                self.write(source, self.name(source, b"large%d" % number), self.large_size())
            for number in range(shape.links):
                self.symlink(source, self.name(source, b"l%d" % number))
        for number in range(shape.groups):
            self.link_group(number)

    def small_size(self):
        return self.rng.choice([0, 1, 7, 100, 4096, 5000, 65_536, 200_001, self.rng.randrange(1 << 16)])

    def large_size(self):
        return self.rng.choice([BLOCK, BLOCK + 1, 2 * BLOCK - 7, self.rng.randrange(BLOCK, 4 * BLOCK)])

    def make_directory(self, source):
        parent = self.rng.choice(self.directories[source])
        if parent.count(b"/") > 3:
            return
        name = self.rng.choice(ODD_NAMES + [b"d%d" % self.rng.randrange(5)])
        path = os.path.join(parent, name)
        if path not in self.directories[source]:
            os.mkdir(os.path.join(source, path))
            self.directories[source].append(path)
            self.names.add(path)

    def name(self, source, base):
        """A path below the source; one in eight is the same in all sources, others carry the number of theirs."""
        if self.rng.random() < 0.125:
            return b"common-" + base
        return os.path.join(self.rng.choice(self.directories[source]), base + b"-" + os.path.basename(source))

    def write(self, source, path, size):
        data = self.fresh(size)
        self.contents[path].add(digest(data))
        self.names.add(path)
        full = os.path.join(source, path)
        with open(full, "wb") as file:
            if size > BLOCK and self.rng.random() < 0.3:
                # Holes between three islands.
                island = size // 8
                sparse = bytearray(size)
                for begin in (0, size // 2, size - island):
                    sparse[begin : begin + island] = data[begin : begin + island]
                    file.seek(begin)
                    file.write(data[begin : begin + island])
                self.contents[path].add(digest(sparse))
            else:
                file.write(data)
        os.chmod(full, self.rng.choice([0o644, 0o600, 0o755, 0o444, 0o640]))
        nanoseconds = self.rng.randrange(10**18, 17 * 10**17)
        os.utime(full, ns=(nanoseconds, nanoseconds))

    def symlink(self, source, path):
        target = self.rng.choice([b"nowhere", b"../" + self.rng.randbytes(4).hex().encode(), b"/etc/hostname"])
        self.targets[path].add(target)
        self.names.add(path)
        os.symlink(target, os.path.join(source, path))

    def link_group(self, number):
        """A file with two to four names, in any of the sources."""
        source = self.rng.choice(self.sources)
        first = os.path.join(self.rng.choice(self.directories[source]), b"h%d-0" % number)
        size = self.small_size() if self.rng.random() < 0.7 else self.large_size()
        self.write(source, first, size)
        for further in range(1, self.rng.randint(2, 4)):
            other = self.rng.choice(self.sources)
            path = os.path.join(self.rng.choice(self.directories[other]), b"h%d-%d" % (number, further))
            self.contents[path] |= self.contents[first]
            self.names.add(path)
            os.link(os.path.join(source, first), os.path.join(other, path))

    def winners(self):
        """The name at the destination of everything in the sources as they are now: relative path → full path."""
        found = {}
        for source in self.sources:
            for path, _ in below(source):
                found[path] = os.path.join(source, path)
        return found
