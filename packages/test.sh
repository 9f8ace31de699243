#!/bin/sh
# Tests the packages: makes them of a program, checks the deb by lintian, and in a bare root each of deb and rpm is installed, used,
# upgraded while a copy runs, and removed. As no service manager runs there, a stand-in for systemctl writes down how it is called.
#
#   packages/test.sh PROGRAM [SUITE...]      (default: this system's own release)
#
# Needs root, and what `scripts/setup.sh packages` installs. Bare roots are kept as target/roots/SUITE.tar. The rpm is unpacked into the
# same roots: rpm --root runs its scripts there, without the dependencies that a root of its own distribution would have.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$setup_top/scripts/setup.sh"
. "$setup_top/scripts/root.sh"
. "$setup_top/packages/checks.sh"

older=0.0.9
daemon=127.0.0.1:2633

main() {
    case ${1:-} in
    --inside)
        shift
        inside "$@"
        exit
        ;;
    '')
        echo 'usage: packages/test.sh PROGRAM [SUITE...]' >&2
        exit 2
        ;;
    esac
    [ "$(id -u)" = 0 ] || {
        echo 'packages: a root directory of its own needs root' >&2
        exit 1
    }
    program=$(realpath "$1") || exit 1
    shift
    [ $# -gt 0 ] || set -- "$(own_suite)"
    roots=$(cd "$setup_top" && mkdir -p "${CARGO_TARGET_DIR:-target}/roots" && realpath "${CARGO_TARGET_DIR:-target}/roots") || exit 1
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-packages.XXXXXX") || exit 1
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    trap 'exit 130' HUP INT TERM
    failed=''
    build || exit 1
    check_deb || failed="$failed lintian;"
    "$setup_top/packages/build.sh" "$scratch/again" "$scratch/icdc" >>"$scratch/build.log" && diff -r "$scratch/newer" "$scratch/again" ||
        failed="$failed the same input makes other packages;"
    for suite; do
        cached_root "$suite" || exit 1
        for format in deb rpm; do
            echo "packages: $format in a bare $suite"
            mkdir "$scratch/root" && tar -xf "$roots/$suite.tar" -C "$scratch/root" || exit 1
            unshare --mount --pid --net --fork --kill-child --propagation private \
                sh "$setup_top/packages/test.sh" --inside "$format" "$scratch" || failed="$failed $format in $suite;"
            rm -rf --one-file-system "$scratch/root"
        done
    done
    [ -z "$failed" ] || {
        echo "packages: failed:${failed%;}"
        exit 1
    }
}

build() {
    install -m 755 "$program" "$scratch/icdc" || return 1
    strip "$scratch/icdc" || return 1
    # Bytes after its end are no part of a program: the older one is told apart by them.
    { cat "$scratch/icdc" && echo older; } >"$scratch/icdc-older" && chmod 755 "$scratch/icdc-older" || return 1
    VERSION=$older "$setup_top/packages/build.sh" "$scratch/older" "$scratch/icdc-older" >"$scratch/build.log" &&
        "$setup_top/packages/build.sh" "$scratch/newer" "$scratch/icdc" >>"$scratch/build.log"
}

# A program that is linked dynamically stands in for the one of make dist, whose package depends on nothing.
check_deb() {
    tags=''
    ! readelf --program-headers "$scratch/icdc" | grep -q INTERP || tags=missing-dependency-on-libc
    lintian --profile debian --allow-root --fail-on error,warning ${tags:+--suppress-tags "$tags"} "$scratch"/newer/*.deb
}

cached_root() {
    [ ! -s "$roots/$1.tar" ] || return 0
    echo "packages: making a bare $1 (once)"
    bare_root "$1" "$roots/.$1.$$.tar" "$scratch/mmdebstrap.log" --include=libcap2-bin && mv "$roots/.$1.$$.tar" "$roots/$1.tar"
}

# In a mount, PID and network namespace of its own.
inside() {
    format=$1 packages=$2 root=$2/root tested=$1 said=$2/said failed=''
    ip link set lo up && mount_root "$root" || exit 1
    mkdir "$root/tmp/packages" && mount --bind "$packages" "$root/tmp/packages" || exit 1
    stand_in_for_systemctl || exit 1

    put older || exit 1
    service_user=$(sed -n 's/^User=//p' "$root/usr/lib/systemd/system/icdc.service")
    installed
    copies
    capabilities
    upgraded
    removed
    [ "$format" = rpm ] || purged
    [ -z "$failed" ]
}

enter() {
    chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# As seen from outside the root, whose own daemon is the process that $packages/daemon names.
stand_in_for_systemctl() {
    mkdir -p "$root/run/systemd/system"
    cat >"$root/usr/bin/systemctl" <<'SYSTEMCTL'
#!/bin/sh
echo "$*" >>/var/log/systemctl
case "$*" in
"show --property MainPID --value icdc.service") cat /run/daemon 2>/dev/null || echo 0 ;;
"--no-reload disable --now icdc.service")
    # As systemd does it, all of the control group: a daemon may have handed over to another.
    for comm in /proc/[0-9]*/comm; do
        [ "$(cat "$comm" 2>/dev/null)" != icdc ] || kill "$(basename "${comm%/comm}")"
    done
    ;;
esac
SYSTEMCTL
    chmod 755 "$root/usr/bin/systemctl"
}

