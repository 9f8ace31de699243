#!/bin/bash
# What strangers cost a daemon: a copy without its disks (`icdc measure --secure`) beside silent connections and without
# them, in turn, and what the daemon holds before and after failed handshakes.
#
#   bench/strangers.sh [PAIRS [SILENT [HANDSHAKES]]]      (5 1000 10000)
#
# No other icdc may run meanwhile. ICDC names the program.
set -u
cd "$(dirname "$0")/.." || exit 1
pairs=${1:-5} silent=${2:-1000} handshakes=${3:-10000}
. bench/one-host.sh
make_place /var/tmp
export HOME=$place
ulimit -n "$(ulimit -Hn)"

"$icdc" keygen --identity "$place/daemon" >/dev/null && "$icdc" keygen >/dev/null || exit 1
user=''
[ "$(id -u)" -ne 0 ] || user=,user=root
echo "root=$place,rights=rw$user $(cat "$place/.config/icdc/identity.pub")" >"$place/keys"
"$icdc" serve --listen 127.0.0.1:0 --identity "$place/daemon" --authorized-keys "$place/keys" 2>"$place/log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; rm -rf "$place"' EXIT
touch "$place/log"
until port=$(sed -n 's/.*listening address=127.0.0.1:\([0-9]*\).*/\1/p' "$place/log") && [ -n "$port" ]; do sleep 0.1; done
"$icdc" keygen --trust "127.0.0.1:$port" "$(cat "$place/daemon.pub")" >/dev/null || exit 1

rate() {
    "$icdc" measure --secure --json --seconds 8 "icdc://127.0.0.1:$port/" >"$place/said" || exit 1
    goodput "$place/said"
}

# beside: connections that say nothing, each opened again when the daemon has closed it, until it is killed.
beside() {
    local held one
    while :; do
        held=''
        for ((number = 0; number < silent; number++)); do
            exec {one}<>"/dev/tcp/127.0.0.1/$port" || exit 1
            held="$held $one"
        done 2>/dev/null
        sleep 8
        for one in $held; do
            exec {one}>&-
        done
    done
}

echo "pair,alone (bit/s),beside $silent silent connections (bit/s),share"
for ((pair = 1; pair <= pairs; pair++)); do
    alone=$(rate) || exit 1
    beside &
    strangers=$!
    sleep 1
    crowded=$(rate) || exit 1
    kill "$strangers"
    wait "$strangers" 2>/dev/null
    echo "$pair,$alone,$crowded,$(awk "BEGIN { printf \"%.3f\", $crowded / $alone }")"
done

# held: resident KiB, descriptors and threads of the daemon.
held() {
    local resident
    resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$daemon/status")
    echo "$resident,$(find "/proc/$daemon/fd" -mindepth 1 | wc -l),$(find "/proc/$daemon/task" -mindepth 1 -maxdepth 1 | wc -l)"
}

# A ClientHello of TLS 1.2, which the daemon refuses: a record with all that a handshake is begun for.
hello='\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03'$(printf '\\x41%.0s' {1..32})'\x00\x00\x02\xc0\x2f\x01\x00'
fail() {
    for ((number = 0; number < $1; number++)); do
        exec {stranger}<>"/dev/tcp/127.0.0.1/$port" || exit 1
        printf "$hello" >&"$stranger"
        read -r -t 1 -N 1 _ <&"$stranger"
        exec {stranger}>&-
    done 2>/dev/null
}

echo "failed handshakes,seconds,resident (KiB),descriptors,threads"
echo "0,0,$(held)"
total=0
for share in $((handshakes / 10)) $((handshakes - handshakes / 10)) "$handshakes"; do
    begin=$SECONDS
    fail "$share"
    total=$((total + share))
    took=$((SECONDS - begin))
    sleep 12
    echo "$total,$took,$(held)"
done
