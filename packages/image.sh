#!/bin/sh
# Makes OCI images of each program given, which is linked statically (or an archive of make dist): icdc-VERSION-MACHINE.oci.tar
# with nothing but the program, and icdc-jobs-VERSION-MACHINE.oci.tar with a shell (busybox, from Debian's package) for the jobs
# in kubernetes/.
#
#   packages/image.sh DIRECTORY PROGRAM...
#
# Needs buildah and mmdebstrap (scripts/setup.sh packages), and root, or subordinate user ids. VERSION (else Cargo.toml's) and
# SOURCE_DATE_EPOCH (else the last commit's time) may be set: the same input makes the same bytes. Afterwards, for
# instance:
#
#   podman load --input DIRECTORY/icdc-0.1.0-x86_64.oci.tar
#   buildah push oci-archive:DIRECTORY/icdc-jobs-0.1.0-x86_64.oci.tar docker://registry.example.org/icdc:0.1
set -eu
setup_top=$(cd "$(dirname "$0")/.." && pwd)
. "$setup_top/packages/programs.sh"
. "$setup_top/scripts/root.sh"
target=$(cd "$setup_top" && mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)

# What the jobs start.
commands='sh sleep mkdir cp chmod'

main() {
    [ $# -ge 2 ] || {
        echo 'usage: packages/image.sh DIRECTORY PROGRAM...' >&2
        exit 2
    }
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    shift
    version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$setup_top/Cargo.toml" | head -n 1)}
    revision=$(git -C "$setup_top" rev-parse HEAD)
    epoch=${SOURCE_DATE_EPOCH:-$(git -C "$setup_top" log -1 --format=%ct)}
    scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/icdc-image.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    made=''
    for given in "$@"; do
        program=$(unpacked "$given" "$scratch/unpacked")
        machine=$(architecture "$program")
        context "$program"
        image icdc
        image jobs
    done
    # shellcheck disable=SC2086 # names without blanks
    SOURCE_DATE_EPOCH=$epoch VERSION=$version "$setup_top/scripts/attest.py" provenance packages/image.sh \
        "buildah=$(buildah --version | awk '{ print $3 }')" "$@" -- $made >"$scratch/provenance.json"
    mv "$scratch/provenance.json" "$out/icdc-$version-images.provenance.json"
    SOURCE_DATE_EPOCH=$epoch VERSION=$version "$setup_top/scripts/release.sh" finish "$out"
}

context() {
    rm -rf "$scratch/context"
    mkdir -p "$scratch/context/data" "$scratch/context/bin"
    install -m 755 "$1" "$scratch/context/icdc"
    shell_for_jobs
    install -m 755 "$target/busybox/$machine" "$scratch/context/bin/busybox"
    for command in $commands; do
        ln -s busybox "$scratch/context/bin/$command"
    done
}

# Kept for later images; an archive for another machine is unpacked like one for this.
shell_for_jobs() {
    [ ! -x "$target/busybox/$machine" ] || return 0
    echo "image: fetching busybox for $machine (once)" >&2
    bare_root "$(own_suite)" "$scratch/busybox" "$scratch/busybox.log" --variant=extract --include=busybox-static \
        --architectures="$(platform | sed 's/linux.//')"
    install -D "$(find "$scratch/busybox" -path '*/bin/busybox' -type f)" "$target/busybox/$machine"
    rm -rf "$scratch/busybox"
}

platform() {
    case $machine in
    x86_64) echo linux/amd64 ;;
    aarch64) echo linux/arm64 ;;
    esac
}

# image NAME: the stage NAME of the Containerfile.
image() {
    case $1 in icdc) name=icdc ;; *) name=icdc-$1 ;; esac
    set -- "$1" --label "org.opencontainers.image.title=$name" \
        --label 'org.opencontainers.image.description=Disk-to-disk copier for long fat networks' \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.revision=$revision" \
        --label 'org.opencontainers.image.licenses=MIT OR Apache-2.0'
    stage=$1
    shift
    archive=$out/$name-$version-$machine.oci.tar
    # A store of its own, so that the user's images are not touched and two runs do not interfere.
    set -- --quiet --isolation chroot --layers=false --platform "$(platform)" --timestamp "$epoch" --target "$stage" \
        --file "$setup_top/packages/Containerfile" --tag "localhost/$name:$version" "$@" "$scratch/context"
    store build "$@" >/dev/null
    rm -rf "$scratch/oci"
    store push --quiet "localhost/$name:$version" "oci:$scratch/oci:$name:$version"
    # An archive that buildah writes has the time of its writing in it.
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$scratch/oci" -cf "$archive" blobs index.json oci-layout
    made="$made $archive"
    echo "created image: $archive"
}

store() {
    buildah --root "$scratch/store" --runroot "$scratch/run" --storage-driver vfs "$@"
}

main "$@"
