#!/bin/sh
# Measures icdc beside fio, rsync and scp between two network namespaces and records the run under bench/runs/DATE-COMMIT.
#
#   bench/run.sh [--quick] [--rounds N] [disk] [tmpfs] [small] [many] [sparse]     (default: all)
#
# --quick: tiny sizes, one round, kept out of the records (target/bench): to try the bench itself.
# SCRATCH=DIR puts the data elsewhere than /var/tmp: on the disk to be measured, 12 GiB. MEMORY=DIR: a tmpfs, 7 GiB (/dev/shm).
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh
. scripts/hosts.sh
. scripts/sshd.sh

ssh_port=2222 # inside the namespace only

main() {
    if [ "${1:-}" = --as-root ]; then
        shift
        as_root "$@"
        return
    fi
    setup build bench || return 1
    cargo build --release --locked --package icdc || return 1
    setup_root env "SCRATCH=${SCRATCH:-/var/tmp}" "MEMORY=${MEMORY:-/dev/shm}" \
        sh "$setup_top/bench/run.sh" --as-root "${CARGO_TARGET_DIR:-$setup_top/target}" "$@"
}

as_root() {
    target=$1
    shift
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "$SCRATCH/icdc-bench.XXXXXX") && memory=$(mktemp -d "$MEMORY/icdc-bench.XXXXXX") || return 1
    hosts_up "icdc-bench-$$" "$scratch" || return 1
    cubic_up || return 1
    cgroups_up || return 1
    cp "$target/release/icdc" "$scratch/icdc" || return 1
    sshd_up
    export CGROUP_A CGROUP_B
    PYTHONDONTWRITEBYTECODE=1 setsid python3 "$setup_top/bench/measure.py" --scratch "$scratch" --memory "$memory" --host "$host_a" \
        --address "$address_b" --remote-shell "$remote_shell" --ssh-config "$ssh_config" \
        --quick-records "$target/bench" --records "$setup_top/bench/runs" "$@" &
    child=$!
    wait "$child"
}

# CUBIC, which nearly every distribution has as its default, for every tool and whatever this machine's default is. A network
# namespace may only have a default that is allowed to all users of the machine.
cubic_up() {
    allowed=/proc/sys/net/ipv4/tcp_allowed_congestion_control
    read -r allowed_before <$allowed
    case " $allowed_before " in
    *' cubic '*) allowed_before='' ;;
    *) echo "$allowed_before cubic" >$allowed || return 1 ;;
    esac
    for host in "$host_a" "$host_b"; do
        ip netns exec "$host" sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control' || return 1
    done
}

# A cgroup for each host: the CPU time of everything that runs in it is read from cpu.stat.
cgroups_up() {
    cgroup_top=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    if [ -z "$cgroup_top" ]; then
        echo 'bench: there is no cgroup v2 hierarchy to measure CPU time with' >&2
        return 1
    fi
    CGROUP_A=$cgroup_top/$host_a CGROUP_B=$cgroup_top/$host_b
    mkdir "$CGROUP_A" "$CGROUP_B"
}

# A server for scp on host b with throw-away keys. Without one, what needs ssh is left out.
sshd_up() {
    if ! sshd_prepare "$scratch" "$address_b" "$ssh_port"; then
        ssh_config=''
        echo 'bench: no sshd (package openssh-server): scp and rsync over ssh are left out' >&2
        return
    fi
    sh -c "echo \$\$ >$CGROUP_B/cgroup.procs; exec nsenter --net=/run/netns/$host_b $sshd -D -e -f $sshd_config" 2>"$scratch/sshd.log" &
}

clean_up() {
    status=$?
    trap '' HUP INT TERM
    [ -z "${child:-}" ] || kill -s TERM -- "-$child" 2>/dev/null
    hosts_down
    wait
    [ -z "${allowed_before:-}" ] || echo "$allowed_before" >"$allowed"
    for cgroup in "${CGROUP_A:-}" "${CGROUP_B:-}"; do
        [ ! -d "$cgroup" ] || rmdir "$cgroup"
    done
    sshd_forget
    rm -rf "${scratch:-}" "${memory:-}"
    exit "$status"
}

main "$@"
