#!/bin/bash
# pairs.sh OURS RUSTLS OUT [PAIRS] [SECONDS] [GIGABYTES]: two builds in turn, both ends on this host, each run in a network namespace and
# a control group of its own, so that other work on the machine is not counted. Appends to OUT/runs.csv, a line for each run:
# case, pair, build, Gbit/s, processor seconds per GiB of both ends, of which in the kernel
#
#   1, 2, 16   icdc measure --secure --hash by so many connections, as bench/scaling.sh
#   copy       a file of random bytes from tmpfs to tmpfs, as bench/memory.sh
set -u
# shellcheck disable=SC2034 # by ${!build}
ours=$1 rustls=$2 out=$3 pairs=${4:-5} seconds=${5:-4} size=${6:-2}
place=$(mktemp -d /dev/shm/icdc-pairs.XXXXXX) || exit 1
group=/sys/fs/cgroup/cpuacct/icdc-pairs.$$
mkdir "$group" || exit 1
trap 'rm -rf "$place"; rmdir "$group"' EXIT
trap 'exit 130' INT TERM
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$place/ssh-here"
chmod 755 "$place/ssh-here"
head -c "${size}000000000" /dev/urandom >"$place/big"

# counted COMMAND...: runs it in the group and a network namespace; "nanoseconds, of which in the kernel".
counted() {
    echo 0 >"$group/cpuacct.usage"
    (
        echo "$BASHPID" >"$group/tasks"
        exec unshare --net sh -c 'ip link set lo up; exec "$@"' sh "$@"
    ) >"$place/said" 2>"$place/error" || { cat "$place/error" >&2; exit 1; }
    while [ -s "$group/tasks" ]; do sleep 0.05; done
    echo "$(cat "$group/cpuacct.usage") $(cat "$group/cpuacct.usage_sys")"
}

one() { # case pair build program
    if [ "$1" = copy ]; then
        rm -f "$place/copied"
        set -- "$@" "$(counted "$4" copy --json --ssh "$place/ssh-here" --remote-icdc "$4" "$place/big" "127.0.0.1:$place/copied")"
        bytes=${size}000000000
        rm -f "$place/copied"
    else
        set -- "$@" "$(counted "$4" measure --secure --hash --json --seconds "$seconds" --streams "$1" --ssh "$place/ssh-here" \
            --remote-icdc "$4" 127.0.0.1)"
        bytes=$(tail -n 1 "$place/said" | sed 's/.*"bytes":\([0-9]*\).*/\1/')
    fi
    rate=$(tail -n 1 "$place/said" | sed 's/.*"goodput_bps":\([0-9.]*\).*/\1/')
    echo "$5 $bytes $rate" | awk -v line="$1,$2,$3" '{ gib = $3 / 2 ^ 30; printf "%s,%.2f,%.4f,%.4f\n", line, $4 / 1e9, $1 / 1e9 / gib, $2 / 1e9 / gib }'
}

mkdir -p "$out"
[ -s "$out/runs.csv" ] || echo "case,pair,build,Gbit/s,processor seconds per GiB,of which in the kernel" >"$out/runs.csv"
for pair in $(seq "$pairs"); do
    for case in 1 2 16 copy; do
        order="ours rustls"
        [ $((pair % 2)) = 1 ] || order="rustls ours"
        for build in $order; do one "$case" "$pair" "$build" "${!build}" | tee -a "$out/runs.csv"; done
    done
done
