#!/bin/bash
# How a copy without disks (icdc measure --secure --hash, both ends on this host, over loopback) makes use of more processors and more
# connections, beside TCP alone (iperf3) on the same processors. Writes into the directory OUT:
#
#   cores.csv        rate and processor time by the number of processors
#   connections.csv  the same on all processors, by the number of connections; 0 are as many as icdc makes by itself
#   stages.csv       processor time by stage and the share of the busiest thread of each, by the number of connections
#   iperf3.csv       TCP alone, one pair of processes for each connection
#   table.csv        medians of the first two, and how many times the rate of one processor that is
#
#   bench/scaling.sh OUT [RUNS] [SECONDS]      (3 runs of 4 s)
#
# Rates and times are those of the steady state: from 1 s after the begin to 1 s before the end, so SECONDS is 3 or more. No other icdc
# may run meanwhile. ICDC names the program.
set -u
out=$1 runs=${2:-3} seconds=${3:-4}
cd "$(dirname "$0")/.." || exit 1
. bench/one-host.sh
make_place "${TMPDIR:-/tmp}"
mkdir -p "$out" || exit 1
processors=$(nproc)

# busy: hundredths of a second in which the processors have worked, and the time.
busy() {
    awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
    date +%s.%N
}

# threads: number, stage and hundredths of a second of each thread of icdc, and the time.
threads() {
    for process in $(pgrep -x icdc); do
        cat /proc/"$process"/task/*/stat 2>/dev/null
    done | sed 's/(\([^)]*\))/\1/' | awk '$2 ~ /^icdc-/ { print $1, substr($2, 6), $14 + $15 }'
    echo "time time $(date +%s.%N)"
}

# measured PROCESSORS CONNECTIONS: "Gbit/s,processor seconds per GiB,busy processors"; leaves what the threads did in "$place/stages".
measured() {
    streams=''
    [ "$2" = 0 ] || streams="--streams $2"
    (
        sleep 1
        busy >"$place/before" && threads >"$place/threads"
        sleep $((seconds - 2))
        busy >"$place/after" && threads >>"$place/threads"
    ) &
    # shellcheck disable=SC2086
    taskset -c "0-$(($1 - 1))" "$icdc" measure --secure --hash --json --seconds "$seconds" $streams --ssh "$ssh" \
        --remote-icdc "$icdc" 127.0.0.1 >"$place/said" || kill $$
    wait
    bytes() { # after so many seconds of data
        grep '"type":"progress"' "$place/said" | sed 's/.*"bytes_done":\([0-9]*\).*"seconds":\([0-9.]*\).*/\1 \2/' |
            awk -v at="$1" '$1 > 0 { if (!n++) begin = $2; if ($2 - begin <= at) { done = $1; t = $2 } } END { print done, t }'
    }
    gibps=$(echo "$(bytes 0.9) $(bytes $((seconds - 1)))" | awk '{ print ($3 - $1) / ($4 - $2) / 2 ^ 30 }')
    awk -v gib="$gibps" '
        !($1 in first) { first[$1] = $3; next }
        $1 == "time" { span = $3 - first[$1]; next }
        { worked = $3 - first[$1]; sum[$2] += worked; if (worked > most[$2]) most[$2] = worked; count[$2]++ }
        END { for (stage in sum) if (sum[stage] > span) printf "%s,%d,%.3f,%.0f\n", stage, count[stage], sum[stage] / 100 / span / gib, 100 * most[stage] / sum[stage] }
    ' "$place/threads" | sort >"$place/stages"
    echo "$gibps $(cat "$place/before" "$place/after" | tr '\n' ' ')" | awk '
        { cores = ($4 - $2) / 100 / ($5 - $3); printf "%.2f,%.2f,%.1f\n", $1 * 8 * 2 ^ 30 / 1e9, cores / $1, cores }'
}

# plain PROCESSORS PAIRS: Gbit/s of so many pairs of iperf3 together.
plain() {
    for pair in $(seq "$2"); do
        taskset -c "0-$(($1 - 1))" iperf3 -s -1 -p $((6100 + pair)) >/dev/null &
    done
    sleep 0.5
    for pair in $(seq "$2"); do
        taskset -c "0-$(($1 - 1))" iperf3 -c 127.0.0.1 -p $((6100 + pair)) -t 3 -f g >"$place/iperf3.$pair" &
    done
    wait
    cat "$place"/iperf3.* | awk '/receiver/ { sum += $7 } END { print sum }'
    rm -f "$place"/iperf3.*
}

powers() {
    for count in 1 2 4 8 16 32; do
        [ "$count" -gt "$1" ] || echo "$count"
    done
}

echo "processors,connections,run,Gbit/s,processor seconds per GiB,busy processors" | tee "$out/cores.csv" >"$out/connections.csv"
echo "connections,stage,threads,processor seconds per GiB,busiest thread %" >"$out/stages.csv"
echo "processors,pairs,Gbit/s" >"$out/iperf3.csv"
for run in $(seq "$runs"); do
    for count in $(powers "$processors"); do
        echo "$count,4,$run,$(measured "$count" 4)" >>"$out/cores.csv"
    done
    for count in 0 $(powers 16); do
        echo "$processors,$count,$run,$(measured "$processors" "$count")" >>"$out/connections.csv"
        [ "$run" != 1 ] || sed "s/^/$count connections,/" "$place/stages" >>"$out/stages.csv"
    done
done
for count in $(powers "$processors"); do
    echo "$count,$count,$(plain "$count" "$count")" >>"$out/iperf3.csv"
done

# Medians of all runs, the rate also as a multiple of what one processor has, icdc's beside that of TCP alone.
awk -F, '
    function median(values, count, i, j, value) {
        count = split(values, sorted, " ")
        for (i = 2; i <= count; i++) {
            value = sorted[i] + 0
            for (j = i - 1; j > 0 && sorted[j] + 0 > value; j--) sorted[j + 1] = sorted[j]
            sorted[j + 1] = value
        }
        return (sorted[int((count + 1) / 2)] + sorted[int(count / 2) + 1]) / 2
    }
    FNR == 1 { table++; next }
    table == 3 { tcp[$1] = $3; next }
    {
        key = (table == 1 ? $1 " of them" : $2 " connections")
        if (!(key in rate)) order[++keys] = key
        processors[key] = $1
        rate[key] = rate[key] " " $4; cost[key] = cost[key] " " $5; used[key] = used[key] " " $6
    }
    END {
        print "what,Gbit/s,times one,TCP alone times one,processor seconds per GiB,busy processors"
        one = median(rate["1 of them"])
        for (i = 1; i <= keys; i++) {
            key = order[i]
            alone = key ~ /of them/ ? sprintf("%.1f", tcp[processors[key]] / tcp[1]) : ""
            printf "%s,%.1f,%.2f,%s,%.2f,%.1f\n", key, median(rate[key]), median(rate[key]) / one, alone, median(cost[key]), median(used[key])
        }
    }' "$out/cores.csv" "$out/connections.csv" "$out/iperf3.csv" >"$out/table.csv"
