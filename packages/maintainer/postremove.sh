#!/bin/sh
# Called after files are removed, by dpkg (remove, purge, …) and by rpm (0: removed, 1: upgraded).
set -e

case ${1:-} in
remove | purge | 0)
    [ ! -d /run/systemd/system ] || systemctl --system daemon-reload || true
    ;;
esac
[ "${1:-}" = purge ] || exit 0

# Keys and settings go. Of the state, only files that icdc makes: a directory that a key has as its root may lie here too.
# The user stays, as files may belong to it.
rm -rf --one-file-system /etc/icdc
rm -f /var/lib/icdc/paths.json
if [ -d /var/lib/icdc ] && ! rmdir /var/lib/icdc 2>/dev/null; then
    echo 'icdc: /var/lib/icdc holds other files, which are kept' >&2
fi
