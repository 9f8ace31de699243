#!/bin/bash
# Copies a real tree from disk to disk between two network namespaces with one cable between them: icdc and rsync (its own protocol, in
# clear) in turn, with cold caches, each to a directory of its own. Writes a line for each copy: program, run, seconds, files, bytes.
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
printf '#!/bin/sh\nshift\nexec ip netns exec %s sh -c "$*"\n' "$far" >"$scratch/ssh"
chmod 755 "$scratch/ssh"
printf 'use chroot = no\nuid = 0\ngid = 0\n[out]\npath = %s\nread only = no\n' "$scratch" >"$scratch/rsyncd.conf"
ip netns exec "$far" rsync --daemon --no-detach --config="$scratch/rsyncd.conf" --log-file=/dev/null &
daemon=$!

echo program,run,seconds,files,bytes
for run in $(seq "$runs"); do
    settle
    ip netns exec "$near" "$icdc" copy --json --ssh "$scratch/ssh" --remote-icdc "$icdc" "$@" "10.99.0.2:$scratch/icdc-$run/" |
        sed -n '/"type":"summary"/s/.*"files":\([0-9]*\),"bytes":\([0-9]*\),.*"seconds":\([0-9.]*\),.*/icdc,'"$run"',\3,\1,\2/p'
    settle
    begin=$(date +%s.%N)
    # As icdc: durable at the end.
    ip netns exec "$near" rsync -aH "$@" "rsync://10.99.0.2/out/rsync-$run/" && sync
    end=$(date +%s.%N)
    echo "rsync,$run,$(echo "$end $begin" | awk '{ printf "%.2f", $1 - $2 }'),$(find "$scratch/rsync-$run" -type f | wc -l),"
done
