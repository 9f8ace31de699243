# shellcheck shell=bash
# Loads on a path, on netem's (beside-guest.sh) or a lab's (beside.sh). Whoever reads this file defines on_a and on_b, which run a
# command on a host; TO is b's address, SCRATCH a directory.

# One line: the path, the load, payload received in Mbit/s, packets offered and lost, round trips (least, median, greatest) in ms.
line() {
    python3 -c '
import json, re, statistics, sys
path, load, directory = sys.argv[1:]
received = offered = lost = ""
try:
    end = json.load(open(directory + "/iperf.json"))["end"]
    if "udp" in end["streams"][0]:
        offered, lost = end["sum"]["packets"], end["sum"]["lost_packets"]
        received = "%.3f" % ((offered - lost) * 1472 * 8 / end["sum"]["seconds"] / 1e6)
    else:
        received, lost = "%.3f" % (end["sum_received"]["bits_per_second"] / 1e6), end["sum_sent"]["retransmits"]
except FileNotFoundError:
    pass
trips = [float(trip) for trip in re.findall(r"time=([0-9.]+) ms", open(directory + "/ping.txt").read())]
print(",".join(map(str, ["\"%s\"" % path, load, received, offered, lost] + ["%.2f" % value for value in
    (min(trips), statistics.median(trips), max(trips))])), flush=True)' "$1" "$2" "$SCRATCH"
}

# send OPTIONS...: iperf3 from a to b, beside pings once it has begun
send() {
    on_b iperf3 -s -1 >/dev/null 2>&1 </dev/null &
    local server=$!
    sleep 1
    (sleep 2; on_a ping -n -i 0.05 -c 100 "$TO") >"$SCRATCH/ping.txt" </dev/null &
    local pings=$!
    on_a iperf3 -c "$TO" -J "$@" >"$SCRATCH/iperf.json" </dev/null
    wait $server $pings
}

# loads RATE RTT QUEUE: in Mbit/s, ms, packets; frames count with 14 bytes of header
loads() {
    local name="$1 Mbit/s, $2 ms, queue of $3 packets" share payload
    rm -f "$SCRATCH/iperf.json"
    on_a ping -n -i 0.05 -c 60 "$TO" >"$SCRATCH/ping.txt" </dev/null
    line "$name" nothing
    for share in 80 120; do
        payload=$(($1 * share * 10000 * 1472 / 1514))
        # Ten milliseconds at a time: the virtual kernel's programs do not wake more often.
        send -u -b "$payload/$(($1 * share / 121 + 1))" -l 1472 -t 10
        line "$name" "datagrams at $share %"
    done
    # Paced, so that how fast a host can send does not decide what slow start loses.
    send -C reno --fq-rate $(($1 * 1000000)) -t 30
    line "$name" "one Reno flow"
}
