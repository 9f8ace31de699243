#!/bin/bash
# Copies a file of random bytes from tmpfs to tmpfs over loopback, encrypted and hashed, and writes a line for each run: rate, processor
# time per GiB of the whole machine, and how busy it was, from /proc/stat; and before each run the rate of cat, which shows what a page that
# is first used costs on this machine: a hypervisor may have taken back what is free.
#
#   bench/memory.sh [RUNS] [GIGABYTES] [OPTIONS OF COPY...]      (5 runs of 6 GB)
#
# Needs memory for two such files. ICDC names the program.
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} size=${2:-6}
shift $(($# < 2 ? $# : 2))
. bench/one-host.sh
make_place /dev/shm
head -c "${size}000000000" /dev/urandom >"$place/big"

# times: hundredths of a second in which the processors worked, and in which they existed.
times() {
    awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat
}

echo "run,Mbit/s,processor seconds per GiB,busy %,cat Mbit/s"
for run in $(seq "$runs"); do
    begin=$(date +%s.%N)
    cat "$place/big" >"$place/out"
    plain=$(echo "$(date +%s.%N) $begin $size" | awk '{ printf "%.0f", $3 * 8000 / ($1 - $2) }')
    rm "$place/out"
    before=$(times)
    "$icdc" copy --json --whole-file --ssh "$ssh" --remote-icdc "$icdc" "$@" "$place/big" "127.0.0.1:$place/out" >"$place/said" || exit 1
    after=$(times)
    rate=$(goodput "$place/said")
    echo "$before $after $rate $size $run $plain" | awk '{
        printf "%d,%.0f,%.2f,%.0f,%d\n", $7, $5 / 1e6, ($3 - $1) / 100 / ($6 * 1e9 / 2 ^ 30), 100 * ($3 - $1) / ($4 - $2), $8 }'
done
