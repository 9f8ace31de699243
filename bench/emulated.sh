# shellcheck shell=bash
# Two hosts of a lab with an emulated path between them, for the scripts here; all of it goes when the script ends.
#
#   . bench/emulated.sh RATE RTT [QUEUE]      RATE and RTT of the path unless the variables of these names say otherwise, and its queue
#
# `peers` are programs to measure beside icdc, which must be installed. Sets `icdc` to the program to measure (ICDC names another one), `address` to that of the far host, and `scratch` to a directory (SCRATCH names
# the disk) with `far` in it, which daemons share; HOME is in it, too.
for program in ${peers:-}; do
    command -v "$program" >/dev/null || {
        echo "$program is not installed: PEERS names those to measure" >&2
        exit 1
    }
done
icdc=$(realpath "${ICDC:-${CARGO_TARGET_DIR:-target}/release/icdc}")
lab=$(basename "$0" .sh)$$
# shellcheck disable=SC2034 # the scripts that source this use it
address=10.26.33.2
daemons=''

clean_up() {
    for daemon in $daemons; do kill "$daemon" 2>/dev/null; done
    wait
    "$icdc" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$scratch"
}
scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-$(basename "$0" .sh).XXXXXX") || exit 1
trap clean_up EXIT
trap 'exit 130' INT TERM
export HOME=$scratch/home
mkdir "$HOME" "$scratch/far" || exit 1
"$icdc" lab up --name "$lab" --rate "${RATE:-$1}" --rtt "${RTT:-$2}" ${3:+--queue "$3"} --mode fast >/dev/null || exit 1
near() { ip netns exec "icdc-$lab-a" "$@"; }
far() { ip netns exec "icdc-$lab-b" "$@"; }

# listens ADDRESS PORT: waits until something listens there at the far host.
listens() {
    until far bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null; do sleep 0.1; done
}

# serve ADDRESS: a daemon at the far host, which this user's key may read from and write to.
serve() {
    [ -e "$scratch/keys" ] || {
        "$icdc" keygen --identity "$scratch/daemon" >/dev/null && "$icdc" keygen >/dev/null || exit 1
        echo "root=$scratch/far,rights=rw,user=root $(cat "$HOME/.config/icdc/identity.pub")" >"$scratch/keys"
    }
    # Not by the function: the process to end would be a shell.
    ip netns exec "icdc-$lab-b" "$icdc" serve --listen "$1:2633" --identity "$scratch/daemon" --authorized-keys "$scratch/keys" \
        2>>"$scratch/log" &
    daemons="$daemons $!"
    "$icdc" keygen --trust "$1:2633" "$(cat "$scratch/daemon.pub")" >/dev/null || exit 1
    listens "$1" 2633
}

# serve_rsync ADDRESS: a daemon of rsync at the far host, whose module is `far`.
serve_rsync() {
    printf 'use chroot = no\nuid = 0\ngid = 0\n[far]\npath = %s\nread only = no\n' "$scratch/far" >"$scratch/rsyncd.conf"
    ip netns exec "icdc-$lab-b" rsync --daemon --no-detach --address "$1" --config="$scratch/rsyncd.conf" --log-file=/dev/null &
    daemons="$daemons $!"
    listens "$1" 873
}
