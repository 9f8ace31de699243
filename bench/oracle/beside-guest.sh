# shellcheck shell=bash
# Inside the virtual kernel (beside.sh): the loads on paths of netem.
# shellcheck source=bench/oracle/hosts.sh
. "$HERE/hosts.sh"
# shellcheck source=bench/oracle/loads.sh
. "$HERE/loads.sh"
TO=10.1.3.2 SCRATCH=/run
on_a() { ip netns exec a "$@"; }
on_b() { ip netns exec b "$@"; }
echo "$PATHS" | while read -r rate rtt queue; do
    path "${rate}mbit" "${rtt}ms" "$queue" 1500
    loads "$rate" "$rtt" "$queue" | sed 's/^/netem,/'
done
