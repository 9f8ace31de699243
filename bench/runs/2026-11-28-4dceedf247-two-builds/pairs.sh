#!/bin/bash
# Rows of `icdc lab run any-host` by two programs in turn, and copies from disk to disk: any-host-pairs.sh BASE HEAD OUT [PAIRS]
# OUT/PAIR-PROGRAM/report.json holds each; OUT/disk.csv the rates and bounds of bench/disk.sh.
set -u
base=$1 head=$2 out=$3 pairs=${4:-5}
for pair in $(seq "$pairs"); do
    for name in $([ $((pair % 2)) = 1 ] && echo base head || echo head base); do
        program=$([ "$name" = base ] && echo "$base" || echo "$head")
        timeout 400 "$program" lab run any-host --runs 1 --only 'stock, queue 2.5 MB' --only 'stock, loss 1e-6' --only 'root, 1 stream' \
            --out "$out/$pair-$name" >"$out/$pair-$name.log" 2>&1 || echo "$pair $name: $?" >>"$out/failed"
        ICDC=$program bench/disk.sh 1 4 2>>"$out/disk.err" | sed "s/^1,/$pair,$name,/;/^run/d" >>"$out/disk.csv"
    done
done
echo done >"$out/done"
