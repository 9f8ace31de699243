#!/bin/sh
# Called after files are unpacked, by dpkg (configure [VERSION]) and by rpm (1: installed, 2: upgraded).
# Nothing is enabled or started: the daemon admits nobody before the operator has listed keys, and what listens to the network
# is the operator's choice.
set -e

case ${1:-} in
configure | 1 | 2) ;;
*) exit 0 ;;
esac

identity=/etc/icdc/identity

main() {
    make_identity || echo "icdc: the daemon has no identity yet; make one: icdc keygen --identity $identity && chown icdc: $identity" >&2
    /usr/libexec/icdc/capabilities refresh
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload || true
        hand_over
    fi
}

# A private key is refused unless it belongs to the user that the daemon runs as.
make_identity() {
    [ -e "$identity" ] || icdc keygen --identity "$identity" --comment "$(uname -n)" >/dev/null || return 1
    user=$(sed -n 's/^User=//p' /usr/lib/systemd/system/icdc.service)
    [ -z "$user" ] || [ "$(stat -c %U "$identity")" != root ] || chown "$user:" "$identity"
}

# A running daemon starts the new program beside itself and hands the listening socket to it. Running sessions end with the
# program that they began with. An older daemon that does not catch the signal would be killed by it, with its sessions.
hand_over() {
    daemon=$(systemctl show --property MainPID --value icdc.service 2>/dev/null) || return 0
    [ "${daemon:-0}" -gt 0 ] || return 0
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$daemon/status" 2>/dev/null) || return 0
    # SIGUSR2 is number 12 here: bit 11 of the mask, the highest of its third hexadecimal digit from the end.
    case $caught in
    *[89abcdef]??) kill -USR2 "$daemon" ;;
    *) echo 'icdc: the daemon keeps running the old program until: systemctl restart icdc.service' >&2 ;;
    esac
}

main
