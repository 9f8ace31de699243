#!/bin/bash
# A disk image of which 1 % of the pages of 64 KiB have changed, over an emulated path into the copy of it that is there (--in-place), beside the time
# that reading it takes at each end. Nothing of it is in memory when each begins. Writes a line for each run:
#
#   run,read near s,read far s,copy s,copy / reading both,MB sent,sent % of the image,MB written,written % of the image
#
#   [HOW=--in-place] bench/image.sh [RUNS [GIBIBYTES]]      (5 runs of 20 GiB)
#
# With HOW empty the copy replaces what is there: on a file system whose files can share space, by a clone of it. What is written is counted at the disk
# that has the directory, until everything is flushed.
# Both ends read at the same time, from one disk here: `reading both` is the time of both together. Needs root, and room for the image twice. ICDC names
# the program, SCRATCH a directory on the disk to measure, RTT the round-trip time (100ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} gibibytes=${2:-20} how=${HOW---in-place}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 100ms
serve "$address"
device=$(near ip -o route get "$address" | sed "s/.* dev \([^ ]*\).*/\1/")
sent() { near cat "/sys/class/net/$device/statistics/tx_bytes"; }

forget() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# seconds COMMAND...: how long it takes.
seconds() {
    local begun=$EPOCHREALTIME
    "$@" || exit 1
    awk -v begun="$begun" -v ended="$EPOCHREALTIME" 'BEGIN { printf "%.2f", ended - begun }'
}

read_through() { dd if="$1" of=/dev/null bs=4M iflag=direct status=none; }

read_both() {
    read_through "$scratch/image" &
    read_through "$scratch/far/image" && wait $!
}

written() {
    sync
    awk '{ printf "%.0f", $7 * 512 }' "/sys/dev/block/$(mountpoint -d "$(stat -c %m "$scratch")")/stat"
}

copy() { near "$icdc" copy ${how:+"$how"} --compress never "$scratch/image" "icdc://$address/image" >>"$scratch/said" 2>&1; }

head -c "${gibibytes}G" /dev/urandom >"$scratch/image" && cp "$scratch/image" "$scratch/far/image" || exit 1
echo 'run,read near s,read far s,copy s,copy / reading both,MB sent,sent % of the image,MB written,written % of the image'
for (( run = 1; run <= runs; run++ )); do
    python3 - "$scratch/image" "$run" <<'PYTHON'
import os, random, sys

page, random_source = 65536, random.Random(int(sys.argv[2]))
with open(sys.argv[1], "r+b", buffering=0) as file:
    count = os.fstat(file.fileno()).st_size // page
    for number in random_source.sample(range(count), count // 100):
        file.seek(number * page)
        file.write(random_source.randbytes(page))
PYTHON
    forget
    near_read=$(seconds read_through "$scratch/image") far_read=$(seconds read_through "$scratch/far/image")
    both=$(seconds read_both)
    forget
    before=$(sent) written_before=$(written)
    took=$(seconds copy) || {
        tail -n 3 "$scratch/said" >&2
        exit 1
    }
    after=$(sent) written_after=$(written)
    cmp -s "$scratch/image" "$scratch/far/image" || {
        echo 'the copy is not equal' >&2
        exit 1
    }
    awk -v run="$run" -v near="$near_read" -v far="$far_read" -v both="$both" -v took="$took" -v sent=$((after - before)) \
        -v written=$((written_after - written_before)) -v size=$((gibibytes << 30)) 'BEGIN {
        printf "%d,%s,%s,%s,%.2f,%.1f,%.3f,%.1f,%.2f\n", run, near, far, took, took / both, sent / 1e6, sent / size * 100, written / 1e6, written / size * 100
    }'
done
