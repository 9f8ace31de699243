# shellcheck shell=bash
# Loads on a path, on netem's (beside-guest.sh) or a lab's (beside.sh). Whoever reads this file defines on_a and on_b, which run a
# command on a host; TO is b's address, SCRATCH a directory.

# One line: what is measured, payload received in Mbit/s, packets offered and lost, round trips (least, median, greatest) in ms.
line() {
    python3 -c '
import json, re, statistics, sys
name, directory = sys.argv[1:]
received = offered = lost = ""
try:
    run = json.load(open(directory + "/iperf.json"))["end"]
    if "sum_received" in run and run.get("streams", [{}])[0].get("udp") is None:
        received, lost = run["sum_received"]["bits_per_second"] / 1e6, run["sum_sent"]["retransmits"]
    else:
        end = run["sum_received"] if run.get("sum_received", {}).get("packets") else run["sum"]
        offered, lost = end["packets"], end["lost_packets"]
        received = (offered - lost) * 1472 * 8 / end["seconds"] / 1e6
    received = "%.3f" % received
except FileNotFoundError:
    pass
trips = [float(trip) for trip in re.findall(r"time=([0-9.]+) ms", open(directory + "/ping.txt").read())]
print(",".join(map(str, [name, received, offered, lost] + ["%.2f" % value for value in
    (min(trips), statistics.median(trips), max(trips))])), flush=True)' "$1" "$SCRATCH"
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
    local name="$1 Mbit/s $2 ms queue $3" share payload
    rm -f "$SCRATCH/iperf.json"
    on_a ping -n -i 0.05 -c 60 "$TO" >"$SCRATCH/ping.txt" </dev/null
    line "$name,nothing"
    for share in 80 120; do
        payload=$(($1 * share * 10000 * 1472 / 1514))
        send -u -b $payload -l 1472 -t 10
        line "$name,datagrams at $share %"
    done
    send -C reno -t 30
    line "$name,one Reno flow"
}
