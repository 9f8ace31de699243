#!/bin/bash
# profile.sh OURS RUSTLS OUT [ROUNDS]: where the sending and the receiving thread of one connection work, by perf's samples; writes into the
# file OUT, by build, thread and part, processor seconds per GiB.
set -u
# shellcheck disable=SC2034 # by ${!build}
ours=$1 rustls=$2 out=$3
place=$(mktemp -d /dev/shm/icdc-profile.XXXXXX) || exit 1
trap 'rm -rf "$place"' EXIT
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$place/ssh-here"
chmod 755 "$place/ssh-here"
echo "round,build,thread,part,processor seconds per GiB" >"$out"
for round in $(seq "${4:-3}"); do
    for build in ours rustls; do
        unshare --net sh -c 'ip link set lo up; exec "$@"' sh perf record -q -e cpu-clock -F 999 -o "$place/data" -- "${!build}" measure \
            --secure --json --seconds 4 --streams 1 --ssh "$place/ssh-here" --remote-icdc "${!build}" 127.0.0.1 >"$place/said" 2>/dev/null
        bytes=$(tail -n 1 "$place/said" | sed 's/.*"bytes":\([0-9]*\).*/\1/')
        perf script -i "$place/data" -F comm,ip,sym,dso 2>/dev/null | awk -v bytes="$bytes" -v line="$round,$build" '
            $1 == "icdc-send" || $1 == "icdc-receive" {
                part = /memmove|memcpy|memset/ ? "copies of libc" : /libc/ ? "other of libc" : /kernel/ ? "kernel" : "the program: cipher and other"
                count[substr($1, 6) "," part]++
            }
            END { for (key in count) printf "%s,%s,%.4f\n", line, key, count[key] / 999 / (bytes / 2 ^ 30) }' | sort >>"$out"
    done
done
