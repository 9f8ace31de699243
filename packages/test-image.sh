#!/bin/sh
# Tests the images: makes them of a program and runs them by buildah, as their user, in a network namespace of their own: copies within
# a volume, to a daemon in another container, and what the jobs in kubernetes/ start.
#
#   packages/test-image.sh PROGRAM
#
# Needs root, and what `scripts/setup.sh packages` installs. A program that is linked dynamically gets its libraries beside it, in the
# containers of this test only.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/packages/checks.sh"
. "$setup_top/packages/programs.sh"

daemon=127.0.0.1:2633

main() {
    case ${1:-} in
    --inside)
        inside "$2" "$3"
        exit
        ;;
    '')
        echo 'usage: packages/test-image.sh PROGRAM' >&2
        exit 2
        ;;
    esac
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-images.XXXXXX") || exit 1
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    trap 'exit 130' HUP INT TERM
    install -m 755 "$1" "$scratch/icdc" && strip "$scratch/icdc" || exit 1
    VERSION=0.0.9 "$setup_top/packages/image.sh" "$scratch/images" "$scratch/icdc" || exit 1
    # Daemons and containers end with the namespace.
    unshare --mount --pid --net --fork --kill-child --mount-proc --propagation private \
        sh "$setup_top/packages/test-image.sh" --inside "$1" "$scratch"
}

inside() {
    scratch=$2 tested=images said=$2/said failed=''
    ip link set lo up || exit 1
    machine=$(architecture "$scratch/icdc")
    store pull --quiet "oci-archive:$scratch/images/icdc-0.0.9-$machine.oci.tar" >"$scratch/icdc.id" &&
        store pull --quiet "oci-archive:$scratch/images/icdc-jobs-0.0.9-$machine.oci.tar" >"$scratch/jobs.id" || exit 1
    described
    container=$(container_of icdc) || exit 1
    jobs=$(container_of jobs) || exit 1
    mkdir "$scratch/data" && chown 10001:10001 "$scratch/data" && head -c 8000000 /dev/urandom >"$scratch/data/source" || exit 1
    chmod 644 "$scratch/data/source"
    copies
    serves
    does_jobs
    [ -z "$failed" ] || exit 1
    echo 'images: both run as their user, copy and serve'
}

store() {
    buildah --root "$scratch/store" --runroot "$scratch/run" --storage-driver vfs "$@"
}

container_of() {
    name=$(store from "$(cat "$scratch/$1.id")") || return 1
    for library in $(ldd "$scratch/icdc" 2>/dev/null | grep -o '/[^ ]*'); do
        store copy --quiet "$name" "$library" "$library" >/dev/null || return 1
    done
    # buildah run would mount the image's own volume over the one that --volume names, unlike podman and docker.
    store config --volume /data- "$name" || return 1
    echo "$name"
}

run() {
    running_in=$1
    shift
    store run --isolation chroot --volume "$scratch/data:/data" "$running_in" -- "$@"
}

described() {
    store inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.User}} {{.OCIv1.Config.Volumes}}' \
        "$(cat "$scratch/icdc.id")" >"$scratch/described"
    check 'entry point, user and volume' grep -qxF '[/usr/bin/icdc] 10001:10001 map[/data:{}]' "$scratch/described"
    store inspect --type image --format '{{index .OCIv1.Config.Labels "org.opencontainers.image.version"}}' "$(cat "$scratch/icdc.id")" >"$scratch/described"
    check 'the label of its version' grep -qx 0.0.9 "$scratch/described"
}

copies() {
    check 'a copy' run "$container" icdc copy /data/source /data/copied
    check 'arrives' cmp "$scratch/data/source" "$scratch/data/copied"
    check 'belongs to the image'"'"'s user' test "$(stat -c %u:%g "$scratch/data/copied")" = 10001:10001
}

serves() {
    mkdir "$scratch/data/in" && chown 10001:10001 "$scratch/data/in"
    check 'keys of the daemon' run "$container" icdc keygen --identity /data/daemon
    check 'keys of the client' run "$container" icdc keygen --identity /data/client
    echo "root=/data/in,rights=rw $(head -n 1 "$scratch/data/client.pub")" >"$scratch/data/authorized_keys"
    check 'trust' run "$container" icdc keygen --known-hosts /data/known_hosts --trust "$daemon" "$(head -n 1 "$scratch/data/daemon.pub")"
    run "$container" icdc serve --listen "$daemon" --identity /data/daemon --authorized-keys /data/authorized_keys >"$scratch/daemon.log" 2>&1 &
    # Port 2633 is 0A49, and state 0A is LISTEN.
    soon grep -q ':0A49 .* 0A ' /proc/net/tcp || {
        echo 'images: the daemon does not listen:' && cat "$scratch/daemon.log"
        failed=yes
        return
    }
    check 'a copy to the daemon' run "$jobs" icdc copy --identity /data/client --known-hosts /data/known_hosts /data/source "icdc://$daemon/copied"
    check 'arrives' cmp "$scratch/data/source" "$scratch/data/in/copied"
}

# Commands and shell as in the jobs' manifests.
does_jobs() {
    # shellcheck disable=SC2016 # for the shell in the container
    check 'what jobs start' run "$jobs" sh -c 'trap "exit 143" TERM
        [ -e /data/source ] && sleep 0 || exit 1
        mkdir /data/keys && cp /data/client /data/keys && chmod 0400 /data/keys/client &&
        case $(icdc --version) in "icdc "*) exec icdc copy --dry-run /data/source /data/other ;; esac'
    check 'the mode of a key' test "$(stat -c %a "$scratch/data/keys/client")" = 400
}

main "$@"
