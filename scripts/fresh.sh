#!/bin/sh
# Runs the README's two commands in a bare Debian or Ubuntu that knows nothing of this machine, and says how long each took.
#
#   [SUITE=trixie] scripts/fresh.sh [demo] [test] [shell]      (default: demo test, in this system's own release)
#
# The root directory is made by mmdebstrap (variant minbase) in SCRATCH (default /var/tmp; 12 GiB) and removed at the end; it gets a clone
# of the last commit. SUITE names another release, as scripts/root.sh says. From this machine it has the kernel, the network, apt's settings, the certificates that are trusted and,
# where rustup cannot be reached, the Rust toolchain. Needs root and mmdebstrap (scripts/setup.sh fresh). LOG=DIR keeps the output.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/scripts/setup.sh"
. "$setup_top/scripts/root.sh"

rustup_installer=https://sh.rustup.rs # as scripts/setup.sh
toolchain=/opt/rust
certificates=/opt/certificates.crt # not where packages put theirs

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
        demo | test | shell) ;;
        *)
            echo "fresh: there is no part '$part': demo, test or shell" >&2
            return 2
            ;;
        esac
    done
    [ "$(id -u)" = 0 ] || {
        echo 'fresh: a root directory of its own needs root: sudo scripts/fresh.sh' >&2
        return 1
    }
    setup fresh || return 1
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-fresh.XXXXXX") || return 1
    logs=${LOG:-$scratch/log}
    mkdir -p "$logs" || return 1
    root=$scratch/root
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    make_root || return 1
    unshare --mount --pid --fork --kill-child --propagation private \
        sh "$setup_top/scripts/fresh.sh" --inside "$root" "$logs" "$@" &
    child=$!
    wait "$child"
}

clean_up() {
    status=$?
    trap '' HUP INT TERM
    [ -z "${child:-}" ] || kill "$child" 2>/dev/null
    [ -z "${child:-}" ] || wait "$child" 2>/dev/null
    # Everything mounted there went with its namespace; what a mount would lead to is never entered.
    rm -rf --one-file-system "$scratch"
    exit "$status"
}

make_root() {
    suite=${SUITE:-$(own_suite)}
    echo "fresh: making a bare $suite"
    bare_root "$suite" "$root" "$logs/mmdebstrap.log" || return 1
    git clone --quiet --no-hardlinks "$setup_top" "$root/root/icdc" || return 1
    echo "fresh: commit $(git -C "$root/root/icdc" rev-parse --short=10 HEAD), kernel $(uname -r), $(nproc) processors"
}

# In a mount and PID namespace of its own, which ends with it.
inside() {
    root=$1
    logs=$2
    shift 2
    mount_root "$root" || return 1
    [ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root$certificates" || return 1
    lend_toolchain || return 1
    failed=''
    for part in "$@"; do
        case $part in
        shell) enter "$root" bash ;;
        *) run "$part" || failed="$failed $part" ;;
        esac
    done
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

run() {
    echo "fresh: ./$1.sh"
    began=$(date +%s)
    enter "$root" "./$1.sh" >"$logs/$1.log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    tail -n 12 "$logs/$1.log"
    echo "fresh: ./$1.sh: exit status $status after $((took / 60)) min $((took % 60)) s"
    return "$status"
}

# An environment as after a login, in the clone.
enter() {
    trusted=''
    [ ! -s "$1$certificates" ] ||
        trusted="CARGO_HTTP_CAINFO=$certificates CURL_CA_BUNDLE=$certificates SSL_CERT_FILE=$certificates"
    # shellcheck disable=SC2086 # assignments without blanks
    chroot "$1" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 $trusted \
        PATH="$rust/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        sh -c 'cd /root/icdc && exec "$@"' sh "$2"
}

main "$@"
