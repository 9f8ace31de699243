#!/bin/bash
# Compression over an emulated path: the same file to a daemon with `--compress auto` and with `--compress never`, in turn, in pairs. Writes a
# line for each run, with the bytes that the path carried, and at the end the ratio of the median goodputs:
#
#   data,pair,compress,seconds,goodput Mbit/s,MB carried
#
#   [DATA='text noise mixed'] bench/compression.sh [PAIRS [MEGABYTES]]      (5 pairs of files of 200 MB)
#
#   text    lines of a log: counted, with fields of some ten values
#   noise   random bytes, as what is compressed or encrypted already
#   mixed   64 MB of each in turn
#
# Needs root. ICDC names the program, SCRATCH a directory on the disk to measure, RTT the round-trip time (50ms), RATE the bottleneck (100mbit), CC a
# congestion control (the default).
set -u
cd "$(dirname "$0")/.." || exit 1
pairs=${1:-5} megabytes=${2:-200}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 100mbit 50ms
serve "$address"

# text BYTES
text() {
    awk 'BEGIN { srand(1); for (n = 0;; n++)
        printf "2026-11-29T%02d:%02d:%02d.%03d host%d worker[%d]: %s id=%08x bytes=%d\n", n / 3600 % 24, n / 60 % 60, n % 60, rand() * 1000,
            rand() * 12, 1000 + rand() * 40, (rand() < 0.7 ? "request served" : "cache miss, fetched from origin"), rand() * 4294967295, rand() * 65536
    }' | head -c "$1"
}
noise() { head -c "$1" /dev/urandom; }
mixed() {
    for (( left = $1; left > 0; left -= 128000000 )); do text 64000000; noise 64000000; done | head -c "$1"
}

carried() { near cat "/sys/class/net/$device/statistics/tx_bytes"; }

device=$(near ip -o route get "$address" | sed "s/.* dev \([^ ]*\).*/\1/")
# The first copy learns the path: it is not counted.
noise 50000000 >"$scratch/first"
near "$icdc" copy --no-resume ${CC:+--cc "$CC"} --compress never "$scratch/first" "icdc://$address/copy" 2>/dev/null || exit 1
rm "$scratch/first" "$scratch/far/copy"
echo "data,pair,compress,seconds,goodput Mbit/s,MB carried"
for data in ${DATA:-text noise mixed}; do
    "$data" $((megabytes * 1000000)) >"$scratch/$data"
    sync
    for (( pair = 1; pair <= pairs; pair++ )); do
        # Each is the first one in turn.
        order='auto never'
        (( pair % 2 )) || order='never auto'
        for compress in $order; do
            before=$(carried)
            summary=$(near "$icdc" copy --no-resume ${CC:+--cc "$CC"} --compress "$compress" --json "$scratch/$data" "icdc://$address/copy" | tail -n 1)
            after=$(carried)
            cmp -s "$scratch/$data" "$scratch/far/copy" || {
                echo "the copy is not equal: $summary" >&2
                exit 1
            }
            rm "$scratch/far/copy"
            [ -z "${DEBUG:-}" ] || echo "$summary" >&2
            jq -r --arg run "$data,$pair,$compress" --argjson carried $((after - before)) \
                '[$run, (.seconds * 100 | round / 100), (.goodput_bps / 1e4 | round / 100), ($carried / 1e4 | round / 100)] | join(",")' <<<"$summary"
        done
    done | tee "$scratch/runs"
    median() { grep ",$1," "$scratch/runs" | cut -d, -f5 | sort -n | sed -n "$(((pairs + 1) / 2))p"; }
    awk -v data="$data" -v auto="$(median auto)" -v never="$(median never)" 'BEGIN { printf "# %s: %.2f times the goodput\n", data, auto / never }'
done
