# For scripts that need a root directory of their own; sourced after setup.sh.
#
# bare_root SUITE TARGET LOG [OPTION...]: makes a root directory, or a .tar of one, with no more than apt and what is essential
# (mmdebstrap's variant minbase). SUITE is a release of Debian or Ubuntu, by its code name. This system's own release comes from the
# sources of its apt, another one from MIRROR or mmdebstrap's default. Another distribution needs its keyring:
# debian-archive-keyring, ubuntu-keyring.
# shellcheck shell=sh

own_suite() {
    # shellcheck disable=SC1091 # not ours
    (. /etc/os-release && echo "$VERSION_CODENAME")
}

bare_root() {
    root_suite=$1 root_target=$2 root_log=$3
    shift 3
    set -- --variant=minbase --quiet "$@"
    for settings in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        ! grep -qs Acquire "$settings" || set -- "$@" --aptopt="$settings"
    done
    set -- "$@" "$root_suite" "$root_target"
    if [ -n "${MIRROR:-}" ]; then
        set -- "$@" "$MIRROR"
    elif [ "$root_suite" = "$(own_suite)" ]; then
        for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
            [ ! -s "$list" ] || set -- "$@" "$list"
        done
    fi
    mmdebstrap "$@" >"$root_log" 2>&1 || {
        tail -n 20 "$root_log" >&2
        return 1
    }
}

# mount_root DIRECTORY: prepares it for enter_root. Call it in a mount namespace of its own: the mounts end with that. /tmp stays in the
# directory's own file system, which has what a tmpfs may lack (Direct I/O).
mount_root() {
    mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
        mount -t tmpfs -o mode=755 tmpfs "$1/run" || return 1
    # As where a service manager runs; icdc mounts it only where it outlasts the mount namespace.
    mountpoint -q "$1/sys/fs/bpf" || mount -t bpf bpf "$1/sys/fs/bpf" 2>/dev/null
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null
    cp -L /etc/hosts "$1/etc/hosts" 2>/dev/null
    return 0
}

# enter_root DIRECTORY COMMAND...: runs a command there, with the directory as the root of its mounts: after a chroot the kernel would
# refuse user namespaces.
enter_root() {
    # shellcheck disable=SC2016 # for the shell that is started
    unshare --mount sh -c 'cd "$0" && pivot_root . mnt && cd / && umount -l /mnt && exec "$@"' "$@"
}
