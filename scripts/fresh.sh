#!/bin/sh
# Runs the README's two commands in a bare Debian or Ubuntu that knows nothing of this machine, and says how long each took.
#
#   [SUITE=trixie] scripts/fresh.sh [demo] [test|running] [shell]      (default: demo test, in this system's own release)
#
# `running` is ./test.sh running: what depends on the machine.
#
# The root directory is made by mmdebstrap (variant minbase) in SCRATCH (default /var/tmp; 16 GiB) and removed at the end; it gets a clone
# of the last commit, with its history, in /root, where no other user may look. SUITE names another release, as scripts/root.sh says.
# From this machine it has the kernel, the network, apt's settings, the certificates that are trusted and, where rustup cannot be reached,
# the Rust toolchain. Downloaded packages, crates and the tools of test.sh are kept for the next run in CACHE (default: icdc-fresh in
# XDG_CACHE_HOME or /var/cache). Needs root and mmdebstrap (scripts/setup.sh fresh).
#
#   MINUTES=45         limit for each of them
#   LOG=DIR            keeps the output there (default: a directory in target/fresh, whose name is printed)
#   FOLLOW=yes         shows the output while it comes, else its end
#
# Exit status: 0, 1 (a command failed), 2 (a wrong argument), 75 (the root directory cannot be made or entered).
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/scripts/setup.sh"
. "$setup_top/scripts/root.sh"

rustup_installer=https://sh.rustup.rs # as scripts/setup.sh
toolchain=/opt/rust
certificates=/opt/certificates.crt # not where packages put theirs
minutes=${MINUTES:-45}
suite=${SUITE:-$(own_suite)}
cache=${CACHE:-${XDG_CACHE_HOME:-/var/cache}/icdc-fresh}
kept_tools='mdbook cargo-deny'
gigabytes=16 # that a root directory and what is built there take
no_root=75   # EX_TEMPFAIL

main() {
    [ $# -gt 0 ] || set -- demo test
    case $1 in
    --inside)
        shift
        inside "$@"
        return
        ;;
    esac
    for part in "$@"; do
        case $part in
        demo | test | running | shell) ;;
        *)
            echo "fresh: there is no part '$part': demo, test, running or shell" >&2
            return 2
            ;;
        esac
    done
    [ "$(id -u)" = 0 ] || {
        echo 'fresh: a root directory of its own needs root: sudo scripts/fresh.sh' >&2
        return "$no_root"
    }
    setup fresh || return "$no_root"
    logs=${LOG:-${CARGO_TARGET_DIR:-$setup_top/target}/fresh/$(date +%Y%m%d-%H%M%S)-$$}
    mkdir -p "$logs" && logs=$(cd "$logs" && pwd) || return "$no_root"
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-fresh.XXXXXX") || return "$no_root"
    root=$scratch/root
    trap clean_up EXIT
    free=$(df --output=avail -B1G "$scratch" | tail -n 1)
    [ "$free" -ge "$gigabytes" ] || {
        echo "fresh: $scratch has $free GiB left, and $gigabytes are needed: SCRATCH=DIR names another place" >&2
        return "$no_root"
    }
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    make_root || return "$no_root"
    # What the shell starts in the background would read nothing; the part `shell` reads commands.
    exec 3<&0
    unshare --mount --pid --fork --kill-child --propagation private \
        sh "$setup_top/scripts/fresh.sh" --inside "$root" "$logs" "$@" <&3 &
    child=$!
    wait "$child"
}

clean_up() {
    status=$?
    trap '' HUP INT TERM
    # unshare waits whatever it is told; its end takes everything in there with it.
    [ -z "${child:-}" ] || kill -KILL "$child" 2>/dev/null
    [ -z "${child:-}" ] || wait "$child" 2>/dev/null
    # Everything mounted there went with its namespace; what a mount would lead to is never entered.
    rm -rf --one-file-system "$scratch"
    echo "fresh: logs: $logs"
    exit "$status"
}

make_root() {
    echo "fresh: making a bare $suite"
    bare_root "$suite" "$root" "$logs/mmdebstrap.log" || return 1
    chmod 700 "$root/root" || return 1
    [ "$(git -C "$setup_top" rev-parse --is-shallow-repository)" = false ] ||
        echo 'fresh: this clone is shallow: tests that look at earlier commits are skipped in the new one, too'
    git clone --quiet --no-hardlinks "$setup_top" "$root/root/icdc" || return 1
    echo "fresh: commit $(git -C "$root/root/icdc" rev-parse --short=10 HEAD), kernel $(uname -r), $(nproc) processors"
    dd if=/dev/zero "of=$root/tmp/direct" bs=4096 count=1 oflag=direct 2>/dev/null ||
        echo "fresh: the file system of $scratch has no Direct I/O, and its tests are skipped: SCRATCH=DIR names another"
    rm -f "$root/tmp/direct"
}

