# For the scripts that copy within one host; sourced from the project's root. Sets
#   icdc     the program that is measured, which ICDC may name
# and after `make_place PARENT`
#   place    a directory of this run in PARENT, removed at its end
#   ssh      stands in for ssh: runs the command on this host. A program of the name ssh would get options of OpenSSH
# shellcheck shell=bash disable=SC2034
icdc=$(realpath "${ICDC:-${CARGO_TARGET_DIR:-target}/release/icdc}")

make_place() {
    place=$(mktemp -d "$1/icdc-bench.XXXXXX") || exit 1
    trap 'rm -rf "$place"' EXIT
    trap 'exit 130' INT TERM
    ssh=$place/ssh-here
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$ssh"
    chmod 755 "$ssh"
}

# goodput FILE: bits per second of the copy whose events are in FILE.
goodput() {
    tail -n 1 "$1" | sed 's/.*"goodput_bps":\([0-9.]*\).*/\1/'
}
