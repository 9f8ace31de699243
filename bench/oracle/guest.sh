# shellcheck shell=bash
# Inside the virtual kernel (run.sh): a sends to b.
#
#   a ── r ──────────── s ── b      rs: netem, rate and drop-tail queue; in r, iptables drops packets by number
#        rs         delay           sb and ra: netem, half of the round trip each way
echo "# Linux $(uname -r), $(iperf3 --version | head -n 1)"
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

# One line: the path's description, algorithm, mean goodput, retransmissions with their time, and the window every 100 ms.
record() {
    python3 -c '
import json, sys
run = json.load(open("/run/iperf.json"))
mss = run["start"]["tcp_mss_default"]
steps = [step["streams"][0] for step in run["intervals"]]
windows = [round(step["snd_cwnd"] / mss) for step in steps]
lost = ["%.1f:%d" % (step["end"], step["retransmits"]) for step in steps if step["retransmits"]]
print("|".join([sys.argv[1], sys.argv[2], "%.1f" % (run["end"]["sum_received"]["bits_per_second"] / 1e6),
    " ".join(lost), " ".join(map(str, windows))]), flush=True)' "$1" "$2"
}

echo '# rate rtt queue mtu acks seconds drops|algorithm|goodput, Mbit/s|retransmitted, end of the 100 ms:packets|window in packets after each 100 ms'
grep -v '^#' "$PATHS" | while read -r rate rtt queue mtu acks seconds drops; do
    half=$((${rtt%ms} * 500))us
    for device in a:ar r:ra r:rs s:sr s:sb b:bs; do
        ip -n "${device%:*}" link set "${device#*:}" mtu "$mtu"
    done
    ip netns exec r tc qdisc replace dev rs root netem rate "$rate" limit "$queue"
    ip netns exec s tc qdisc replace dev sb root netem delay "$half" limit 1000000
    ip netns exec r tc qdisc replace dev ra root netem delay "$half" limit 1000000
    # Twice what path and queue hold, far less than the buffer: a window that depends on what the application has yet to read
    # makes a busy receiver answer many packets at once. It answers each packet until it has announced all of its window.
    window=$((2 * (${rate%mbit} * ${rtt%ms} * 125 + queue * (mtu + 14))))
    quickack=$((acks == 1))
    ip -n b route replace default via 10.1.3.1 window $window quickack $quickack
    for _ in $(seq "$RUNS"); do
        for algorithm in $ALGORITHMS; do
            ip netns exec r iptables-legacy -F FORWARD
            # Each rule counts what those before it let pass. SYN, acknowledgement and the cookie of iperf3 come first.
            passed=3
            for number in $([ "$drops" = - ] || echo "$drops" | tr , ' '); do
                ip netns exec r iptables-legacy -A FORWARD -i ra -p tcp --sport 6001 -m statistic --mode nth \
                    --every 1000000000 --packet $((number + passed - 1)) -j DROP
                passed=$((passed - 1))
            done
            ip netns exec b iperf3 -s -1 >/dev/null 2>&1 </dev/null &
            sleep 0.5
            ip netns exec a iperf3 -c 10.1.3.2 --cport 6001 -t "$seconds" -C "$algorithm" -i 0.1 -J >/run/iperf.json </dev/null
            record "$rate $rtt $queue $mtu $acks $seconds $drops" "$algorithm"
            wait
            sleep 0.5
        done
    done
done
