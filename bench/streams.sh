#!/bin/bash
# Streams beside the same copy from file to file: `cat FILE | icdc copy - NODE` and `icdc copy NODE/FILE - | cat`, from and to a daemon,
# over an emulated path and over a loopback device. Writes a line for each run:
#
#   path,run,way,seconds
#
#   bench/streams.sh [RUNS [MB]]      (5 runs of 1,000 MB; over loopback of four times as much)
#
# Ways: push and pull from file to file, stdin and stdout. Needs root and room for the file three times. ICDC names the program, SCRATCH a
# directory on the disk to measure, RTT the round-trip time (300ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} size=${2:-1000}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 300ms
export TMPDIR=$scratch

# timed PATH RUN WAY HOST ADDRESS: copies, compares, and prints the line of it.
timed() {
    local begin copy=$scratch/far/copy
    rm -f "$copy" "$scratch/copy"
    sync
    sleep 1
    begin=$(date +%s.%N)
    # shellcheck disable=SC2016
    case $3 in
    push) set -- "$@" '"$1" copy "$2/file" "icdc://$3/copy"' ;;
    stdin) set -- "$@" 'cat "$2/file" | "$1" copy - "icdc://$3/copy"' ;;
    pull) set -- "$@" '"$1" copy "icdc://$3/file" "$2/copy"' ;;
    stdout) set -- "$@" '"$1" copy "icdc://$3/file" - | cat >"$2/copy"' ;;
    esac
    ip netns exec "icdc-$lab-$4" bash -o pipefail -c "$6" - "$icdc" "$scratch" "$5" >"$scratch/said" 2>&1 || {
        cat "$scratch/said" >&2
        exit 1
    }
    echo "$1,$2,$3,$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.3f", $1 - $2 }')"
    [ -e "$copy" ] || copy=$scratch/copy
    cmp "$scratch/file" "$copy" >&2 || exit 1
}

serve 10.26.33.2
serve 127.0.0.1
echo path,run,way,seconds
for path in long loopback; do
    megabytes=$size host=a address=10.26.33.2
    [ "$path" = long ] || megabytes=$((4 * size)) host=b address=127.0.0.1
    head -c "$megabytes"000000 /dev/urandom >"$scratch/file"
    ln -f "$scratch/file" "$scratch/far/file"
    for run in $(seq "$runs"); do
        for way in push stdin pull stdout; do timed "$path" "$run" "$way" "$host" "$address"; done
    done
done
