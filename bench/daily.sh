#!/bin/bash
# The daily jobs over an emulated path: icdc beside rsync and rclone, each with a far end of its own kind (daemons; rclone's SFTP server) and
# a copy of its own, in turn and with cold caches. Writes a line for each run of a program, and for `find -printf` of size and time in the
# source and in the copy, which a mirror has to do at least:
#
#   job,run,program,seconds,MB sent,MiB near,MiB far
#
# MB sent is counted on the path, from the near host to the far one and back; MiB is the most memory that each end held.
#
#   [JOBS='many one part same few'] [PEERS='rsync rclone'] bench/daily.sh [RUNS [DIRECTORIES [FILES]]]      (5 runs of 10,000 directories of 100 files)
#
#   many   a new tree of 5,000 small files in 50 directories (46 MB)
#   one    a new file of 1 GB
#   part   the same file, with 1 % of its 64 KiB pages changed in a random place of each
#   same   a mirror of the tree of DIRECTORIES x FILES small files in which nothing has changed
#   few    the same mirror, with 1 % of the files changed, 1 % renamed, 1 % deleted
#
# rclone has 64 transfers and 64 checkers at once (its defaults, 4 and 8, are for shorter paths) and compares by size and time, as the others do.
# Needs root, and room for the tree once more per program. ICDC names the program, SCRATCH a directory on the disk to measure, RTT the
# round-trip time (300ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
runs=${1:-5} directories=${2:-10000} files=${3:-100}
jobs=${JOBS:-many one part same few}
peers=${PEERS:-rsync rclone}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 300ms

start_icdc() { serve "$address"; }

start_rsync() { serve_rsync "$address"; }

start_rclone() {
    (cd "$scratch" && exec ip netns exec "icdc-$lab-b" rclone serve sftp --no-auth --addr "$address:2022" "$scratch/far" 2>"$scratch/rclone.log") &
    daemons="$daemons $!"
    listens "$address" 2022
}

# mirror PROGRAM SOURCE NAME: sets `command` to what makes NAME at the far host the mirror of the source.
mirror() {
    case $1 in
    icdc) command=("$icdc" sync --delete "$2/" "icdc://$address/$3/") ;;
    rsync) command=(rsync -a --delete "$2/" "rsync://$address/far/$3/") ;;
    rclone) command=(rclone sync --transfers 64 --checkers 64 "$2" ":sftp,host=$address,port=2022,user=x,pass=$(rclone obscure x),disable_hashcheck=true:$3") ;;
    esac
}

# crossed: bytes that have crossed the path, both directions.
crossed() {
    # shellcheck disable=SC2016
    near awk '/eth0:/ { sub(/.*:/, ""); print $1 + $9 }' /proc/net/dev
}

# held PID: the most MiB that the process and those it started have held, each by itself.
held() {
    awk '/^VmHWM/ { printf "%d", $2 / 1024 + 0.5 }' "/proc/$1/status" 2>/dev/null
}

# Nothing is left to write, and nothing is cached.
settle() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
}

# timed JOB RUN PROGRAM SOURCE NAME: mirrors and prints the line of it. At the far end counts what the daemons started; rclone's server is
# one process, which counts itself.
timed() {
    local bytes begin near_most=0 far_most=0 now command
    mirror "$3" "$4" "$5"
    settle
    bytes=$(crossed)
    begin=$(date +%s.%N)
    ip netns exec "icdc-$lab-a" "${command[@]}" >"$scratch/said" 2>&1 &
    local running=$!
    while kill -0 "$running" 2>/dev/null; do
        now=$(held "$running")
        [ "${now:-0}" -le "$near_most" ] || near_most=$now
        for now in $(ip netns pids "icdc-$lab-b"); do
            [ "$3" = rclone ] || case " $daemons " in *" $now "*) continue ;; esac
            case $(cat "/proc/$now/comm" 2>/dev/null) in "$3" | exe) ;; *) continue ;; esac
            now=$(held "$now")
            [ "${now:-0}" -le "$far_most" ] || far_most=$now
        done
        sleep 0.2
    done
    wait "$running" || {
        cat "$scratch/said" >&2
        exit 1
    }
    echo "$1,$2,$3,$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.2f", $1 - $2 }'),$(echo "$(crossed) $bytes" | awk '{ printf "%.2f", ($1 - $2) / 1e6 }'),$near_most,$far_most"
}

