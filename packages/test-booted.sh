#!/bin/sh
# Tests the deb under systemd, which systemd-nspawn boots in a root of its own: the daemon as a service, an upgrade while a copy runs,
# and removal. packages/test.sh tests the rest, with a stand-in for systemd.
#
#   packages/test-booted.sh PROGRAM [SUITE]      (default: this system's own release)
#
# Needs root, and what `scripts/setup.sh packages booted` installs. The root is kept as target/roots/SUITE-booted.tar.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/scripts/setup.sh"
. "$setup_top/scripts/root.sh"
. "$setup_top/packages/checks.sh"

main() {
    [ $# -ge 1 ] || {
        echo 'usage: packages/test-booted.sh PROGRAM [SUITE]' >&2
        exit 2
    }
    program=$(realpath "$1") || exit 1
    suite=${2:-$(own_suite)}
    roots=$(cd "$setup_top" && mkdir -p "${CARGO_TARGET_DIR:-target}/roots" && realpath "${CARGO_TARGET_DIR:-target}/roots") || exit 1
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-booted.XXXXXX") || exit 1
    root=$scratch/root tested=booted said=$scratch/said failed=''
    trap clean_up EXIT
    trap 'exit 130' HUP INT TERM
    VERSION=0.0.9 "$setup_top/packages/build.sh" "$scratch/older" "$program" >"$scratch/log" &&
        "$setup_top/packages/build.sh" "$scratch/newer" "$program" >>"$scratch/log" || exit 1
    boot || exit 1
    serves
    upgraded
    removed
    [ -z "$failed" ] || exit 1
    echo 'booted: the daemon runs as a service, a copy goes on over an upgrade, removal stops it'
}

boot() {
    [ -s "$roots/$suite-booted.tar" ] || {
        echo "booted: making a $suite with systemd (once)"
        bare_root "$suite" "$roots/.$suite-booted.$$.tar" "$scratch/log" --include=systemd,systemd-sysv,dbus &&
            mv "$roots/.$suite-booted.$$.tar" "$roots/$suite-booted.tar" || return 1
    }
    mkdir "$root" && tar -xf "$roots/$suite-booted.tar" -C "$root" && cp "$scratch"/older/*.deb "$scratch"/newer/*.deb "$root/root/" || return 1
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe \
        --machine="icdc-booted-$$" --directory="$root" --boot >"$scratch/booted.log" 2>&1 </dev/null &
    nspawn=$!
    soon running || {
        echo 'booted: systemd does not boot:' && tail -n 20 "$scratch/booted.log"
        return 1
    }
}

# The first process in there is the only child of systemd-nspawn that is called systemd.
running() {
    booted=$(cat "/proc/$nspawn/task/$nspawn/children" 2>/dev/null | awk '{ print $1 }')
    [ -n "$booted" ] && [ "$(inside systemctl is-system-running 2>/dev/null)" = running ]
}

inside() {
    nsenter --target "$booted" --mount --uts --ipc --net --pid --cgroup --root --wd \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

clean_up() {
    status=$?
    trap '' HUP INT TERM
    [ -z "${nspawn:-}" ] || kill -KILL "$nspawn" 2>/dev/null
    [ -z "${nspawn:-}" ] || wait "$nspawn" 2>/dev/null
    rm -rf --one-file-system "$scratch"
    exit "$status"
}

install_deb() {
    inside apt-get -q install -y --no-install-recommends "/root/$(basename "$scratch/$1"/*.deb)" >"$scratch/$1.log" 2>&1
}

serves() {
    check 'installation' install_deb older
    check 'nothing is enabled' not inside systemctl is-enabled icdc.service icdc-relay.service icdc-relay.socket
    check 'nothing runs' not inside systemctl is-active icdc.service
    inside useradd --create-home somebody && inside install -d -o somebody /srv/in && head -c 8000000 /dev/urandom >"$root/root/data"
    inside icdc keygen >/dev/null
    echo "root=/srv/in,rights=rw,user=somebody $(head -n 1 "$root/root/.config/icdc/identity.pub")" >>"$root/etc/icdc/authorized_keys"
    inside icdc keygen --trust 127.0.0.1 "$(head -n 1 "$root/etc/icdc/identity.pub")" >/dev/null
    check 'the daemon starts' inside systemctl enable --now icdc.service
    check 'a copy to the daemon' soon inside icdc copy /root/data icdc://127.0.0.1/first
    check 'arrives' cmp "$root/root/data" "$root/srv/in/first"
}

# The client stands still during the upgrade, so that its copy cannot have ended before. The shell around it goes on: nsenter would
# stand still with its child, and not go on with it.
upgraded() {
    inside sh -c '"$@" & echo $! >/root/running && wait $!' sh icdc copy --rate 40mbit /root/data icdc://127.0.0.1/second >"$scratch/copy.log" 2>&1 &
    copy=$!
    check 'a copy begins' soon unfinished
    inside sh -c 'kill -STOP "$(cat /root/running)"'
    check 'the copy is not at its end' unfinished
    check 'upgrade' install_deb newer
    inside sh -c 'kill -CONT "$(cat /root/running)"'
    check 'a copy goes on over the upgrade' wait "$copy"
    check 'and arrives' cmp "$root/root/data" "$root/srv/in/second"
    check 'the service is active' inside systemctl is-active icdc.service
    check 'the daemon runs the new program, or the package says that it does not' soon new_or_told
    check 'the daemon admits the key as before' inside icdc copy /root/data icdc://127.0.0.1/third
}

unfinished() {
    ls "$root"/srv/in/.icdc-*.part >/dev/null 2>&1
}

new_or_told() {
    grep -q 'keeps running the old program' "$scratch/newer.log" ||
        [ "$(inside sh -c 'readlink "/proc/$(systemctl show --property MainPID --value icdc.service)/exe"')" = /usr/bin/icdc ]
}

removed() {
    check 'removal' inside dpkg --remove icdc
    check 'the service is stopped' not inside systemctl is-active icdc.service
    check 'no unit has failed' test -z "$(inside systemctl --failed --no-legend)"
    check 'purge' inside dpkg --purge icdc
    check 'nothing is left but data' sh -c "! ls -d '$root'/etc/icdc '$root'/var/lib/icdc 2>/dev/null && ls '$root/srv/in/first'"
}

main "$@"
