#!/bin/sh
# Builds icdc, makes a lab (two hosts on this machine with an emulated path of 1 Gbit/s and 300 ms between them), copies a generated data
# set of more than 1 GiB across it, checks every byte, name and attribute of what arrived, and gives the largest file alone to scp
# for a minute. Leaves nothing behind but the build and two reports.
#
# Who is not root gets the same in a user namespace, between hosts whose kernel settings nobody has changed, and with one plain TCP
# connection in the place of scp, whose server would need root. Where user namespaces are refused, sudo makes the lab; where there is no
# sudo either, the data goes over loopback.
#
#   ./demo.sh          SCRATCH=DIR puts the data elsewhere than /var/tmp (it needs 4 GiB)
#   ./demo.sh relay    hosts with buffers of 64 KB over such a path: past two relays, by them, and the tuned connection between those alone;
#                      leaves the build and a report
#   ./demo.sh cluster  the data set copied in shards by a Slurm of four nodes that is started here for that; needs root or sudo
set -u
setup_top=$(cd "$(dirname "$0")" && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh
. scripts/sshd.sh

# What is shown does not depend on anybody's settings.
export ICDC_CONFIG=none

copy_seconds=900 # a copy that takes longer has hung
scp_seconds=60   # scp would take minutes
relay_seconds=900
cluster_seconds=600
rate=1gbit round_trip=300ms
address_b=10.26.33.2
scratch_needed=$((4 * 1024 * 1024)) # KiB
child=''

main() {
    case ${1:-} in
    --as-root | --as-user | --on-loopback) demonstrate "$1" "$2" "$3"; return ;;
    --relays-as-root) demonstrate_relays "$2" "$3"; return ;;
    --cluster-as-root) demonstrate_cluster "$2"; return ;;
    --generate) generate "$2"; return ;;
    --compare) compare "$2"; return ;;
    '' | relay) ;;
    cluster) setup cluster || return 1 ;;
    *)
        echo "demo: there is no demo '$1': run ./demo.sh, ./demo.sh relay or ./demo.sh cluster" >&2
        return 2
        ;;
    esac
    setup build demo || return 1
    target=${CARGO_TARGET_DIR:-$setup_top/target}
    echo 'demo: building (the first time, this takes some minutes)'
    build_began=$(date +%s)
    cargo build --release --locked --package icdc || return 1
    build_took=$(($(date +%s) - build_began))
    echo "demo: built in $((build_took / 60)) min $((build_took % 60)) s"
    mkdir -p "$target/demo" || return 1
    if [ -n "${1:-}" ]; then
        case $1 in
        relay) as_root --relays-as-root ;;
        cluster) as_root --cluster-as-root ;;
        esac && return
        status=$?
        [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1 ||
            echo "demo: this needs root: run ./demo.sh $1 as root or install sudo" >&2
        return "$status"
    elif [ "$(id -u)" = 0 ]; then
        as_root --as-root
    elif unshare --user --map-root-user --net true 2>/dev/null; then
        as_user --as-user
    elif setup_root true 2>/dev/null; then
        echo 'demo: this system lets only root make network namespaces: by sudo'
        as_root --as-root
    else
        as_user --on-loopback
    fi
}

as_root() { setup_root env "SCRATCH=${SCRATCH:-}" sh "$setup_top/demo.sh" "$1" "$target/release/icdc" "$target/demo"; }

as_user() { sh "$setup_top/demo.sh" "$1" "$target/release/icdc" "$target/demo"; }

# Sets $scratch, which is gone at the end.
take_scratch() {
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-demo.XXXXXX") || return 1
    scratch_free=$(df -Pk "$scratch" | awk 'NR == 2 { print $4 }')
    if [ "$scratch_free" -lt "$scratch_needed" ]; then
        echo "demo: $scratch has $((scratch_free / 1024)) MiB free, $((scratch_needed / 1024)) MiB are needed; set SCRATCH=DIR" >&2
        return 1
    fi
}

