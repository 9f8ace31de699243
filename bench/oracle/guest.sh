# shellcheck shell=bash
# Inside the virtual kernel (run.sh): windows of every algorithm on every path. In r, iptables drops packets by number.
echo "# Linux $(uname -r), $(iperf3 --version | head -n 1)"
# shellcheck source=bench/oracle/hosts.sh
. "$HERE/hosts.sh"

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
    path "$rate" "$rtt" "$queue" "$mtu"
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
