#!/bin/bash
# Records the congestion window of Linux's own modules: boots Debian's user-mode Linux and runs guest.sh in it, which sends with
# iperf3 over paths of netem. The result is a file like traces.txt.
#
#   bench/oracle/run.sh OUT [ALGORITHM...]      needs root, 4 GiB of memory; scripts/setup.sh oracle installs the programs
#
# PATHS names another list of paths, RUNS how often each is recorded (1). The virtual kernel's clock is the machine's: nothing
# else should run meanwhile. All paths with all algorithms take 35 minutes.
set -eu
# shellcheck source=bench/oracle/boot.sh
. "$(dirname "$0")/boot.sh"
out=$(realpath -m "${1:?where to write the record}")
shift
boot guest.sh "$out" PATHS="${PATHS:-$HERE/paths.txt}" RUNS="${RUNS:-1}" \
    ALGORITHMS="${*:-reno bic cubic htcp highspeed scalable bbr}"
