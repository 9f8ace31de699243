#!/bin/sh
# Makes the bare Debian with systemd that the tests of the systemd units boot, and prints its directory. It is made once in DIRECTORY
# and kept there: one for each release, the one that this system has.
#
#   scripts/bootable-root.sh DIRECTORY
#
# Needs root and mmdebstrap (scripts/setup.sh test). To have it made again, remove the directory that is printed.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/scripts/root.sh"

main() {
    mkdir -p "$1" || return 1
    suite=$(own_suite) || return 1
    root=$1/systemd-$suite
    # If several need it at the same time, one makes it.
    exec 9>"$root.lock" && flock 9 || return 1
    [ -d "$root" ] || make || return 1
    echo "$root"
}

make() {
    rm -rf --one-file-system "$root.part"
    bare_root "$suite" "$root.part" "$root.log" --include=systemd || return 1
    # An empty machine id: one is generated at each boot, and no first boot asks for settings.
    : >"$root.part/etc/machine-id"
    # Units that need a network or a terminal, or that run daily.
    for unit in getty.target systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
        e2scrub_all.timer fstrim.timer systemd-timesyncd.service; do
        ln -sf /dev/null "$root.part/etc/systemd/system/$unit" || return 1
    done
    rm -rf "$root.part/var/cache/apt" "$root.part/var/lib/apt/lists"
    mv "$root.part" "$root"
}

[ $# = 1 ] || {
    echo "usage: $0 DIRECTORY" >&2
    exit 2
}
main "$1"
