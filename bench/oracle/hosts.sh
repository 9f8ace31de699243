# shellcheck shell=bash
# Inside the virtual kernel: the hosts and the path. a sends to b.
#
#   a ── r ──────────── s ── b      rs: netem, rate and drop-tail queue
#        rs         delay           sb and ra: netem, half of the round trip each way
sysctl -qw net.core.rmem_max=536870912 net.core.wmem_max=536870912
mkdir -p /run/netns
for host in a r s b; do
    ip netns add $host
    ip -n $host link set lo up
    ip netns exec $host sysctl -qw net.ipv4.ip_forward=1
done
join() {
    ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"
    ip -n "$1" addr add "$5.1/24" dev "$2"
    ip -n "$3" addr add "$5.2/24" dev "$4"
    for end in "$1 $2" "$3 $4"; do
        set -- $end
        ip -n "$1" link set "$2" txqueuelen 100000 up
        ip netns exec "$1" ethtool -K "$2" tso off gso off gro off
    done
}
join a ar r ra 10.1.1
join r rs s sr 10.1.2
join s sb b bs 10.1.3
ip -n a route add default via 10.1.1.2
ip -n r route add 10.1.3.0/24 via 10.1.2.2
ip -n s route add 10.1.1.0/24 via 10.1.2.1
ip -n b route add default via 10.1.3.1
for host in a b; do
    ip netns exec $host sysctl -qw net.ipv4.tcp_rmem="4096 268435456 536870912" net.ipv4.tcp_wmem="4096 65536 536870912" \
        net.ipv4.tcp_no_metrics_save=1
done

# path RATE RTT QUEUE MTU: such as 200mbit 300ms, packets, bytes
path() {
    local half=$((${2%ms} * 500))us device
    for device in a:ar r:ra r:rs s:sr s:sb b:bs; do
        ip -n "${device%:*}" link set "${device#*:}" mtu "$4"
    done
    ip netns exec r tc qdisc replace dev rs root netem rate "$1" limit "$3"
    ip netns exec s tc qdisc replace dev sb root netem delay "$half" limit 1000000
    ip netns exec r tc qdisc replace dev ra root netem delay "$half" limit 1000000
}