demonstrate() {
    kind=$1
    icdc=$2
    lab=demo-$$
    report=$3/report-$(date +%Y%m%d-%H%M%S)-$$.html
    path_report=$3/path-$(date +%Y%m%d-%H%M%S)-$$.html
    take_scratch || return 1
    prepare_hosts || return 1
    mkdir "$scratch/a" "$scratch/b" || return 1
    await sh "$setup_top/demo.sh" --generate "$scratch/a/data" || return 1
    show_data
    copy || return 1
    await sh "$setup_top/demo.sh" --compare "$scratch" || return 1
    show_result
    case $kind in
    --as-root) compare_with_scp ;;
    --as-user) compare_with_one_connection ;;
    esac
    echo 'demo: in short:'
    sed 's/^/demo:   /' "$scratch/figures"
}

# Sets $path, which the data takes, and $shell, which starts programs at its far end.
prepare_hosts() {
    case $kind in
    --as-root) path="$rate, $round_trip" ;;
    --as-user)
        path="$rate, $round_trip, as an ordinary user, with the kernel settings of this system"
        set -- --untuned
        ;;
    --on-loopback)
        echo 'demo: this system lets only root make network namespaces, and there is no sudo: no emulated path, the data goes over loopback'
        path=loopback address_b=127.0.0.1
        # shellcheck disable=SC2016 # for the shell that is started
        shell='sh -c '\''shift; exec sh -c "$*"'\'' sh'
        return
        ;;
    esac
    "$icdc" lab up --name "$lab" --rate "$rate" --rtt "$round_trip" "$@" || {
        echo 'demo: cannot make network namespaces: it needs CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: --privileged)' >&2
        return 1
    }
    has_lab=yes
    shell="'$icdc' lab exec --name $lab --shell"
}

# Runs a program on host a.
on_a() {
    if [ "$kind" = --on-loopback ]; then
        await "$@"
    else
        await "$icdc" lab exec --name "$lab" a -- "$@"
    fi
}

# The lab, the plain hosts and the relays belong to the scenario and go with it, however it ends.
demonstrate_relays() {
    icdc=$1
    lab=none
    report=$2/relay-$(date +%Y%m%d-%H%M%S)-$$.html
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "$2/relay.XXXXXX") || return 1
    echo "demo: $rate, $round_trip: plain hosts with buffers of 64 KB, past two relays and by them (a minute or two)"
    await timeout -k 10 "$relay_seconds" "$icdc" lab run --quick --out "$scratch" proxy-lfn >"$scratch/told"
    relay_status=$?
    # But for the place of the report, which moves.
    grep -vF "$scratch" "$scratch/told"
    [ -e "$scratch/report.html" ] || return "$relay_status"
    mv "$scratch/report.html" "$report"
    [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$report"
    echo "demo: report: $report"
    [ "$relay_status" = 0 ] || echo 'demo: something else kept this machine busy meanwhile; figures marked as invalid do not count' >&2
    return "$relay_status"
}

