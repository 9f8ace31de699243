#!/bin/sh
# Called after files are removed, by dpkg (remove, purge, …) and by rpm (0: removed, 1: upgraded).
set -e

case ${1:-} in
remove | purge | 0)
    [ ! -d /run/systemd/system ] || systemctl --system daemon-reload || true
    ;;
esac
[ "${1:-}" = purge ] || exit 0

# Keys and settings go. Of state and logs, only files that icdc makes: a directory that a key has as its root may lie here too.
# The user stays, as files may belong to it.
rm -rf --one-file-system /etc/icdc
rm -f /var/lib/icdc/paths.json /var/lib/icdc/usage-*.json /var/log/icdc/audit.log*
for directory in /var/lib/icdc /var/log/icdc; do
    [ ! -d "$directory" ] || rmdir "$directory" 2>/dev/null || echo "icdc: $directory holds other files, which are kept" >&2
done
