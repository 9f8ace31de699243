#!/bin/bash
# What following a tree costs while nothing happens in it, and how soon small files that appear in it are at the other end of an emulated path:
# `icdc copy --follow` beside lsyncd, and beside rsync and rclone in a loop, each with a daemon of its own kind (rclone's SFTP server) and a copy of
# the tree of its own. Writes a line for each program and time:
#
#   program,what,seconds,files,lag median s,lag 99 % s,lag most s,processor % near,MiB near,MiB far
#
#   start   from the start of the program on the tree, which is equal at both ends, until it has come to rest: a first file has arrived, and a tenth
#           of a processor suffices for 5 s; 60 s after that file at most
#   rest    QUIET seconds in which nothing happens
#   appear  files of 100 bytes appear for SECONDS, RATE of them per second, each in a random directory; a loop begins anew at once
#   burst   BURST files appear as fast as they can be made
#
#   [PEERS='lsyncd rsync rclone'] [QUIET=60] bench/following.sh [DIRECTORIES [FILES [RATE [SECONDS [BURST]]]]]   (10,000 directories of 100 files, 278/s for 300 s, 100,000)
#
# The lag of a file is from its making, which it contains, to the change time that it has at the destination, both by the clock of this host.
# The processor's time is that of all that the program has started at the near end; MiB is the most memory that each end held.
# Needs root. ICDC names the program, SCRATCH a directory on the disk to measure, RTT the round-trip time (300ms), RATE the bottleneck (1gbit).
set -u
cd "$(dirname "$0")/.." || exit 1
directories=${1:-10000} files=${2:-100} per_second=${3:-278} seconds=${4:-300} burst=${5:-100000} quiet=${QUIET:-60}
peers=${PEERS-lsyncd rsync rclone}
# shellcheck source=bench/emulated.sh
. bench/emulated.sh 1gbit 300ms
follower=''

tree() {
    local directory
    mkdir "$scratch/near"
    for (( directory = 0; directory < directories; directory++ )); do mkdir "$scratch/near/$directory"; done
    for (( directory = 0; directory < directories; directory++ )); do
        (cd "$scratch/near/$directory" && for (( file = 0; file < files; file++ )); do echo "$directory $file" >"old-$file"; done)
    done
}

