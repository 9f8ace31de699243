#!/bin/bash
# How well the end of a copy is predicted over an emulated path, to a daemon: at 20 % of the bytes, and at 50 %. Writes a line for each run, and at the
# end in how many the prediction at 20 % was within 3 % of the truth, and the truth within its bounds:
#
#   data,run,seconds,at 20 %,low,high,error %,at 50 %,error %
#
#   [DATA='file tree'] bench/prediction.sh [RUNS [MEGABYTES]]      (10 runs of 1000 MB)
#
#   file    one file of random bytes
#   tree    half of the bytes in one file, the rest in files of 16 kB
#
# The time is that from the start of the run to its end, which a copy tells itself. Needs root. ICDC names the program, SCRATCH a directory on the disk to
# measure, RTT the round-trip time (100ms), RATE the bottleneck (400mbit), CC a congestion control (the default).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-10} megabytes=${2:-1000}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 400mbit 100ms
serve "$address"

file() { head -c "$1" /dev/urandom >"$scratch/file"; }
tree() {
    mkdir -p "$scratch/tree/small"
    head -c $(($1 / 2)) /dev/urandom >"$scratch/tree/large"
    head -c $(($1 / 2)) /dev/urandom | (cd "$scratch/tree/small" && split -b 16000 -a 5 -)
}

# The first copy learns the path: it is not counted.
head -c 50000000 /dev/urandom >"$scratch/first"
near "$icdc" copy --no-resume ${CC:+--cc "$CC"} "$scratch/first" "icdc://$address/first" >/dev/null 2>&1 || exit 1
rm "$scratch/first" "$scratch/far/first"
echo 'data,run,seconds,at 20 %,low,high,error %,at 50 %,error %'
for data in ${DATA:-file tree}; do
    "$data" $((megabytes * 1000000))
    sync
    for (( run = 1; run <= runs; run++ )); do
        near "$icdc" copy --no-resume ${CC:+--cc "$CC"} --json "$scratch/$data" "icdc://$address/copy" >"$scratch/events" 2>>"$scratch/log" || {
            tail -n 1 "$scratch/events" >&2
            exit 1
        }
        diff -rq "$scratch/$data" "$scratch/far/copy" >&2 || exit 1
        rm -r "$scratch/far/copy"
        jq -rs --arg run "$data,$run" '
            (last | .seconds) as $truth
            | def at($share): map(select(.type == "progress" and .bytes_done >= $share * .bytes_total)) | first
                | if .seconds_left == null then [null, null, null]
                  else [.seconds + .seconds_left, .seconds + .seconds_left_low, .seconds + .seconds_left_high] end;
              def rounded: if . == null then "none" else . * 100 | round / 100 end;
              def error: if . == null then "none" else (. / $truth - 1) * 1000 | round / 10 end;
              at(0.2) as $early | at(0.5) as $half
            | [$run, ($truth | rounded), ($early[] | rounded), ($early[0] | error), ($half[0] | rounded), ($half[0] | error)] | join(",")' \
            "$scratch/events"
    done | tee "$scratch/runs"
    awk -F, -v data="$data" '
        $7 != "none" && $7 <= 3 && $7 >= -3 { near++ }
        $5 != "none" && $5 <= $3 && $3 <= $6 { bounded++ }
        END { printf "# %s: of %d runs, %d within 3 %%, %d within the bounds\n", data, NR, near, bounded }' "$scratch/runs"
    rm -r "${scratch:?}/$data"
done