# Eight shards on four nodes, then a single copy, whose digest is the same.
demonstrate_cluster() {
    icdc=$1
    lab=none
    slurm=$setup_top/scripts/slurm.sh
    take_scratch || return 1
    mkdir "$scratch/a" "$scratch/b" "$scratch/one" || return 1
    await sh "$setup_top/demo.sh" --generate "$scratch/a/data" || return 1
    show_data
    echo 'demo: a Slurm of four nodes on this host'
    has_cluster=yes
    "$slurm" up "$scratch/slurm" 4 || return 1
    echo 'demo: icdc slurm submit --nodes 4 --shards 8 data b/'
    "$slurm" run "$scratch/slurm" "$icdc" slurm submit --nodes 4 --shards 8 --out "$scratch/plan" "$scratch/a/data" "$scratch/b" || return 1
    for _ in $(seq "$cluster_seconds"); do
        [ -n "$("$slurm" run "$scratch/slurm" squeue --noheader)" ] || break
        sleep 1
    done
    "$icdc" plan status "$scratch/plan"
    joined=$(sed -n 's/^tree digest //p' "$scratch/plan/slurm/join.log")
    if [ -z "$joined" ]; then
        cat "$scratch/plan/slurm/join.log" >&2
        return 1
    fi
    "$icdc" copy --json "$scratch/a/data" "$scratch/one/" >"$scratch/events.json" || return 1
    await sh "$setup_top/demo.sh" --compare "$scratch" || return 1
    single=$(event_field "$(grep '"type":"summary"' "$scratch/events.json")" tree_digest)
    if [ "$joined" != "$single" ]; then
        echo "demo: the digest of the shards together, $joined, is not that of a single copy, $single" >&2
        return 1
    fi
    echo "demo: eight shards together have the digest of a single copy: $joined"
}

# Runs a step in a process group of its own and waits: a signal is heard at once, and the whole group can be ended.
await() {
    setsid "$@" &
    child=$!
    wait "$child"
    step_status=$?
    child=''
    return "$step_status"
}

clean_up() {
    status=$?
    trap '' HUP INT TERM
    [ -z "$child" ] || kill -s TERM -- "-$child" 2>/dev/null
    [ -z "${has_lab:-}" ] || "$icdc" lab down --name "$lab"
    [ -z "${has_cluster:-}" ] || "$slurm" down "$scratch/slurm"
    sshd_forget
    [ -z "$child" ] || wait "$child" 2>/dev/null
    [ -z "${scratch:-}" ] || rm -rf "$scratch"
    exit "$status"
}

generate() {
    mkdir -p "$1/large" "$1/small/empty" "$1/odd" "$1/links" && cd "$1" || return 1
    echo 'demo: generating data'
    random 734003200 >large/largest.bin
    random 367001613 >large/odd-length.bin

    # A sparse file: 2 GiB, data in three places.
    truncate -s 2147483648 large/sparse.img
    for mebibyte in 0 777 2040; do
        random 1500000 | dd of=large/sparse.img bs=1M seek="$mebibyte" conv=notrunc status=none
    done

    # Thousands of small files, down to one byte, a few levels deep.
    for size in 1 100 4096 30000; do
        for branch in 1 2 3; do
            mkdir -p "small/of-$size/$branch/deeper"
            random $((size * 300)) | split -b "$size" -a 3 - "small/of-$size/$branch/deeper/file."
        done
    done
    : >small/nothing

    # Names are bytes.
    cd odd || return 1
    newline=$(printf 'new\nline')
    # shellcheck disable=SC2016 # a name, not a command
    for name in "$newline" "$(printf 'latin1-\344\366\374-\377\376')" ' blank ' '-rf' '*' 'quote"and'"'"'quote' 'back\slash' '$(reboot)' \
        '…öñ' "$(printf 'tab\tbell\a')" "$(printf '%0255d' 0)" '.hidden' 'host:colon'; do
        echo "$name" >"./$name" || return 1
    done
    cd ..

    ln -s ../large/largest.bin links/to-a-file
    ln -s ../small links/to-a-directory
    ln -s /nowhere/at/all links/to-nothing
    ln large/odd-length.bin links/hard
    ln small/nothing links/hard-nothing

    chmod 0400 small/of-1/1/deeper/file.aaa
    chmod 0751 small/of-1/1/deeper/file.aab
    chmod 0700 small/of-100
    touch -d '2001-02-03 04:05:06.123456789' small/of-1/1/deeper/file.aac
    touch -d '2059-02-03 04:05:06.000000001' odd/-rf
    touch -h -d '2011-01-01 00:00:00.5' links/to-nothing
    touch -d '1999-12-31 23:59:59.999999999' small/empty
    sync -f .
}

random() { head -c "$1" /dev/urandom; }

