#!/bin/bash
# How long it takes from a bare system to the first file copied: the deb installed by apt in a bare root, the rpm unpacked into the same
# root by rpm, the image loaded and run by buildah; each with one command. Writes a line for each run: what is installed, run, seconds
# until the program is installed, seconds until a file of 1 MiB is copied and durable.
#
#   bench/install.sh [RUNS]      (5)
#
# PROGRAM names the program that is packaged (dist/icdc-VERSION-MACHINE.tar.gz, of make dist), SUITE the release of the bare root (this system's).
# Nothing is fetched meanwhile: packages and image are files on this host. Needs root and what `scripts/setup.sh packages` installs.
set -u
cd "$(dirname "$0")/.." || exit 1
setup_top=$PWD
. scripts/setup.sh
. scripts/root.sh

if [ "${1:-}" = --inside ]; then
    mount_root "$2/root" && mkdir -p "$2/root/tmp/out" && mount --bind "$2/out" "$2/root/tmp/out" && shift 2 && exec "$@"
    exit 1
fi

runs=${1:-5}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
program=$(realpath "${PROGRAM:-dist/icdc-$version-$(uname -m).tar.gz}") || exit 1
suite=${SUITE:-$(own_suite)}
place=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-bench.XXXXXX") || exit 1
trap 'rm -rf --one-file-system "$place"' EXIT
trap 'exit 130' INT TERM
packages/build.sh "$place/out" "$program" >&2 && packages/image.sh "$place/out" "$program" >&2 || exit 1
bare_root "$suite" "$place/root.tar" "$place/log" || exit 1
mkdir "$place/data" && head -c 1048576 /dev/urandom >"$place/data/source" && chmod -R a+rwX "$place/data" || exit 1
deb=$(basename "$place"/out/*.deb)
rpm=$(echo "$place"/out/*.rpm)
image=$(echo "$place"/out/icdc-[0-9]*.oci.tar)

# since BEGIN: seconds.
since() {
    date +%s.%N | awk -v begin="$1" '{ printf "%.2f", $1 - begin }'
}

# in_root SCRIPT: where only what a bare root holds is at hand, and $begin is the time.
in_root() {
    rm -rf --one-file-system "$place/root"
    mkdir "$place/root" && tar -xf "$place/root.tar" -C "$place/root" && cp "$place/data/source" "$place/root/root/" && sync || exit 1
    begin=$(date +%s.%N)
    unshare --mount --pid --fork --kill-child --propagation private bash bench/install.sh --inside "$place" \
        env place="$place" deb="$deb" rpm="$rpm" HOME=/root bash -c "$1"' && date +%s.%N >"$place/installed" && chroot "$place/root" icdc copy /root/source /root/copied' \
        >"$place/said" 2>&1 && cmp -s "$place/data/source" "$place/root/root/copied" || fail
    report
}

fail() {
    cat "$place/said" >&2
    exit 1
}

report() {
    echo "$what,$run,$(awk -v begin="$begin" '{ printf "%.2f", $1 - begin }' "$place/installed"),$(since "$begin")"
}

echo 'installed,run,seconds until installed,seconds until copied'
for run in $(seq "$runs"); do
    what=deb
    # shellcheck disable=SC2016 # for the shell inside
    in_root 'chroot "$place/root" apt-get -q install -y --no-install-recommends "/tmp/out/$deb"'
    what=rpm
    # shellcheck disable=SC2016
    in_root 'rpm --root "$place/root" --dbpath /var/lib/rpm --force-debian --nodeps --install "$rpm"'
    what=image
    rm -rf "$place/store" "$place/run" "$place/data/copied"
    sync
    begin=$(date +%s.%N)
    {
        buildah="buildah --root $place/store --runroot $place/run --storage-driver vfs"
        container=$($buildah from "oci-archive:$image") && $buildah config --volume /data- "$container" && date +%s.%N >"$place/installed" &&
            $buildah run --isolation chroot --volume "$place/data:/data" "$container" -- icdc copy /data/source /data/copied
    } >"$place/said" 2>&1 && cmp -s "$place/data/source" "$place/data/copied" || fail
    report
done