# In a mount and PID namespace of its own, which ends with it.
inside() {
    root=$1
    logs=$2
    shift 2
    mount_root "$root" && enter_root "$root" true || {
        echo 'fresh: the root directory cannot be entered' >&2
        return "$no_root"
    }
    [ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root$certificates" || return "$no_root"
    lend_toolchain || return "$no_root"
    lend_cache || echo "fresh: $cache cannot be used: everything is downloaded" >&2
    failed=''
    for part in "$@"; do
        case $part in
        shell) enter bash ;;
        *) run "$part" || failed="$failed $part" ;;
        esac
    done
    keep_cache || echo "fresh: $cache cannot be written: the next run downloads again" >&2
    [ -z "$failed" ] || {
        echo "fresh: failed:$failed"
        return 1
    }
}

lend_toolchain() {
    rust=''
    if command -v curl >/dev/null 2>&1 && curl -fsS -m 20 -o /dev/null "$rustup_installer" 2>/dev/null; then
        return
    fi
    sysroot=$(rustc --print sysroot) || return 1
    echo "fresh: rustup cannot be reached: $(rustc --version) is lent from this machine"
    mkdir -p "$root$toolchain" && mount --bind -o ro "$sysroot" "$root$toolchain" || return 1
    rust=$toolchain/bin:
}

# apt and cargo check what they find there by its digest; cargo locks it, so that two runs at once may share it.
lend_cache() {
    kept=$cache/$suite
    mkdir -p "$cache/registry" "$kept/packages" "$kept/tools" "$root/root/.cargo/registry" "$root/root/.cargo/bin" || return 1
    mount --bind "$cache/registry" "$root/root/.cargo/registry" || return 1
    find "$kept/packages" -name '*.deb' -exec cp -t "$root/var/cache/apt/archives" {} + || return 1
    for tool in $kept_tools; do
        [ ! -x "$kept/tools/$tool" ] || cp "$kept/tools/$tool" "$root/root/.cargo/bin/" || return 1
    done
}

# What this run has used, and no more: the cache does not grow from release to release.
keep_cache() {
    [ -d "$kept/packages" ] || return 1
    find "$kept/packages" -name '*.deb' -delete &&
        find "$root/var/cache/apt/archives" -maxdepth 1 -name '*.deb' -exec cp -t "$kept/packages" {} + || return 1
    for tool in $kept_tools; do
        [ ! -x "$root/root/.cargo/bin/$tool" ] || cp "$root/root/.cargo/bin/$tool" "$kept/tools/" || return 1
    done
}

run() {
    log=$logs/$1.log
    case $1 in
    running) set -- ./test.sh running ;;
    *) set -- "./$1.sh" ;;
    esac
    echo "fresh: $*, for $minutes minutes at most"
    began=$(date +%s)
    : >"$log"
    enter timeout --kill-after=30 "$((minutes * 60))" "$@" >"$log" 2>&1 </dev/null &
    running=$!
    # By the file and not by a pipe, which whatever the command leaves behind would hold open.
    [ -z "${FOLLOW:-}" ] || tail --pid="$running" -n +1 -f "$log"
    wait "$running"
    status=$?
    took=$(($(date +%s) - began))
    [ -n "${FOLLOW:-}" ] || show_end "$log"
    [ "$status" != 124 ] && [ "$status" != 137 ] || echo "fresh: $* was ended after $minutes minutes (MINUTES=N gives it longer)"
    echo "fresh: $*: exit status $status after $((took / 60)) min $((took % 60)) s"
    return "$status"
}

# Prints the summary if there is one, else the last 12 lines.
show_end() {
    if grep -q '^== summary$' "$1"; then
        sed -n '/^== summary$/,$p' "$1"
    else
        tail -n 12 "$1"
    fi
}

# An environment as after a login, in the clone.
enter() {
    trusted=''
    [ ! -s "$root$certificates" ] ||
        trusted="CARGO_HTTP_CAINFO=$certificates CURL_CA_BUNDLE=$certificates SSL_CERT_FILE=$certificates"
    # shellcheck disable=SC2086 # assignments without blanks
    enter_root "$root" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 $trusted \
        PATH="$rust/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        sh -c 'cd /root/icdc && exec "$@"' sh "$@"
}

main "$@"
