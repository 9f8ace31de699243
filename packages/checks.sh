# Checks for the tests here. $tested names the test, $said is the file for a command's output, and $failed is set when a check fails.
# shellcheck shell=sh disable=SC2154,SC2034 # what the tests set and use

# check WHAT COMMAND...
check() {
    what=$1
    shift
    "$@" >"$said" 2>&1 && return
    echo "$tested: $what: failed: $*" && cat "$said"
    failed=yes
}

not() {
    ! "$@"
}

# soon COMMAND...: waits until it succeeds, for a minute at most.
soon() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || return 1
        sleep 0.1
    done
}
