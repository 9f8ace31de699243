#!/bin/bash
# Copies of a file to a daemon over a path of a continent by two programs in turn, each with its own memory of the path. Writes a line for each:
#
#   path,run,program,seconds,goodput Mbit/s,segments sent again
#
#   BESIDE=PROGRAM bench/short-paths.sh [RUNS [MEGABYTES]]      (5 runs of a file of 500 MB)
#
# Needs root. BESIDE names the program to compare with, ICDC the other one, SCRATCH a directory on the disk to measure, RTT the round-trip time
# (50ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} megabytes=${2:-500}
# shellcheck disable=SC2034 # read by its name
beside=$(realpath "${BESIDE:?names the program to compare with}") || exit 1
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 50ms
serve "$address"
head -c $((megabytes * 1000000)) /dev/urandom >"$scratch/file"
sync
echo "path,run,program,seconds,goodput Mbit/s,segments sent again"
for (( run = 1; run <= runs; run++ )); do
    for program in beside icdc; do
        summary=$(XDG_STATE_HOME=$scratch/$program near "${!program}" copy --no-resume --json "$scratch/file" "icdc://$address/copy" | tail -n 1)
        cmp -s "$scratch/file" "$scratch/far/copy" || {
            echo "the copy is not equal: $summary" >&2
            exit 1
        }
        rm "$scratch/far/copy"
        jq -r --arg run "${RATE:-1gbit} ${RTT:-50ms},$run,$program" \
            '[$run, (.seconds * 100 | round / 100), (.goodput_bps / 1e4 | round / 100), .retransmitted_segments] | join(",")' <<<"$summary"
    done
done
