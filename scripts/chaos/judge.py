"""Compares a destination with what its sources were, without any of icdc's own comparisons."""

import os
import stat
from collections import defaultdict

from world import below, digest_of

UNFINISHED = b".icdc-"


def is_unfinished(path):
    return os.path.basename(path).startswith(UNFINISHED)


def wrong_bytes(world, destination, foreign):
    """Names whose contents nobody ever gave them: neither a source at this name nor, by `foreign` (path → digests and
    link targets), somebody else at the destination. Holds at every moment, whatever happened to the copy."""
    faults = []
    for path, found in below(destination):
        if is_unfinished(path):
            continue
        if stat.S_ISREG(found.st_mode):
            seen = digest_of(os.path.join(destination, path))
            # Replaced or removed since it was listed.
            if seen is not None and seen not in world.contents[path] | foreign[path]:
                faults.append(f"{path!r} ({found.st_size} bytes) has contents that nobody gave it")
        elif stat.S_ISLNK(found.st_mode):
            try:
                target = os.readlink(os.path.join(destination, path))
            except OSError:
                continue
            if target not in world.targets[path] | foreign[path]:
                faults.append(f"{path!r} is a link to {target!r}, which nobody gave it")
        elif stat.S_ISDIR(found.st_mode):
            if path not in world.names:
                faults.append(f"{path!r} is a directory that no source has")
        else:
            faults.append(f"{path!r} is neither file, link nor directory")
    return faults


def differences(world, destination, with_attributes, but=frozenset()):
    """How the destination differs from the sources as they stand now, names in `but` aside."""
    faults = []
    groups_there, groups_here = defaultdict(set), defaultdict(set)
    for path, source in world.winners().items():
        if path in but:
            continue
        here = os.lstat(source)
        try:
            there = os.lstat(os.path.join(destination, path))
        except OSError:
            faults.append(f"{path!r} is missing")
            continue
        if stat.S_IFMT(here.st_mode) != stat.S_IFMT(there.st_mode):
            faults.append(f"{path!r} is of another type")
            continue
        if stat.S_ISREG(here.st_mode):
            groups_here[here.st_dev, here.st_ino].add(path)
            groups_there[there.st_dev, there.st_ino].add(path)
            if digest_of(source) != digest_of(os.path.join(destination, path)):
                faults.append(f"{path!r} has other contents ({there.st_size} bytes for {here.st_size})")
            if with_attributes and here.st_mtime_ns != there.st_mtime_ns:
                faults.append(f"{path!r} has another modification time")
        elif stat.S_ISLNK(here.st_mode):
            if os.readlink(source) != os.readlink(os.path.join(destination, path)):
                faults.append(f"{path!r} has another target")
            continue
        if with_attributes and stat.S_IMODE(here.st_mode) != stat.S_IMODE(there.st_mode):
            faults.append(f"{path!r} has mode {there.st_mode & 0o7777:o} for {here.st_mode & 0o7777:o}")
    if with_attributes and not but:
        one, other = (set(map(frozenset, groups.values())) for groups in (groups_here, groups_there))
        for group in one - other:
            faults.append(f"not one file any more: {sorted(group)!r}")
        for group in other - one:
            faults.append(f"one file, which it is not at the source: {sorted(group)!r}")
    return faults


def leftovers(destination):
    return [path for path, _ in below(destination) if is_unfinished(path)]


def fingerprint(source):
    """What a copy must leave alone at its source."""
    return {
        path: (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_nlink, found.st_uid)
        for path, found in below(source)
    }