# put older|newer: installs a package, or upgrades to it.
put() {
    case $format in
    deb) enter apt-get -q install -y --no-install-recommends "/tmp/packages/$1/$(basename "$packages/$1"/*.deb)" ;;
    rpm) rpm --root "$root" --dbpath /var/lib/rpm --force-debian --nodeps --upgrade "$packages/$1"/*.rpm ;;
    esac >"$packages/$1.log" 2>&1 || {
        cat "$packages/$1.log"
        return 1
    }
}

take_away() {
    case $format in
    deb) enter dpkg "--$1" icdc ;;
    rpm) rpm --root "$root" --dbpath /var/lib/rpm --force-debian --erase icdc ;;
    esac
}

installed() {
    check 'the program runs' enter icdc --version
    check 'the user exists, without a shell' enter grep -q '^icdc:.*:/var/lib/icdc:/usr/sbin/nologin$' /etc/passwd
    check 'directory of settings' test "$(enter stat -c '%a %U %G' /etc/icdc)" = '751 root icdc'
    check 'list of keys' test "$(enter stat -c '%a %U %G' /etc/icdc/authorized_keys)" = '640 root icdc'
    check 'key of the daemon' test "$(enter stat -c '%a %U' /etc/icdc/identity)" = "600 ${service_user:-root}"
    check 'units name the program' enter grep -q '^ExecStart=/usr/bin/icdc serve ' /usr/lib/systemd/system/icdc.service
    check 'no unit names another' enter sh -c '! grep -r /usr/local /usr/lib/systemd/system/icdc*'
    check 'nothing is enabled or started' not grep -E 'enable|start' "$root/var/log/systemctl"
    check 'manual page' test -s "$root/usr/share/man/man1/icdc-copy.1.gz"
    check 'completions' test -s "$root/usr/share/bash-completion/completions/icdc"
    cp "$root/etc/icdc/identity" "$packages/identity"
}

# A daemon with the packaged settings, and an ordinary user who copies to it.
copies() {
    enter useradd --create-home somebody && enter install -d -o somebody /srv/in || return
    head -c 8000000 /dev/urandom >"$root/home/somebody/data"
    as_somebody icdc keygen >/dev/null
    echo "root=/srv/in,rights=rw,user=somebody $(head -n 1 "$root/home/somebody/.config/icdc/identity.pub")" >>"$root/etc/icdc/authorized_keys"
    as_somebody sh -c "icdc keygen --trust $daemon '$(head -n 1 "$root/etc/icdc/identity.pub")'" >/dev/null
    # As the unit starts it: with a user of its own, it may still become the user of a key.
    set -- env HOME=/var/lib/icdc XDG_STATE_HOME=/var/lib
    [ -z "$service_user" ] || set -- "$@" setpriv --reuid "$service_user" --regid "$service_user" --init-groups \
        --inh-caps +setuid,+setgid --ambient-caps +setuid,+setgid --bounding-set -all,+setuid,+setgid
    enter install -d -o "${service_user:-root}" /var/lib/icdc
    # shellcheck disable=SC2016 # for the shell inside
    enter sh -c 'echo $$ >/run/daemon && exec "$@"' sh "$@" icdc serve --listen "$daemon" \
        --identity /etc/icdc/identity --authorized-keys /etc/icdc/authorized_keys >"$packages/daemon.log" 2>&1 &
    check 'the daemon listens' soon listens
    check 'a copy to the daemon' as_somebody icdc copy data "icdc://$daemon/first"
    check 'arrives' cmp "$root/home/somebody/data" "$root/srv/in/first"
}

as_somebody() {
    enter setpriv --reuid somebody --regid somebody --init-groups sh -c 'HOME=/home/somebody && export HOME && cd && exec "$@"' sh "$@"
}

# Port 2633 is 0A49, and state 0A is LISTEN.
listens() {
    enter grep -q ':0A49 .* 0A ' /proc/net/tcp
}

# The program that ssh would be says what capabilities icdc has that starts it.
capabilities() {
    cat >"$root/home/somebody/ssh" <<'SSH'
#!/bin/sh
process=$PPID
until [ "$(cat "/proc/$process/comm")" = icdc ]; do process=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$process/status"); done
sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$process/status" >~/held
exit 255
SSH
    chmod 755 "$root/home/somebody/ssh"
    check 'capabilities are off' test "$(enter /usr/libexec/icdc/capabilities status)" = off
    check 'capabilities on' enter /usr/libexec/icdc/capabilities on
    check 'who is no member may not' not as_somebody /usr/libexec/icdc/icdc --version
    enter usermod --append --groups icdc somebody
    as_somebody /usr/libexec/icdc/icdc copy --ssh /home/somebody/ssh data host: >/dev/null 2>&1
    # Bits 12 (net_admin), 13 (net_raw), 38 (perfmon), 39 (bpf).
    check 'what a member has' test "$(cat "$root/home/somebody/held")" = 000000c000003000
}

# A copy that runs when its daemon is upgraded ends well; the client stands still meanwhile, so that it cannot have ended before.
upgraded() {
    as_somebody sh -c 'echo $$ >running && exec "$@"' sh icdc copy --rate 40mbit data "icdc://$daemon/second" >"$packages/copy.log" 2>&1 &
    copy=$!
    check 'a copy begins' soon unfinished
    enter sh -c 'kill -STOP "$(cat /home/somebody/running)"'
    check 'the copy is not at its end' unfinished
    put newer || failed=yes
    enter sh -c 'kill -CONT "$(cat /home/somebody/running)"'
    check 'a copy goes on over the upgrade' wait "$copy"
    check 'and arrives' cmp "$root/home/somebody/data" "$root/srv/in/second"
    check 'the program is the newer one' cmp "$packages/icdc" "$root/usr/bin/icdc"
    check 'also with capabilities' cmp "$packages/icdc" "$root/usr/libexec/icdc/icdc"
    check 'which it still has' sh -c "chroot '$root' /usr/sbin/getcap /usr/libexec/icdc/icdc | grep -q cap_bpf"
    check 'the key of the daemon is the same' cmp "$packages/identity" "$root/etc/icdc/identity"
    check 'no unit is stopped or restarted' not grep -E 'stop|restart|disable' "$root/var/log/systemctl"
    check 'the daemon admits the key as before' as_somebody icdc copy data "icdc://$daemon/third"
    [ "$format" = rpm ] || handed_over
}

unfinished() {
    ls "$root"/srv/in/.icdc-*.part >/dev/null 2>&1
}

# A daemon that catches the signal for it gets it.
handed_over() {
    cp "$root/run/daemon" "$packages/daemon"
    enter bash -c 'trap "touch /run/caught" USR2; echo $$ >/run/daemon; until [ -e /run/caught ]; do sleep 0.1; done' &
    check 'another daemon begins' soon not cmp -s "$root/run/daemon" "$packages/daemon"
    check 'upgrade' enter /var/lib/dpkg/info/icdc.postinst configure "$older-1"
    check 'a daemon that can hand over is asked to' soon test -e "$root/run/caught"
    cp "$packages/daemon" "$root/run/daemon"
}

removed() {
    check 'removal' take_away remove
    check 'the daemon is stopped' soon not listens
    for unit in icdc.service icdc-relay.service icdc-relay.socket; do
        check 'its units are disabled' grep -qxF -e "--no-reload disable --now $unit" "$root/var/log/systemctl"
    done
    for path in /usr/bin/icdc /usr/libexec/icdc /usr/lib/systemd/system/icdc.service /usr/share/man/man1/icdc.1.gz; do
        check 'nothing is left of the program' not test -e "$root$path"
    done
    check 'keys are kept' cmp "$packages/identity" "$root/etc/icdc/identity"
    check 'so is the list of keys' sh -c "cat '$root'/etc/icdc/authorized_keys* | grep -q ^root=/srv/in"
}

purged() {
    mkdir -p "$root/var/lib/icdc/in" && touch "$root/var/lib/icdc/paths.json" "$root/var/lib/icdc/in/data"
    check 'purge' take_away purge
    check 'keys and settings are gone' not test -e "$root/etc/icdc"
    check 'so is what the daemon knew' not test -e "$root/var/lib/icdc/paths.json"
    check 'data is kept' test -e "$root/var/lib/icdc/in/data"
    rm -r "$root/var/lib/icdc/in"
    put newer || failed=yes
    check 'removal and purge at once' take_away purge
    check 'the directory of state is gone' not test -e "$root/var/lib/icdc"
}

main "$@"