start_icdc() {
    serve "$address"
    server=${daemons##* }
}

start_rsync() {
    serve_rsync "$address"
    server=${daemons##* }
}

start_lsyncd() { start_rsync; }

start_rclone() {
    (cd "$scratch" && exec ip netns exec "icdc-$lab-b" rclone serve sftp --no-auth --addr "$address:2022" "$scratch/far" 2>"$scratch/rclone.log") &
    daemons="$daemons $!"
    server=$!
    listens "$address" 2022
}

# Each of these becomes what follows the tree.
follow_icdc() { exec ip netns exec "icdc-$lab-a" "$icdc" copy --follow --json "$scratch/near/" "icdc://$address/copy/" >"$scratch/events"; }

follow_rsync() {
    # shellcheck disable=SC2016
    exec ip netns exec "icdc-$lab-a" bash -c 'while :; do rsync -a "$1" "$2" || exit; done' - "$scratch/near/" "rsync://$address/far/copy/"
}

# 64 transfers and checkers at once: the defaults, 4 and 8, are for shorter paths.
follow_rclone() {
    local to
    to=":sftp,host=$address,port=2022,user=x,pass=$(rclone obscure x),disable_hashcheck=true:copy"
    # shellcheck disable=SC2016
    exec ip netns exec "icdc-$lab-a" bash -c 'while :; do rclone copy --transfers 64 --checkers 64 "$1" "$2" 2>/dev/null || sleep 1; done' - \
        "$scratch/near" "$to"
}

follow_lsyncd() {
    cat >"$scratch/lsyncd.lua" <<END
settings { nodaemon = true, inotifyMode = "CloseWrite or Modify" }
sync { default.rsync, source = "$scratch/near/", target = "rsync://$address/far/copy/", delay = 1, rsync = { archive = true } }
END
    exec ip netns exec "icdc-$lab-a" lsyncd "$scratch/lsyncd.lua" >"$scratch/lsyncd.log" 2>&1
}

# of PID: the process and those that it has started, and they.
of() {
    local children child
    echo "$1"
    read -ra children < <(cat "/proc/$1/task/"*/children 2>/dev/null | tr '\n' ' ')
    for child in "${children[@]}"; do of "$child"; done
}

# spent PID: milliseconds of processor time of the process, and of those that it has started and waited for.
spent() {
    local pid total=0 own
    for pid in $(of "$1"); do
        own=$(awk '{ sub(/.*\) /, ""); print ($12 + $13 + $14 + $15) * 10 }' "/proc/$pid/stat" 2>/dev/null) && total=$((total + ${own:-0}))
    done
    echo "$total"
}

# held PID: the most MiB that one of the process and those it has started has held.
held() {
    local pid
    for pid in $(of "$1"); do awk '/^VmHWM/ { printf "%d\n", $2 / 1024 + 0.5 }' "/proc/$pid/status" 2>/dev/null; done | sort -n | tail -n 1
}

# make NAME COUNT: that many files appear at once.
make() {
    local file
    for (( file = 0; file < $2; file++ )); do
        printf '%-99s\n' "$EPOCHREALTIME" >"$scratch/near/$((SRANDOM % directories))/$1-$file"
    done
}

# arrived NAME: number of the files of that name at the destination.
arrived() { find "$scratch/far/copy" -name "$1-*" | wc -l; }

# await NAME COUNT: waits until all have arrived.
await() {
    local waited
    for (( waited = 0; waited < 1200; waited += 2 )); do
        [ "$(arrived "$1")" -ge "$2" ] && return
        sleep 2
    done
    echo "$program: of $2 files $1 have arrived $(arrived "$1")" >&2
}

# come_to_rest: waits until the program needs little of the processor, for a minute at most.
come_to_rest() {
    local waited before
    for (( waited = 0; waited < 60; waited += 5 )); do
        before=$(spent "$follower")
        sleep 5
        [ $(($(spent "$follower") - before)) -gt 500 ] || return
    done
}

# lags NAME: median, 99th percentile and most of the lags.
lags() {
    find "$scratch/far/copy" -name "$1-*" -printf '%C@ %p\n' | awk '{ getline made <$2; close($2); print $1 - made }' | sort -n | awk '{ lag[NR] = $1 } END { printf "%.2f,%.2f,%.2f", lag[int((NR + 1) / 2)], lag[int(NR * 0.99 + 0.5)], lag[NR] }'
}

# line WHAT FILES LAGS BEGIN SPENT: a line of the result.
line() {
    local now=${EPOCHREALTIME/./} after
    after=$(spent "$follower")
    awk -v program="$program" -v what="$1" -v files="$2" -v lags="$3" -v took=$(((now - $4) / 1000)) -v spent=$((after - $5)) \
        -v near="$(held "$follower")" -v far="$(held "$server")" \
        'BEGIN { printf "%s,%s,%.1f,%s,%s,%.1f,%s,%s\n", program, what, took / 1000, files, lags, spent / took * 100, near, far }'
}

tree
echo 'program,what,seconds,files,lag median s,lag 99 % s,lag most s,processor % near,MiB near,MiB far'
for program in icdc $peers; do
    cp -a "$scratch/near" "$scratch/far/copy"
    sync
    "start_$program"
    begin=${EPOCHREALTIME/./}
    "follow_$program" &
    follower=$!
    daemons="$daemons $follower"
    # A first file tells that the whole tree is followed.
    make "first-$program" 1
    await "first-$program" 1
    come_to_rest
    line start '' ,, "$begin" 0
    begin=${EPOCHREALTIME/./} before=$(spent "$follower")
    sleep "$quiet"
    line rest '' ,, "$begin" "$before"
    begin=${EPOCHREALTIME/./} before=$(spent "$follower")
    for (( tenth = 0; tenth < seconds * 10; tenth++ )); do
        make "appear-$program-$tenth" $((per_second * (tenth + 1) / 10 - per_second * tenth / 10))
        now=${EPOCHREALTIME/./}
        next=$((begin + (tenth + 1) * 100000 - now))
        [ "$next" -le 0 ] || sleep "$((next / 1000000)).$(printf %06d $((next % 1000000)))"
    done
    await "appear-$program" $((per_second * seconds))
    line appear $((per_second * seconds)) "$(lags "appear-$program")" "$begin" "$before"
    begin=${EPOCHREALTIME/./} before=$(spent "$follower")
    make "burst-$program" "$burst"
    await "burst-$program" "$burst"
    line burst "$burst" "$(lags "burst-$program")" "$begin" "$before"
    for pid in $(of "$follower"); do kill "$pid" 2>/dev/null; done
    wait "$follower"
    kill "$server" 2>/dev/null
    rm -rf "$scratch/far/copy"
    find "$scratch/near" \( -name 'first-*' -o -name 'appear-*' -o -name 'burst-*' \) -delete
done