show_data() {
    files=$(find "$scratch/a/data" -type f -printf x | wc -c)
    allocated=$(du -sm "$scratch/a/data" | cut -f 1)
    echo "demo: $files files, $allocated MiB of data: large, small, sparse, odd names, symbolic and hard links"
}

copy() {
    echo "demo: icdc copy data $address_b:… over $path, the rate found by itself"
    on_a timeout -k 10 "$copy_seconds" env "XDG_STATE_HOME=$scratch/state" "$icdc" copy \
        --ssh "$shell" --remote-icdc "$icdc" \
        --json --report "$report" "$scratch/a/data" "$address_b:$scratch/b/data" >"$scratch/events.json"
    copy_status=$?
    [ "$copy_status" = 0 ] || echo "demo: icdc copy ended with $copy_status" >&2
    if [ "$kind" != --on-loopback ]; then
        "$icdc" lab report --name "$lab" "$path_report"
        "$icdc" lab report --name "$lab" "$scratch/path.csv"
    fi
    [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$report" "$path_report"
    return "$copy_status"
}

# Bytes by diff, everything else by a sorted list of type, mode, size, time, link count, link target and name.
compare() {
    scratch=$1
    echo 'demo: comparing'
    diff -r --no-dereference "$scratch/a/data" "$scratch/b/data" || return 1
    for side in a b; do
        (cd "$scratch/$side/data" && find . \( -type d -printf '%y %m - %T@ - %P\0' -o -printf '%y %m %s %T@ %n %l %P\0' \)) |
            LC_ALL=C sort -z >"$scratch/list-$side"
    done
    if ! cmp "$scratch/list-a" "$scratch/list-b"; then
        echo 'demo: names or attributes differ' >&2
        return 1
    fi
    cd "$scratch/b/data" || return 1
    if [ "$(stat -c %i links/hard links/hard-nothing)" != "$(stat -c %i large/odd-length.bin small/nothing)" ]; then
        echo 'demo: hard links were not kept' >&2
        return 1
    fi
    if [ "$(stat -c %b large/sparse.img)" -gt 65536 ]; then
        echo 'demo: the sparse file lost its holes' >&2
        return 1
    fi
    icdc_digest=$(event_field "$(grep '"type":"item"' "$scratch/events.json" | grep -F 'large/largest.bin"')" digest)
    if ! command -v b3sum >/dev/null 2>&1; then
        echo 'demo: identical; b3sum is not here, so the digest was not compared'
    elif [ "$(b3sum --no-names large/largest.bin)" = "$icdc_digest" ]; then
        echo "demo: identical; b3sum agrees on largest.bin: $icdc_digest"
    else
        echo "demo: b3sum of largest.bin is not the digest that icdc reported (${icdc_digest:-none})" >&2
        return 1
    fi
}

show_result() {
    summary=$(grep '"type":"summary"' "$scratch/events.json")
    connections=$(grep -c '"type":"connected"' "$scratch/events.json")
    share=10
    [ "$kind" != --on-loopback ] || share=0
    echo "$(event_field "$summary" bytes_sent) $(event_field "$summary" seconds) $(event_field "$summary" goodput_bps)" |
        awk -v share="$share" -v connections="$connections" '{
            printf "icdc copy: %.2f GiB in %.1f s, connections: %d: %.0f Mbit/s", $1 / 2^30, $2, connections, $3 / 1e6
            if (share) printf ", %.0f %% of the bottleneck", $3 / 1e6 / share
            print ", start and end included; identical"
        }' >"$scratch/figures"
    [ "$kind" = --on-loopback ] || show_rate >>"$scratch/figures"
    sed 's/^/demo: /' "$scratch/figures"
    echo "demo: report of the copy: $report"
    [ "$kind" = --on-loopback ] || echo "demo: report of the path, in windows of 1 ms and 1000 ms: $path_report"
}

# What the path delivered, a millisecond at a time: how soon it carried 90 % of what it could, and what share of the
# bottleneck it carried from then until the data ended.
show_rate() {
    awk -F , -v trip="${round_trip%ms}" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "a_to_b_throughput_bps") column = i; next }
        $column > 0 { if (!begun && $column + last > 4e7) begun = NR; last = $column }
        { sum[NR] = sum[NR - 1] + $column }
        begun && !full && NR - begun > trip && sum[NR] - sum[NR - trip] >= 0.9 * 1e9 * trip { full = NR }
        full && NR - full >= 1000 && sum[NR] - sum[NR - 1000] >= 0.5 * 1e9 * 1000 { end = NR - 100 }
        END {
            if (!full || end <= full) { print "the copy ended before its rate was found"; exit }
            printf "90 %% of the bottleneck %.1f round trips after the first data; from then on %.1f %% of it\n",
                (full - begun) / trip, (sum[end] - sum[full]) / (end - full) / 1e7
        }' "$scratch/path.csv"
}

