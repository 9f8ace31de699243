#!/bin/sh
# Called by dpkg and rpm before files are unpacked: some of them belong to the group `icdc`.
set -e

getent group icdc >/dev/null || groupadd --system icdc
getent passwd icdc >/dev/null ||
    useradd --system --gid icdc --home-dir /var/lib/icdc --no-create-home --shell /usr/sbin/nologin --comment 'icdc daemon' icdc
