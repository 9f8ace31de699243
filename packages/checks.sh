# For the tests here: what they check. $tested is what of, $said the file for what a command says, and $failed is set when one fails.
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
