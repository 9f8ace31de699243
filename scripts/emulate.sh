#!/bin/sh
# Runs a command where the kernel starts programs of another processor by qemu, and changes nothing elsewhere.
#
#   scripts/emulate.sh aarch64|x86_64 COMMAND...
#
# The command gets user, mount, PID and network namespaces of its own, in which it is root and every user exists. Needs root, Linux 6.7
# and Debian's qemu-user-static.
set -u

main() {
    case ${1:-} in
    --inside)
        shift
        inside "$@"
        return
        ;;
    aarch64) magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' ;;
    x86_64) magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00' ;;
    *)
        echo 'emulate: which processor? scripts/emulate.sh aarch64|x86_64 COMMAND...' >&2
        return 2
        ;;
    esac
    emulator=$(command -v "qemu-$1-static") || {
        echo "emulate: there is no qemu-$1-static (Debian's qemu-user-static)" >&2
        return 1
    }
    # The program itself, whatever ABI and kind of executable its header names.
    rule=":qemu-$1:M::$magic:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:$emulator:F"
    shift
    mapped=$(mktemp -u) && mkfifo -m 600 "$mapped" || return 1
    trap 'rm -f "$mapped"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    unshare --user --mount --net --pid --fork --kill-child --propagation private sh "$0" --inside "$mapped" "$rule" "$@" &
    child=$!
    map && echo mapped >"$mapped" || {
        kill "$child"
        return 1
    }
    wait "$child"
}

# This host's users for the child's namespace, once it has one.
map() {
    tries=0
    while [ "$(readlink "/proc/$child/ns/user")" = "$(readlink /proc/self/ns/user)" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] && kill -0 "$child" || return 1
        sleep 0.1
    done
    for map in uid_map gid_map; do
        awk '{ print $1, $1, $3 }' "/proc/self/$map" >"/proc/$child/$map" || return 1
    done
}

inside() {
    read -r _ <"$1" && mount -t proc proc /proc && mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
        printf '%s' "$2" >/proc/sys/fs/binfmt_misc/register || {
        echo 'emulate: the kernel lets no user namespace register another processor (it must be Linux 6.7 or newer, with binfmt_misc)' >&2
        return 1
    }
    shift 2
    exec "$@"
}

main "$@"
