#!/bin/sh
# Two network namespaces as two hosts, joined by a veth pair: to be sourced; needs root.
#
#   a 10.26.33.1/24 ═══ veth ═══ b 10.26.33.2/24
#
# The devices are made inside the namespaces, so nothing is added to the machine's own network and several runs
# can stand side by side, told apart by the name they pass in. A command runs on a host by
# `nsenter --net=/run/netns/$host_a COMMAND`, which unlike `ip netns exec` leaves /sys, and so the cgroups, as they are.

address_a=10.26.33.1
address_b=10.26.33.2

# hosts_up NAME DIRECTORY: makes $host_a and $host_b, and in DIRECTORY the program $remote_shell, which is called as
# `remote_shell ADDRESS COMMAND...` and, like ssh, hands the words to a shell on that host.
hosts_up() {
    host_a=$1-a host_b=$1-b
    ip netns add "$host_a" && ip netns add "$host_b" || return 1
    ip link add eth0 netns "$host_a" type veth peer name eth0 netns "$host_b" || return 1
    hosts_configure "$host_a" "$address_a" && hosts_configure "$host_b" "$address_b" || return 1
    remote_shell=$2/remote-shell
    cat >"$remote_shell" <<SHELL
#!/bin/sh
# Options as ssh takes them (rsync passes -l USER) mean nothing here.
while :; do
    case \$1 in
    -l) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
case \${1#*@} in
$address_a) host=$host_a cgroup=\${CGROUP_A:-} ;;
$address_b) host=$host_b cgroup=\${CGROUP_B:-} ;;
*) echo "remote-shell: no host \$1" >&2; exit 255 ;;
esac
shift
[ -z "\$cgroup" ] || echo \$\$ >"\$cgroup/cgroup.procs" || exit 255
exec nsenter --net="/run/netns/\$host" sh -c "\$*"
SHELL
    chmod +x "$remote_shell"
}

# What arrives is handled by one processor, as from a network card with one queue: veth alone uses the sender's processor of
# the moment, and a sender that is moved to another makes its packets overtake each other.
hosts_configure() {
    ip -n "$1" address add "$2/24" dev eth0 && ip -n "$1" link set eth0 up && ip -n "$1" link set lo up || return 1
    ip netns exec "$1" sh -c 'echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus' 2>/dev/null ||
        echo "hosts: packets between the hosts may overtake each other here" >&2
}

# Ends what still runs on the two hosts and removes them; safe to call at any time.
hosts_down() {
    for host in "${host_a:-}" "${host_b:-}"; do
        [ -e "/run/netns/${host:-none}" ] || continue
        for signal in TERM KILL; do
            hosts_processes=$(ip netns pids "$host" 2>/dev/null)
            [ -n "$hosts_processes" ] || break
            # shellcheck disable=SC2086 # a list of process ids
            kill -s "$signal" $hosts_processes 2>/dev/null
            sleep 0.3
        done
        ip netns delete "$host"
    done
    host_a='' host_b=''
}
