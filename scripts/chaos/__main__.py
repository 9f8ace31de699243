"""Random tester: copies that are killed, raced, starved and refused, compared by other means than icdc's own.

    python3 scripts/chaos PROGRAM [--job JOB] [--cycles N] [--seed N] [--in DIR]

A cycle makes sources, disturbs some runs of one copy command, and lets the last ones run in peace. After each run:

- no name at the destination has contents that nobody gave it, whatever the exit code;
- exit code 0 of a run whose ends nobody raced: everything is there as it stands at the source, and `verified` is true
  unless an earlier run has published some of it;
- the run has ended within its deadline, without a panic.

A mirror (`sync --delete`) is held to more, whenever it is killed: what the source has stays, what rules exclude stays, and
something is deleted only once everything else is there. So is a move: whatever is gone at the source is at the destination.
Snapshots have a name only when they are what the sources are, and never change. Of sources that are followed nothing is missed,
and nothing that was durable travels again.

At the end: exit code 0, contents, types, modes, times and hard links equal, sources untouched, and nothing unfinished left
unless sources lost names or somebody removed unfinished files.
Cycle N of a seed has the same trees, options and troubles each time; when these strike depends on the machine. Exit code
1 if any cycle found a fault; its directory is kept. As root it mounts small file systems of its own, in a mount namespace;
with strace it also injects errors of system calls.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter

from cycle import Cycle, Fault
from jobs import Follow, Mirror, Move, Snapshot

JOBS = {"copy": Cycle, "mirror": Mirror, "move": Move, "snapshot": Snapshot, "follow": Follow}


def own_mounts():
    """Starts this program again in a mount namespace of its own, if it is root and has none."""
    if os.geteuid() == 0 and "CHAOS_MOUNTS" not in os.environ:
        arguments = [sys.executable, os.path.dirname(os.path.abspath(__file__)), *sys.argv[1:]]
        environment = dict(os.environ, CHAOS_MOUNTS="own")
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", *arguments], environment)


def main():
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the icdc under test")
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--job", choices=[*JOBS, "any"], default="any", help="what each cycle does (default: any)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cycle")
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock")
    parser.add_argument("--in", dest="place", default=None, help="where the trees are made")
    parser.add_argument("--keep-going", action="store_true", help="after a fault, too")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    own_mounts()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() & 0xFFFF_FFFF
    place = tempfile.mkdtemp(prefix="icdc-chaos-", dir=arguments.place)
    print(f"seed {seed}, in {place}", flush=True)
    faults, counts = 0, Counter()
    for number in range(arguments.first, arguments.first + arguments.cycles):
        directory = os.path.join(place, str(number))
        os.mkdir(directory)
        job = arguments.job if arguments.job != "any" else random.Random(f"{seed}/{number}/job").choice(list(JOBS))
        cycle = JOBS[job](directory, arguments.program, seed, number)
        try:
            cycle.run()
        except Fault as fault:
            faults += 1
            print(f"cycle {number}: {fault}\n  " + "\n  ".join(cycle.told) + f"\n  kept: {directory}", flush=True)
            if not arguments.keep_going:
                break
        else:
            shutil.rmtree(directory)
            if arguments.verbose:
                print(f"cycle {number}: " + "; ".join(cycle.told), flush=True)
        counts.update(word for line in cycle.told if "exit code" in line for word in line.split() if word.isalpha())
        counts["runs"] += sum("exit code" in line for line in cycle.told)
        if (number + 1) % 50 == 0:
            print(f"{number + 1 - arguments.first} cycles, {counts['runs']} runs, {faults} faults", flush=True)
    if not faults:
        shutil.rmtree(place)
    print(f"{arguments.cycles} cycles of seed {seed}, {counts['runs']} runs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
