#!/bin/bash
# Makes a record of a scenario by the release build (make) of the last commit, and keeps what bench/README.md says.
#
#   bench/record.sh SCENARIO [OPTION...]      such as: bench/record.sh cc-table --runs 1 --at-once 4; options of icdc lab run
#
# ICDC names another program.
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=${1:?which scenario}
shift
measured=(crates Cargo.toml Cargo.lock)
if [ -n "$(git status --porcelain -- "${measured[@]}")" ]; then
    echo "record: the sources differ from the last commit, which the record would name: commit first" >&2
    exit 2
fi
icdc=${ICDC:-${CARGO_TARGET_DIR:-target}/release/icdc}
if [ -n "$(find Cargo.lock crates/*/src crates/cc/c -type f -newer "$icdc" -print -quit)" ]; then
    echo "record: $icdc is older than the sources: build it first (make)" >&2
    exit 2
fi
commit=$(git rev-parse --short=10 HEAD)
record=bench/runs/$(date +%F)-$commit-lab-$scenario
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$record"
{
    echo "icdc lab run${*:+ $*} $scenario"
    echo "commit $commit"
    uname -sr
    echo "$(nproc) processors, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
} >"$record/command"
status=0
"$icdc" lab run "$@" --out "$work/out" "$scenario" 2>&1 | sed "s#$work/##" | tee "$record/run.log" || status=$?
for file in "$work"/out/*.csv; do
    [ -e "$file" ] || continue
    cp "$file" "$record/"
    # Tables are read by the check of the pages as they are; series are long.
    if [ "$(stat -c %s "$file")" -gt 100000 ]; then
        xz -9e "$record/${file##*/}"
    fi
done
du -sh "$record"
exit $status