# found RUN PLACE: the time of `find -printf` in it.
found() {
    local begin
    settle
    begin=$(date +%s.%N)
    find "$scratch/$2" -printf '%P %s %T@\n' >/dev/null
    echo "find,$1,$2,$(echo "$(date +%s.%N) $begin" | awk '{ printf "%.2f", $1 - $2 }'),,,"
}

# each JOB RUN SOURCE: all programs, one after the other.
each() {
    local program
    for program in icdc $peers; do
        timed "$1" "$2" "$program" "$3" "$(basename "$3")-$program"
    done
}

# tree PLACE DIRECTORIES FILES LINES: a tree of small files.
tree() {
    python3 - "$@" <<'MAKE' || exit 1
import os, sys
root, directories, files, lines = sys.argv[1], *map(int, sys.argv[2:])
for directory in range(directories):
    path = f"{root}/{directory // 100}/{directory}"
    os.makedirs(path)
    for number in range(files):
        with open(f"{path}/{number}.nc", "w") as file:
            file.write(f"{directory} {number} 0\n" * lines)
MAKE
}

# change RUN: 1 % of the files of the tree are changed, 1 % renamed, 1 % deleted; others than before.
change() {
    python3 - "$scratch/tree" "$directories" "$files" "$1" <<'CHANGE' || exit 1
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
}

# large: a file of 1 GB.
large() {
    [ -e "$scratch/one" ] || { mkdir "$scratch/one" && head -c 1000000000 /dev/urandom >"$scratch/one/large"; } || exit 1
}

# change_pages RUN: 16 bytes of 1 % of the large file's pages are changed, by a seed.
change_pages() {
    python3 - "$scratch/one/large" "$1" <<'CHANGE' || exit 1
import os, random, sys
path, run = sys.argv[1], int(sys.argv[2])
chosen, pages = random.Random(run), os.path.getsize(path) // 65536
with open(path, "r+b") as file:
    for page in chosen.sample(range(pages), pages // 100):
        file.seek(page * 65536 + chosen.randrange(65536 - 16))
        file.write(chosen.randbytes(16))
print(f"run {run}: {pages // 100} of {pages} pages changed", file=sys.stderr)
CHANGE
}

for program in icdc $peers; do "start_$program"; done
case $jobs in
*same* | *few*)
    tree "$scratch/tree" "$directories" "$files" 10
    for program in icdc $peers; do cp -a "$scratch/tree" "$scratch/far/tree-$program" || exit 1; done
    ;;
esac
echo 'job,run,program,seconds,MB sent,MiB near,MiB far'
for job in $jobs; do
    for run in $(seq "$runs"); do
        case $job in
        many)
            [ -e "$scratch/many" ] || tree "$scratch/many" 50 100 1200
            rm -rf "$scratch"/far/many-*
            each many "$run" "$scratch/many"
            ;;
        one)
            large
            rm -rf "$scratch"/far/one-*
            each one "$run" "$scratch/one"
            ;;
        part)
            large
            for program in icdc $peers; do
                [ -e "$scratch/far/one-$program" ] || cp -a "$scratch/one" "$scratch/far/one-$program" || exit 1
            done
            change_pages "$run"
            each part "$run" "$scratch/one"
            ;;
        same)
            found "$run" tree
            found "$run" far/tree-icdc
            each same "$run" "$scratch/tree"
            ;;
        few)
            change "$run"
            each few "$run" "$scratch/tree"
            ;;
        *)
            echo "there is no job '$job': many, one, part, same or few" >&2
            exit 2
            ;;
        esac
    done
done