# The largest file alone by scp, for as long as patience lasts: each small one would cost it several round trips.
compare_with_scp() {
    if ! command -v scp >/dev/null 2>&1 || ! sshd_prepare "$scratch" "$address_b" 2222; then
        echo 'demo: scp or sshd is not installed, so there is no comparison'
        return
    fi
    mkdir "$scratch/c"
    "$icdc" lab exec --name "$lab" b -- "$sshd" -D -e -f "$sshd_config" 2>"$scratch/sshd.log" &
    echo "demo: the largest file alone by scp, for $scp_seconds s at most"
    scp_began=$(date +%s)
    await timeout "$scp_seconds" "$icdc" lab exec --name "$lab" a -- \
        scp -q -p -F "$ssh_config" "$scratch/a/data/large/largest.bin" "$address_b:$scratch/c/"
    case $? in
    0) scp_ended='done' ;;
    124) scp_ended='stopped' ;;
    *)
        echo 'demo: scp failed' >&2
        return
        ;;
    esac
    scp_took=$(($(date +%s) - scp_began))
    echo "$(du -sk "$scratch/c" | cut -f 1) $scp_took $scp_ended" | awk '{
        printf "scp: %.2f GiB in %d s (%s): %.0f Mbit/s\n", $1 / 2^20, $2, $3, $1 * 8192 / $2 / 1e6
    }' | tee -a "$scratch/figures" | sed 's/^/demo: /'
}

# The largest file alone over one TCP connection that the kernel steers, as most programs use.
compare_with_one_connection() {
    echo "demo: the largest file alone over one plain TCP connection (CUBIC), for $scp_seconds s at most"
    on_a timeout -s INT -k 10 "$scp_seconds" env "XDG_STATE_HOME=$scratch/other-state" "$icdc" copy \
        --ssh "$shell" --remote-icdc "$icdc" --via direct --streams 1 --cc cubic \
        --json "$scratch/a/data/large/largest.bin" "$address_b:$scratch/c" >"$scratch/plain.json" 2>"$scratch/plain.log"
    case $? in
    0) plain_ended='done' ;;
    4 | 124) plain_ended='stopped' ;;
    *)
        echo "demo: one plain connection failed: $(tail -n 1 "$scratch/plain.log")" >&2
        return
        ;;
    esac
    last=$(grep '"type":"progress"' "$scratch/plain.json" | tail -n 1)
    echo "$(event_field "$last" bytes_done) $(event_field "$last" seconds) $plain_ended" | awk '{
        printf "one plain connection: %.2f GiB in %.1f s (%s): %.0f Mbit/s\n", $1 / 2^30, $2, $3, $1 * 8 / $2 / 1e6
    }' | tee -a "$scratch/figures" | sed 's/^/demo: /'
}

# event_field LINE NAME: the value of one plain member of a JSON object on one line.
event_field() { printf '%s\n' "$1" | sed -n "s/.*\"$2\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p"; }

main "$@"
