#!/bin/sh
# Builds icdc, makes two network namespaces as two hosts, copies a generated data set of more than 1 GiB from one to the
# other and checks every byte, name and attribute of what arrived. Leaves nothing behind but the build and a report.
#
#   ./demo.sh          SCRATCH=DIR puts the data elsewhere than /var/tmp (it needs 4 GiB)
set -u
setup_top=$(cd "$(dirname "$0")" && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh
. scripts/hosts.sh

copy_seconds=900 # a copy that takes longer has hung
scratch_needed=$((4 * 1024 * 1024)) # KiB
child=''

main() {
    case ${1:-} in
    --as-root) demonstrate "$2" "$3"; return ;;
    --generate) generate "$2"; return ;;
    --compare) compare "$2"; return ;;
    esac
    setup build demo || return 1
    target=${CARGO_TARGET_DIR:-$setup_top/target}
    echo 'demo: building'
    cargo build --release --locked --package icdc || return 1
    mkdir -p "$target/demo" || return 1
    setup_root env "SCRATCH=${SCRATCH:-}" sh "$setup_top/demo.sh" --as-root "$target/release/icdc" "$target/demo" && return
    status=$?
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1 ||
        echo 'demo: network namespaces need root: run ./demo.sh as root or install sudo' >&2
    return "$status"
}

demonstrate() {
    icdc=$1
    report=$2/report-$(date +%Y%m%d-%H%M%S)-$$.html
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
    hosts_up "icdc-demo-$$" "$scratch" || {
        echo 'demo: cannot make network namespaces: it needs CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: --privileged)' >&2
        return 1
    }
    mkdir "$scratch/a" "$scratch/b" || return 1
    await sh "$setup_top/demo.sh" --generate "$scratch/a/data" || return 1
    show_data
    copy || return 1
    await sh "$setup_top/demo.sh" --compare "$scratch" || return 1
    show_result
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
    hosts_down
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
    echo "demo: icdc copy data $address_b:… ($host_a → $host_b)"
    await timeout -k 10 "$copy_seconds" nsenter --net="/run/netns/$host_a" "$icdc" copy --ssh "$remote_shell" --remote-icdc "$icdc" \
        --json --report "$report" "$scratch/a/data" "$address_b:$scratch/b/data" >"$scratch/events.json"
    copy_status=$?
    [ "$copy_status" = 0 ] || echo "demo: icdc copy ended with $copy_status" >&2
    [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$report"
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
    crossed=$(ip netns exec "$host_b" cat /sys/class/net/eth0/statistics/rx_bytes)
    echo "$(event_field "$summary" bytes_sent) $(event_field "$summary" seconds) $(event_field "$summary" goodput_bps) $crossed" |
        awk '{ printf "demo: %.2f GiB in %.1f s, %.2f Gbit/s; %.2f GiB crossed the link\n", $1 / 2^30, $2, $3 / 1e9, $4 / 2^30 }'
    echo "demo: report: $report"
}

# event_field LINE NAME: the value of one plain member of a JSON object on one line.
event_field() { printf '%s\n' "$1" | sed -n "s/.*\"$2\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p"; }

main "$@"
