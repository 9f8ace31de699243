#!/bin/bash
# The most memory that each end of a copy from disk to disk holds (VmHWM), by the number of connections.
#
#   bench/resident.sh [CONNECTIONS...]      (1 2 4 8 16 32)
#
# No other icdc may run meanwhile. SCRATCH names a directory on a disk, ICDC the program.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- 1 2 4 8 16 32
. bench/one-host.sh
make_place "${SCRATCH:-/var/tmp}"
head -c 3000000000 /dev/urandom >"$place/source"

# held: MiB that a process has held at most.
held() {
    awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$1/status" 2>/dev/null
}

echo "connections,sending end MiB,receiving end MiB"
for connections; do
    "$icdc" copy --json --whole-file --streams "$connections" --ssh "$ssh" --remote-icdc "$icdc" "$place/source" "127.0.0.1:$place/copied" \
        >"$place/said" &
    copy=$! sent='' received=''
    while kill -0 "$copy" 2>/dev/null; do
        now=$(held "$copy")
        sent=${now:-$sent}
        for process in $(pgrep -x icdc); do
            grep -q far-end "/proc/$process/cmdline" 2>/dev/null || continue
            now=$(held "$process")
            received=${now:-$received}
        done
        sleep 0.05
    done
    wait "$copy" || exit 1
    rm "$place/copied"
    echo "$connections,$sent,$received"
done
