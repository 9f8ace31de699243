#!/bin/bash
# A file of which something has moved or changed, over an emulated path: copied by icdc without and with --delta, and by rsync, in turn. Writes a
# line for each run, with the bytes that the path carried in either direction:
#
#   change,run,program,seconds,MB sent,MB returned
#
#   [CHANGES='insert pages'] [PEERS=rsync] bench/delta.sh [RUNS [MEBIBYTES]]      (5 runs of a file of 1024 MiB)
#
#   insert   1 MiB inserted at the start
#   pages    1 % of the 64 KiB pages changed, a byte in a random place of each
#
# rsync runs by a daemon, in this direction with its delta algorithm. Nothing is compressed: what is new is noise. Needs root, and room for the
# file once more per program. ICDC names the program, SCRATCH a directory on the disk to measure, RTT the round-trip time (100ms), RATE the bottleneck
# (100mbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} mebibytes=${2:-1024}
peers=${PEERS-rsync}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 100mbit 100ms
serve "$address"
case $peers in *rsync*) serve_rsync "$address" ;; esac

device=$(near ip -o route get "$address" | sed "s/.* dev \([^ ]*\).*/\1/")
carried() { near cat "/sys/class/net/$device/statistics/$1_bytes"; }

# insert RUN, pages RUN: makes the new file of the old one.
insert() {
    { head -c 1048576 /dev/urandom; cat "$scratch/old"; } >"$scratch/new"
}
pages() {
    cp "$scratch/old" "$scratch/new" &&
        python3 - "$scratch/new" "$1" <<'PYTHON'
import os, random, sys

page, random_source = 65536, random.Random(int(sys.argv[2]))
with open(sys.argv[1], "r+b") as file:
    count = os.fstat(file.fileno()).st_size // page
    for number in random_source.sample(range(count), max(1, count // 100)):
        place = number * page + random_source.randrange(page)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
PYTHON
}

# copy PROGRAM: brings the new file to the far host, where PROGRAM has its own old one.
copy() {
    case $1 in
    icdc) near "$icdc" copy --no-resume --compress never "$scratch/new" "icdc://$address/$1" ;;
    delta) near "$icdc" copy --no-resume --compress never --delta "$scratch/new" "icdc://$address/$1" ;;
    rsync) near rsync -t --no-whole-file "$scratch/new" "rsync://$address/far/$1" ;;
    esac >"$scratch/said" 2>&1
}

head -c $((mebibytes * 1048576)) /dev/urandom >"$scratch/old"
# The first copy learns the path: it is not counted.
head -c 50000000 /dev/urandom >"$scratch/new"
copy icdc || exit 1
echo "change,run,program,seconds,MB sent,MB returned"
for change in ${CHANGES:-insert pages}; do
    for (( run = 1; run <= runs; run++ )); do
        "$change" "$run" || exit 1
        # Each is the first one in turn.
        order="delta icdc $peers"
        (( run % 2 )) || order="$peers icdc delta"
        for program in $order; do
            cp "$scratch/old" "$scratch/far/$program" || exit 1
            touch -d '2001-01-01' "$scratch/far/$program"
            sync
            sent=$(carried tx) returned=$(carried rx) begun=$(date +%s.%N)
            copy "$program" || {
                cat "$scratch/said" >&2
                exit 1
            }
            ended=$(date +%s.%N)
            sent=$(($(carried tx) - sent)) returned=$(($(carried rx) - returned))
            cmp -s "$scratch/new" "$scratch/far/$program" || {
                echo "the copy by $program is not equal" >&2
                exit 1
            }
            rm "$scratch/far/$program"
            awk -v run="$change,$run,$program" -v seconds="$(echo "$ended $begun" | awk '{ print $1 - $2 }')" -v sent="$sent" -v returned="$returned" \
                'BEGIN { printf "%s,%.2f,%.2f,%.2f\n", run, seconds, sent / 1e6, returned / 1e6 }'
        done
    done
done
