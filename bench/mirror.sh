#!/bin/bash
# A tree of small files that is mirrored every night, over an emulated path: icdc and rsync, each against a daemon of its own kind and to a
# copy of its own, in turn and with cold caches. Writes a line for each run of a program, and for `find -printf` of size and time in the
# source and in the copy, which both programs have to do at least:
#
#   job,run,program,seconds,MB sent,MiB near,MiB far
#
# MB sent is counted on the path, from the near host to the far one and back; MiB is the most memory that each end held.
#
#   bench/mirror.sh [RUNS [DIRECTORIES [FILES]]]      (5 runs of 10,000 directories of 100 files)
#
# Needs root, and room for three such trees. ICDC names the program, SCRATCH a directory on the disk to measure, RTT the round-trip time
# (300ms), RATE the bottleneck (1gbit). Jobs: `same` (nothing has changed) and `few` (1 % of the files changed, 1 % renamed, 1 % deleted).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} directories=${2:-10000} files=${3:-100}
icdc=$(realpath "${ICDC:-${CARGO_TARGET_DIR:-target}/release/icdc}")
lab=mirror$$
daemons=''

clean_up() {
    for daemon in $daemons; do kill "$daemon" 2>/dev/null; done
    wait
    "$icdc" lab down --name "$lab" >/dev/null 2>&1
    rm -rf "$scratch"
}

scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-mirror.XXXXXX") || exit 1
trap clean_up EXIT
trap 'exit 130' INT TERM
export HOME=$scratch/home
mkdir "$HOME" || exit 1
"$icdc" lab up --name "$lab" --rate "${RATE:-1gbit}" --rtt "${RTT:-300ms}" --mode fast >/dev/null || exit 1
near=icdc-$lab-a far=icdc-$lab-b

# The source, and the state that both copies have before the first run.
python3 - "$scratch/source" "$directories" "$files" <<'MAKE' || exit 1
import os, sys
root, directories, files = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for directory in range(directories):
    path = f"{root}/{directory // 100}/{directory}"
    os.makedirs(path)
    for number in range(files):
        with open(f"{path}/{number}.nc", "w") as file:
            file.write(f"{directory} {number} 0\n" * 10)
MAKE
mkdir "$scratch/far" && cp -a "$scratch/source" "$scratch/far/icdc" && cp -a "$scratch/source" "$scratch/far/rsync" || exit 1

"$icdc" keygen --identity "$scratch/daemon" >/dev/null && "$icdc" keygen >/dev/null || exit 1
echo "root=$scratch/far,rights=rw,user=root $(cat "$HOME/.config/icdc/identity.pub")" >"$scratch/keys"
ip netns exec "$far" "$icdc" serve --listen 10.26.33.2:2633 --identity "$scratch/daemon" --authorized-keys "$scratch/keys" 2>"$scratch/log" &
daemons="$daemons $!"
printf 'use chroot = no\nuid = 0\ngid = 0\n[far]\npath = %s\nread only = no\n' "$scratch/far" >"$scratch/rsyncd.conf"
ip netns exec "$far" rsync --daemon --no-detach --address 10.26.33.2 --config="$scratch/rsyncd.conf" --log-file=/dev/null &
daemons="$daemons $!"
"$icdc" keygen --trust 10.26.33.2:2633 "$(cat "$scratch/daemon.pub")" >/dev/null || exit 1
until ip netns exec "$near" bash -c 'exec 3<>/dev/tcp/10.26.33.2/2633 && exec 4<>/dev/tcp/10.26.33.2/873' 2>/dev/null; do sleep 0.1; done

# crossed: bytes that have crossed the path, both directions.
crossed() {
    ip netns exec "$near" awk '/eth0:/ { sub(/.*:/, ""); print $1 + $9 }' /proc/net/dev
}

# held PID: the most MiB that the process has held.
held() {
    awk '/^VmHWM/ { printf "%d", $2 / 1024 + 0.5 }' "/proc/$1/status" 2>/dev/null
}

# Nothing is left to write, and nothing is cached.
settle() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
}

# timed JOB RUN PROGRAM COMMAND...: runs it on the near host and prints its line; at the far end, the processes count that the daemons start.
timed() {
    local job=$1 run=$2 program=$3 begin bytes near_most=0 far_most=0 now
    shift 3
    settle
    bytes=$(crossed)
    begin=$(date +%s.%N)
    ip netns exec "$near" "$@" >"$scratch/said" 2>&1 &
    local command=$!
    while kill -0 "$command" 2>/dev/null; do
        now=$(held "$command")
        [ "${now:-0}" -le "$near_most" ] || near_most=$now
        for now in $(ip netns pids "$far"); do
            case " $daemons " in *" $now "*) continue ;; esac
            now=$(held "$now")
            [ "${now:-0}" -le "$far_most" ] || far_most=$now
        done
        sleep 0.2
    done
    wait "$command" || {
        cat "$scratch/said" >&2
        exit 1
    }
    echo "$job,$run,$program,$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.2f", $1 - $2 }'),$(echo "$(crossed) $bytes" | awk '{ printf "%.2f", ($1 - $2) / 1e6 }'),$near_most,$far_most"
}

# found RUN PLACE: the time of `find -printf` in it.
found() {
    local begin
    settle
    begin=$(date +%s.%N)
    find "$scratch/$2" -printf '%P %s %T@\n' >/dev/null
    echo "find,$1,$2,$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.2f", $1 - $2 }'),,,"
}

# one JOB RUN: both programs.
one() {
    timed "$1" "$2" icdc "$icdc" sync --delete "$scratch/source/" icdc://10.26.33.2/icdc/
    timed "$1" "$2" rsync rsync -a --delete "$scratch/source/" rsync://10.26.33.2/far/rsync/
}

echo 'job,run,program,seconds,MB sent,MiB near,MiB far'
for run in $(seq "$runs"); do
    found "$run" source
    found "$run" far/icdc
    one same "$run"
done
for run in $(seq "$runs"); do
    python3 - "$scratch/source" "$directories" "$files" "$run" <<'CHANGE' || exit 1
import os, sys
root, directories, files, run = sys.argv[1], *map(int, sys.argv[2:])
changed = 0
for directory in range(directories):
    path = f"{root}/{directory // 100}/{directory}"
    for number in range(files):
        name = f"{path}/{number}.nc"
        match (directory * files + number - 3 * run) % 300 if os.path.exists(name) else None:
            case 0 | 100 | 200:
                with open(name, "w") as file:
                    changed += file.write(f"{directory} {number} {run}\n" * 10)
            case 1 | 101 | 201:
                os.rename(name, f"{path}/{number}-{run}.nc")
            case 2 | 102 | 202:
                os.remove(name)
print(f"run {run}: {changed / 1e6:.2f} MB in changed files", file=sys.stderr)
CHANGE
    one few "$run"
done
for program in icdc rsync; do
    diff -r "$scratch/source" "$scratch/far/$program" >&2 || exit 1
done
