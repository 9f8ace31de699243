#!/bin/bash
# Copies a real tree from disk to disk between two network namespaces with one cable between them: icdc and rsync (its own protocol, in
# clear) in turn, with cold caches, each to a directory of its own. Writes a line for each copy: program, run, seconds until the program has
# ended and all is durable, and how many names have arrived.
#
#   bench/tree.sh [RUNS] [SOURCE...]      (5 runs of /usr/lib and /usr/share)
#
# Needs root, and room for all copies, which stay until the end: inodes that were just freed make creating files slower. ICDC names the
# program, SCRATCH a directory on the disk to measure.
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5}
shift
[ $# -gt 0 ] || set -- /usr/lib /usr/share
icdc=$(realpath "${ICDC:-${CARGO_TARGET_DIR:-target}/release/icdc}")
near=icdc-tree-$$-a far=icdc-tree-$$-b
daemon=''

clean_up() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null
    ip netns delete "$near" 2>/dev/null
    ip netns delete "$far" 2>/dev/null
    rm -rf "$scratch"
}

# settle: nothing is left to write, and nothing is cached.
settle() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
}

scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-tree.XXXXXX") || exit 1
trap clean_up EXIT
trap 'exit 130' INT TERM
ip netns add "$near" && ip netns add "$far" || exit 1
ip -n "$near" link add eth0 type veth peer name eth0 netns "$far" || exit 1
for host in "$near 10.99.0.1" "$far 10.99.0.2"; do
    ip -n "${host% *}" address add "${host#* }/24" dev eth0
    ip -n "${host% *}" link set eth0 up
    ip -n "${host% *}" link set lo up
done
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$far" >"$scratch/ssh-there"
chmod 755 "$scratch/ssh-there"
printf 'use chroot = no\nuid = 0\ngid = 0\n[out]\npath = %s\nread only = no\n' "$scratch" >"$scratch/rsyncd.conf"
ip netns exec "$far" rsync --daemon --no-detach --config="$scratch/rsyncd.conf" --log-file=/dev/null &
daemon=$!

# timed COMMAND...: runs it and makes its data durable; sets $seconds.
timed() {
    begin=$(date +%s.%N)
    "$@" >"$scratch/said" 2>&1 && sync || {
        cat "$scratch/said" >&2
        exit 1
    }
    seconds=$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.2f", $1 - $2 }')
}

echo program,run,seconds,names
for run in $(seq "$runs"); do
    settle
    timed ip netns exec "$near" "$icdc" copy --ssh "$scratch/ssh-there" --remote-icdc "$icdc" "$@" "10.99.0.2:$scratch/icdc-$run/"
    echo "icdc,$run,$seconds,$(find "$scratch/icdc-$run" | wc -l)"
    settle
    timed ip netns exec "$near" rsync -aH "$@" "rsync://10.99.0.2/out/rsync-$run/"
    echo "rsync,$run,$seconds,$(find "$scratch/rsync-$run" | wc -l)"
done
