#!/bin/bash
# What a copy by --background leaves to one connection by CUBIC over an emulated path whose queue holds one round trip, and what it carries alone.
# Each run measures CUBIC alone, beside a copy without --background and beside one with it, which began before, for SECONDS each; and how long
# the copy with it takes alone. Rates are those of payload. Writes a line for each run:
#
#   who,run,CUBIC alone Mbit/s,CUBIC beside a copy,CUBIC beside --background,share it keeps %,--background alone Mbit/s,of CUBIC alone %
#
#   [WHO='root user'] bench/background.sh [RUNS [SECONDS]]      (5 runs of 20 s)
#
#   root   the copy is paced by icdc's own algorithm in the kernel
#   user   the copy has no capabilities, and finds the rate itself
#
# Data come from and go to memory (/dev/shm). Needs root. ICDC names the program, RTT the round-trip time (50ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} seconds=${2:-20}
export SCRATCH=/dev/shm
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 50ms 6.25MB
serve "$address"
head -c 4G /dev/zero >"$scratch/large"
head -c 1G /dev/zero >"$scratch/alone"

as_root() { exec ip netns exec "icdc-$lab-a" "$@"; }
as_user() {
    exec ip netns exec "icdc-$lab-a" setpriv --bounding-set -net_admin,-bpf,-perfmon --inh-caps -net_admin,-bpf,-perfmon "$@"
}
copy=("$icdc" copy --json --no-resume --whole-file --compress never)

# cubic: Mbit/s of one connection by CUBIC for that time.
cubic() {
    near "$icdc" measure --json --seconds "$seconds" --cc cubic --streams 1 "icdc://$address" | jq -rs 'last | .bytes * 8 / .seconds / 1e6'
}

# beside WHO [OPTION]: the same beside a copy, which began five seconds before.
beside() {
    local who=$1 other
    shift
    rm -rf "$scratch/far/large"
    ("as_$who" "${copy[@]}" "$@" "$scratch/large" "icdc://$address/large") >/dev/null 2>>"$scratch/log" &
    other=$!
    sleep 5
    cubic
    kill -0 "$other" 2>/dev/null || echo "$who $*: the copy had ended" >&2
    kill -9 "$other" 2>/dev/null
    wait "$other" 2>/dev/null
}

echo 'who,run,CUBIC alone Mbit/s,CUBIC beside a copy,CUBIC beside --background,share it keeps %,--background alone Mbit/s,of CUBIC alone %'
for who in ${WHO:-root user}; do
    for (( run = 1; run <= runs; run++ )); do
        alone=$(cubic)
        usual=$(beside "$who")
        background=$(beside "$who" --background)
        rm -rf "$scratch/far/large" "$scratch/far/alone"
        own=$( ("as_$who" "${copy[@]}" --background "$scratch/alone" "icdc://$address/alone") 2>>"$scratch/log" | jq -rs 'last | .goodput_bps / 1e6')
        awk -v who="$who" -v run="$run" -v alone="$alone" -v usual="$usual" -v background="$background" -v own="$own" \
            'BEGIN { printf "%s,%d,%.0f,%.0f,%.0f,%.1f,%.0f,%.1f\n", who, run, alone, usual, background, background / alone * 100, own, own / alone * 100 }'
    done
done
