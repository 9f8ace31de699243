#!/bin/sh
# Called before files are removed, by dpkg (remove, upgrade VERSION, …) and by rpm (0: removed, 1: upgraded).
set -e

case ${1:-} in
remove | 0) ;;
# On upgrade the daemon and its sessions continue: see postinstall.sh.
*) exit 0 ;;
esac

/usr/libexec/icdc/capabilities off
if [ -d /run/systemd/system ]; then
    for unit in /usr/lib/systemd/system/icdc*.socket /usr/lib/systemd/system/icdc*.service; do
        [ ! -e "$unit" ] || systemctl --no-reload disable --now "${unit##*/}" || true
    done
fi
