# shellcheck shell=bash
# Debian's user-mode Linux with all of the machine's files as its own.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# boot SCRIPT OUT [NAME=VALUE...]: runs a script of this directory in a virtual kernel, with variables; what it writes to its
# standard output goes to OUT, after a line that names the kernel's package.
boot() {
    local script=$1 out=$2 modules version
    shift 2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    version=$(dpkg-query -W -f '${Version}' user-mode-linux)
    modules=$(echo /usr/lib/uml/modules/*)
    cat >"$work/init" <<INIT
#!/bin/bash
# All of the machine's files are the guest's; only what is mounted here is its own.
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /run
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec >"$work/out" 2>"$work/err"
for module in drivers/net/veth net/sched/sch_netem net/netfilter/x_tables net/netfilter/xt_tcpudp \
    net/netfilter/xt_statistic net/ipv4/netfilter/ip_tables net/ipv4/netfilter/iptable_filter \
    net/ipv4/tcp_bic net/ipv4/tcp_htcp net/ipv4/tcp_highspeed net/ipv4/tcp_scalable net/ipv4/tcp_bbr; do
    insmod $modules/kernel/\$module.ko || echo "no \$module" >&2
done
HERE='$HERE' $(for variable; do printf '%s=%q ' "${variable%%=*}" "${variable#*=}"; done)
. '$HERE/$script'
sync
echo o >/proc/sysrq-trigger
sleep 5
INIT
    chmod +x "$work/init"
    echo "# user-mode-linux $version" >"$work/head"
    linux.uml mem=3G root=/dev/root rootfstype=hostfs rootflags=/ rw init="$work/init" con=null con0=fd:0,fd:1 \
        </dev/null >"$work/console" 2>&1 || true
    if [ ! -s "$work/out" ]; then
        echo "oracle: the virtual kernel recorded nothing; its console:" >&2
        tail -n 20 "$work/console" "$work/err" >&2
        exit 1
    fi
    cat "$work/err" >&2
    cat "$work/head" "$work/out" >"$out"
}
