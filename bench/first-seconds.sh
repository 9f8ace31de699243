#!/bin/bash
# Where the round trips of a copy go before its data and at its end, by route: to a daemon, by ssh with its data port open, by ssh where only
# port 22 is open, and by way of a jump host; each with nothing known of the host, and then once more. Writes a line for each step:
#
#   route,known,step,seconds,round trips
#
#   let in      ssh has logged in                       answered   the far end has said where it listens
#   connected   the first data connection is ready      all        so many data connections are ready, the last of them now
#   end         the command has ended
#
#   bench/first-seconds.sh [MEGABYTES]      (a file of 1 MB)
#
# Needs root, sshd, nft and setpriv; the copies themselves may do nothing that an ordinary user may not, between hosts with stock buffers. ICDC
# names the program, SCRATCH a directory on the disk to measure, RTT the round-trip time in ms (300), RATE the bottleneck (1gbit), TRACES a
# directory for the output of each copy, with times.
set -u
cd "$(dirname "$0")/.." || exit 1
megabytes=${1:-1} rtt=${RTT:-300}
RTT=${rtt}ms
# shellcheck disable=SC2034 # read where this is sourced
peers='sshd nft setpriv'
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 300ms 2.5MB
behind=icdc-$lab-c behind_address=10.26.34.2
# Hosts may use only algorithms that the machine allows.
allowed=$(sysctl -n net.ipv4.tcp_allowed_congestion_control)
trap 'ip netns del "$behind" 2>/dev/null; sysctl -qw "net.ipv4.tcp_allowed_congestion_control=$allowed"; clean_up' EXIT
sysctl -qw "net.ipv4.tcp_allowed_congestion_control=$allowed cubic" || exit 1

ip netns add "$behind" || exit 1
ip -netns "icdc-$lab-b" link add onward type veth peer name eth0 netns "$behind"
for words in "icdc-$lab-b address add 10.26.34.1/24 dev onward" "icdc-$lab-b link set onward up" "$behind link set lo up" \
    "$behind link set eth0 up" "$behind address add $behind_address/24 dev eth0" "icdc-$lab-a route add $behind_address/32 via $address"; do
    # shellcheck disable=SC2086 # words
    ip -netns $words || exit 1
done
for host in "icdc-$lab-a" "icdc-$lab-b" "$behind"; do
    ip netns exec "$host" sysctl -qw 'net.ipv4.tcp_rmem=4096 131072 6291456' 'net.ipv4.tcp_wmem=4096 16384 4194304' \
        net.ipv4.tcp_congestion_control=cubic || exit 1
done

for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$scratch/$key" || exit 1; done
mkdir -p /run/sshd
# sshd_on HOST ADDRESS: an ssh server at port 22 of the host.
sshd_on() {
    printf '%s\n' "ListenAddress $2" "HostKey $scratch/host" "AuthorizedKeysFile $scratch/user.pub" 'PidFile none' 'StrictModes no' \
        'PermitRootLogin yes' 'UsePAM no' >"$scratch/sshd-$2"
    ip netns exec "$1" "$(command -v sshd)" -D -e -f "$scratch/sshd-$2" 2>>"$scratch/log" &
    daemons="$daemons $!"
}
sshd_on "icdc-$lab-b" "$address"
sshd_on "$behind" "$behind_address"
common=$(printf '    %s\n' "IdentityFile $scratch/user" 'IdentitiesOnly yes' "UserKnownHostsFile $scratch/known_hosts" 'User root' 'HostKeyAlias lab')
printf 'Host far\n    HostName %s\n%s\nHost behind\n    HostName %s\n    ProxyJump far\n%s\n' "$address" "$common" "$behind_address" "$common" >"$scratch/config"
sed 's/^/lab /' "$scratch/host.pub" >"$scratch/known_hosts"
serve "$address"
head -c $((megabytes * 1000000)) /dev/urandom >"$scratch/file"
sync

# steps ROUTE KNOWN: the lines of a run whose output, with times, is on standard input, from its beginning to its end.
steps() {
    awk -v route="$1" -v known="$2" -v rtt="$rtt" '
        function step(name, at) { printf "%s,%s,%s,%.2f,%.1f\n", route, known, name, at - begin, (at - begin) * 1000 / rtt }
        / BEGIN$/ { begin = $1 }
        / let in host=/ && !letin++ { step("let in", $1) }
        / logged in host=/ && !answered++ { step("answered", $1) }
        /"type":"connected"/ { if (!count++) step("connected", $1); last = $1 }
        / END [0-9]+$/ { if (count > 1) step("all " count, last); step("end", $1); if ($3) print "the copy has failed" >"/dev/stderr" }'
}

# copies ROUTE DESTINATION: two copies, the second of which knows the host.
copies() {
    local known
    for known in no yes; do
        {
            echo BEGIN
            RUST_LOG=icdc_client=debug ip netns exec "icdc-$lab-a" setpriv --bounding-set -net_admin,-bpf,-perfmon --inh-caps -net_admin,-bpf,-perfmon \
                "$icdc" copy --json --no-resume --remote-icdc "$icdc" --ssh "ssh -F $scratch/config" "$scratch/file" "$2" 2>&1
            echo "END $?"
        } | while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done | tee "$scratch/trace" | steps "$1" "$known"
        if [ -n "${TRACES:-}" ]; then cp "$scratch/trace" "$TRACES/$1-$known"; fi
        cmp -s "$scratch/file" "$scratch/far/copy" || echo "the copy is not equal" >&2
        rm -f "$scratch/far/copy"
    done
    "$icdc" doctor --paths --clear >/dev/null
}

echo 'route,known,step,seconds,round trips'
copies daemon "icdc://$address/copy"
copies direct "far:$scratch/far/copy"
far nft -f - <<'END' || exit 1
table inet icdc_lab {
    chain input { type filter hook input priority 0; iifname "eth0" tcp dport != 22 drop; iifname "eth0" meta l4proto != tcp drop; }
}
END
copies 'port 22' "far:$scratch/far/copy"
copies 'jump host' "behind:$scratch/far/copy"
