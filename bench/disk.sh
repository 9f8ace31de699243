#!/bin/bash
# Copies a file from disk to disk on one host, encrypted and hashed, and beside each run what bounds it: the same disk read and written at
# the same time by dd, four of each with Direct I/O, as much in all. Writes a line for each run: rates, and how much of the bound is reached.
#
#   bench/disk.sh [RUNS] [GIBIBYTES] [OPTIONS OF COPY...]      (5 runs of 8 GiB)
#
# SCRATCH names a directory on the disk to measure, ICDC the program.
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} size=${2:-8}
shift $(($# < 2 ? $# : 2))
. bench/one-host.sh
make_place "${SCRATCH:-/var/tmp}"
head -c "${size}G" /dev/urandom >"$place/source"
quarter=$((size * 64))

# bound: seconds that reading and writing as much take together.
bound() {
    fallocate -l "${size}G" "$place/written"
    begin=$(date +%s.%N)
    for part in 0 1 2 3; do
        dd if="$place/source" of=/dev/null bs=4M count=$quarter skip=$((part * quarter)) iflag=direct 2>/dev/null &
        dd if=/dev/zero of="$place/written" bs=4M count=$quarter seek=$((part * quarter)) oflag=direct conv=notrunc 2>/dev/null &
    done
    wait
    echo "$(date +%s.%N) $begin" | awk '{ print $1 - $2 }'
    rm "$place/written"
}

echo "run,bound Mbit/s,copy Mbit/s,% of the bound"
for run in $(seq "$runs"); do
    sync
    seconds=$(bound)
    sync
    "$icdc" copy --json --whole-file --ssh "$ssh" --remote-icdc "$icdc" "$@" "$place/source" "127.0.0.1:$place/copied" >"$place/said" || exit 1
    rate=$(goodput "$place/said")
    rm "$place/copied"
    echo "$seconds $rate $size $run" | awk '{ bound = $3 * 8 * 2 ^ 30 / $1; printf "%d,%.0f,%.0f,%.1f\n", $4, bound / 1e6, $2 / 1e6, 100 * $2 / bound }'
done
