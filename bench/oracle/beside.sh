#!/bin/bash
# The lab beside netem: the same loads on the same paths, on netem in a virtual kernel and in labs of this machine. Writes CSV.
#
#   bench/oracle/beside.sh OUT      needs root, 4 GiB of memory, iputils-ping; ICDC names the program (target/release/icdc)
#
# PATHS gives other paths: Mbit/s, ms, packets of queue, one path a line. Both run in the machine's time: nothing else should
# run meanwhile. It takes seven minutes.
set -eu
# shellcheck source=bench/oracle/boot.sh
. "$(dirname "$0")/boot.sh"
# shellcheck source=bench/oracle/loads.sh
. "$HERE/loads.sh"
out=$(realpath -m "${1:?where to write the table}")
icdc=${ICDC:-$HERE/../../target/release/icdc}
# A queue of the bandwidth-delay product, of a fifth, of a tenth. Rates that iperf3 in the virtual kernel sends evenly.
paths=${PATHS:-10 40 33
50 100 83
25 300 62}
boot beside-guest.sh "$out" PATHS="$paths"
lab=beside-$$
SCRATCH=$work TO=10.26.33.2
trap '"$icdc" lab down --name $lab >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
on_a() { "$icdc" lab exec --name $lab a -- "$@"; }
on_b() { "$icdc" lab exec --name $lab b -- "$@"; }
echo "$paths" | while read -r rate rtt queue; do
    # A frame takes 24 bytes more on a lab's wire than netem counts.
    "$icdc" lab up --name $lab --rate $((rate * 1000000 * 1538 / 1514))bit --rtt "${rtt}ms" --queue $((queue * 1538)) >/dev/null
    loads "$rate" "$rtt" "$queue" | sed 's/^/lab,/' >>"$out"
    "$icdc" lab down --name $lab >/dev/null
done
grep '^#' "$out" >&2
{
    echo 'where,path,load,"received, Mbit/s","packets offered","packets lost or retransmitted","least round trip, ms","median, ms","greatest, ms"'
    grep -v '^#' "$out"
} >"$work/table"
cp "$work/table" "$out"
