#!/bin/bash
# Two programs in turn on one host, over loopback: pairs.sh BASE HEAD OUT [PAIRS]
# A copy from tmpfs to tmpfs, a tree of small files there, and measure --secure --hash with 1, 2 and 16 connections.
# OUT/runs.csv: what, program, rate in bits per second, processor seconds of all its processes.
set -u
base=$1 head=$2 out=$3 pairs=${4:-5}
place=$(mktemp -d /dev/shm/icdc-pairs.XXXXXX) || exit 1
trap 'rm -rf "$place"' EXIT
ssh=$place/ssh-here
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$ssh"
chmod 755 "$ssh"
head -c 2000000000 /dev/urandom >"$place/big"
mkdir "$place/tree"
for directory in $(seq 20); do
    mkdir "$place/tree/$directory"
    head -c 4096000 /dev/urandom | split -b 4096 -a 4 - "$place/tree/$directory/f"
done
export ICDC_CONFIG=none HOME=$place
processors() { awk '{ print ($3 + $4) / 100 }' <(awk '{ sub(/.*\) /, ""); print 0, 0, $14, $15 }' /proc/$$/stat); }
one() { # WHAT NAME PROGRAM ARGUMENTS...
    what=$1 name=$2 program=$3
    shift 3
    before=$(processors)
    "$program" "$@" --json --ssh "$ssh" --remote-icdc "$program" >"$place/said" 2>"$place/err" || cat "$place/err" >&2
    after=$(processors)
    rate=$(tail -n 1 "$place/said" | grep -o '"\(goodput_bps\|rate_bps\)":[0-9.]*' | head -1 | cut -d: -f2)
    echo "$what,$name,$rate,$(awk "BEGIN { print $after - $before }")" >>"$out/runs.csv"
    rm -rf "$place/copy"
}
echo "what,program,rate_bps,processor_seconds" >"$out/runs.csv"
for pair in $(seq "$pairs"); do
    for name in $([ $((pair % 2)) = 1 ] && echo base head || echo head base); do
        program=$([ "$name" = base ] && echo "$base" || echo "$head")
        one memory "$name" "$program" copy "$place/big" "127.0.0.1:$place/copy"
        one tree "$name" "$program" copy "$place/tree" "127.0.0.1:$place/copy"
        for streams in 1 2 16; do
            one "measure-$streams" "$name" "$program" measure --secure --hash --seconds 4 --streams "$streams" 127.0.0.1
        done
    done
done
