#!/bin/sh
# Installs what is missing and runs everything that must hold: format, lints, documentation, tests, dependencies, fuzz seeds.
# Ends with what was skipped and why, and each test that failed with the line that runs it again; exit code 0 when nothing failed, or passed
# when it was run again alone.
#
#   ./test.sh [running|reading]
#
# As root also the tests that need network namespaces. `running` is every part that starts icdc or its scripts, and so depends on the
# machine; `reading` is what reads and compiles the sources.
set -u
setup_top=$(cd "$(dirname "$0")" && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh

skipped=''
failed=''
failed_tests=''
failed_beside=''
counted=''
took=''

main() {
    parts=${1:-'reading running'}
    case $parts in
    'reading running' | running) setup build test packages || exit 1 ;;
    reading) setup build reading || exit 1 ;;
    *)
        echo "test: there is no part '$parts': running or reading" >&2
        exit 2
        ;;
    esac
    reading step 'format' cargo fmt --all --check
    reading step 'lock files' lock_files
    reading step 'shell scripts' shell_scripts
    running step 'programs' scripts/programs.sh
    running step 'other package managers' scripts/setup-test.sh
    running step 'releases' releases
    reading step 'lints' cargo clippy --workspace --all-targets --locked -- -D warnings
    running step 'without experiments' without_experiments
    reading step 'documentation' env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked
    reading step 'book' book
    running step 'tests' tests
    running step 'random tester' random_tester
    running step 'packages' packages
    reading step 'dependencies' dependencies
    reading step 'fuzz seeds' fuzz_seeds
    summarize
}

# reading COMMAND... and running COMMAND...: if that part is asked for.
reading() {
    case $parts in *reading*) "$@" ;; esac
}

running() {
    case $parts in *running*) "$@" ;; esac
}

# step NAME COMMAND...: runs one part; a failure is remembered and the rest still runs.
step() {
    step_name=$1
    shift
    printf '\n== %s\n' "$step_name"
    began=$(date +%s)
    "$@" || failed="$failed $step_name;"
    took="$took $step_name $(($(date +%s) - began)) s;"
}

# skip WHAT WHY
skip() {
    echo "skipped: $1: $2"
    skipped="$skipped
  $1: $2"
}

# The fuzz targets are a workspace of their own, whose lock file falls behind when a crate of icdc's gets a dependency.
lock_files() {
    for manifest in Cargo.toml fuzz/Cargo.toml; do
        cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null || return 1
    done
}

shell_scripts() {
    if ! command -v shellcheck >/dev/null 2>&1; then
        skip 'shell scripts' 'shellcheck is not installed'
        return
    fi
    shellcheck -x -S warning ./*.sh .ci/run scripts/*.sh bench/*.sh bench/oracle/*.sh packages/*.sh packages/maintainer/*.sh packages/capabilities
}

# Signatures, provenance and known vulnerabilities of what is handed out; what it skips is read from its output.
releases() {
    releases_said=$(scripts/release-test.sh) || {
        echo "$releases_said"
        return 1
    }
    case $releases_said in
    'skipped: '*) skip 'releases' "${releases_said#skipped: releases: }" ;;
    *) echo "$releases_said" ;;
    esac
}

# Packages may leave the experiments out: the binary builds without them, without a warning, and says so. A program of tests is selected
# besides, so that all dependencies are built as for the tests, and once.
without_experiments() {
    without_said=$(cargo build --quiet --locked --workspace --bin icdc --test floors --no-default-features --features icdc/ebpf 2>&1) &&
        [ -z "$without_said" ] || {
        echo "$without_said"
        return 1
    }
    if without_said=$("${CARGO_TARGET_DIR:-target}/debug/icdc" lab run startup 2>&1); then
        echo 'icdc lab run succeeds without experiments'
        return 1
    fi
    case $without_said in
    *'this build of icdc has no experiments'*) ;;
    *)
        echo "icdc lab run says: $without_said"
        return 1
        ;;
    esac
}

book() {
    if ! command -v mdbook >/dev/null 2>&1; then
        echo 'installing mdbook (some minutes, once)'
        if ! cargo install mdbook --debug --locked --quiet --no-default-features --features search; then
            skip 'book' 'mdbook could not be installed (cargo install mdbook --locked)'
            return
        fi
    fi
    make --no-print-directory docs
}

# Programs of tests that wait for long paths and timers and need a processor when these are over. The others leave it to them (nice).
waiting_tests='rate lab service cluster measure'
# Programs beside the rest, so that three take turns at the processors: most tests wait for a process or a disk.
further_tests='faults trust hostile doctor finish following metrics pace shards'
# Programs that need what the kernel has once only, as the names of algorithms, which any copy by root may hold: they run afterwards.
lone_tests='cc'

# A test that cannot run here prints `skipped: WHY`; the output of tests that pass is read for that and not shown. After a program
# with failed tests cargo names the options that select it.
tests() {
    tests_found=$(mktemp -d) || return 1
    cargo test --workspace --locked --no-run || return 1
    # What runs beside this shell does not hear Ctrl-C.
    trap 'trap - TERM; kill 0; exit 130' INT
    # shellcheck disable=SC2046 # one word each
    {
        lane waiting 3 0 $(selected "$waiting_tests") &
        lane further 2 5 $(selected "$further_tests") &
        lane others 2 5 --lib --bins $(selected "$(other_tests)")
        wait
        lane lone 3 0 $(selected "$lone_tests") &
        lane documented 2 5 --doc
        wait
    }
    trap - INT
    cat "$tests_found"/*/skipped >"$tests_found/skipped" 2>/dev/null
    while read -r line; do
        skip "test ${line%%: *}" "${line#*: }"
    done <"$tests_found/skipped"
    counted=$(awk '{ good += $1; bad += $2 } END { printf "%d tests passed, %d failed", good, bad }' "$tests_found"/*/counted)
    failed_tests=$(cat "$tests_found"/*/failed 2>/dev/null | sed 's/^/  /')
    tests_status=$(cat "$tests_found"/*/status | sort -n | tail -n 1)
    [ "$tests_status" = 0 ] || ! pass_alone || tests_status=0
    rm -r "$tests_found"
    return "$tests_status"
}

# Runs the tests that have failed once more, one at a time and nothing beside them: what waits for timers and long paths may fail where the
# machine pauses or has other work. Those that pass are named in the summary. What crashes, or more than three tests, is not run again.
pass_alone() {
    for found in "$tests_found"/*/; do
        [ "$(cat "$found/status")" = 0 ] || [ -s "$found/failed" ] || return 1
    done
    cat "$tests_found"/*/failed >"$tests_found/failed" 2>/dev/null
    [ "$(wc -l <"$tests_found/failed")" -le 3 ] || return 1
    while read -r again; do
        case $again in *" -- --exact '"*) ;; *) return 1 ;; esac
        printf '\n== alone: %s\n' "$again"
        # The whole workspace has other features than one package of it, and would be built anew.
        eval "cargo test --workspace --locked ${again#cargo test -p * }" </dev/null || return 1
    done <"$tests_found/failed"
    failed_beside=$failed_tests
}

# Names of all programs of tests but those that have lanes of their own.
other_tests() {
    for program in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        program=${program%/main.rs}
        basename "$program" .rs
    done | sort -u | while read -r program; do
        case " $waiting_tests $further_tests $lone_tests " in *" $program "*) ;; *) echo "$program" ;; esac
    done
}

# Options of cargo that select these programs.
selected() {
    for program in $1; do echo "--test $program"; done
}

# lane NAME THREADS NICENESS OPTIONS...: runs the tests that cargo selects by these options, THREADS for each processor at once.
lane() {
    lane_found=$tests_found/$1
    lane_threads=${RUST_TEST_THREADS:-$(($(nproc) * $2))}
    lane_niceness=$3
    shift 3
    mkdir "$lane_found" || return 1
    # mawk reads a pipe by blocks unless it is told not to, and what hangs would not be seen.
    lane_awk='awk'
    case $(awk -W version 2>&1 </dev/null) in mawk*) lane_awk='awk -W interactive' ;; esac
    {
        RUST_TEST_THREADS=$lane_threads nice -n "$lane_niceness" \
            cargo test --workspace --locked --no-fail-fast "$@" -- --show-output
        echo $? >"$lane_found/status"
    } 2>&1 | $lane_awk -v found="$lane_found" '
        /^successes:$/ { passed = 1 }
        /^failures:$/ || /^test result:/ { passed = 0 }
        passed && /^---- .* stdout ----$/ { name = $2 }
        passed && /^(skipped|SKIPPED): / { sub(/^[^:]*: /, ""); print name ": " $0 >(found "/skipped") }
        !passed { print; fflush() }
        # The names stand in the second of two lists, after what the tests have printed. Who crashes has no list.
        /^ +(Running|Doc-tests) / { names = "" }
        /^failures:$/ { names = ""; listing = 1 }
        listing && /^    [^ ]/ { names = names substr($0, 5) "\n" }
        /^test result:/ { listing = 0; good += $4; bad += $6 }
        /^error: .*test failed, to rerun pass `/ {
            gsub(/^[^`]*`|`[^`]*$/, "")
            again = "cargo test " $0
            failures = split(names, failure, "\n") - 1
            if (failures < 1) print again >(found "/failed")
            for (i = 1; i <= failures; i++) print again " -- --exact \047" failure[i] "\047" >(found "/failed")
        }
        END { print good + 0, bad + 0 >(found "/counted") }'
}

# Copies that are killed, raced, starved and refused; more cycles by hand: python3 scripts/chaos PROGRAM --cycles 1000.
random_tester() {
    if ! command -v python3 >/dev/null 2>&1; then
        skip 'random tester' 'python3 is not installed'
        return
    fi
    command -v strace >/dev/null 2>&1 || skip 'errors of system calls in the random tester' 'strace is not installed'
    python3 scripts/chaos "${CARGO_TARGET_DIR:-target}/debug/icdc" --cycles 20 --seed 1 --keep-going
}

# deb, rpm and images of the program that the tests have built: what they hold and do does not depend on how fast it is.
packages() {
    for program in mmdebstrap unshare rpm lintian buildah; do
        if ! command -v "$program" >/dev/null 2>&1; then
            skip 'packages' "$program is not installed"
            return
        fi
    done
    if [ "$(id -u)" != 0 ]; then
        skip 'packages' 'a root directory of its own needs root'
        return
    fi
    if ! packages/build.sh --tools; then
        skip 'packages' 'nfpm cannot be had (packages/build.sh says how)'
        return
    fi
    packages/test.sh "${CARGO_TARGET_DIR:-target}/debug/icdc" || packages_failed=yes
    packages/test-image.sh "${CARGO_TARGET_DIR:-target}/debug/icdc" && [ -z "${packages_failed:-}" ]
}

dependencies() {
    if ! cargo deny --version >/dev/null 2>&1; then
        echo 'installing cargo-deny (some minutes, once)'
        if ! cargo install cargo-deny --debug --locked --quiet; then
            skip 'dependencies' 'cargo-deny could not be installed (cargo install cargo-deny --locked)'
            return
        fi
    fi
    cargo deny --locked check --hide-inclusion-graph bans licenses sources || return 1
    if cargo deny fetch db >/dev/null 2>&1; then
        cargo deny --locked check --disable-fetch advisories
    else
        skip 'advisories' 'the advisory database cannot be reached'
    fi
}

# Replays the committed inputs of every fuzz target. libFuzzer runs given files once each.
fuzz_seeds() {
    if ! command -v c++ >/dev/null 2>&1; then
        skip 'fuzz seeds' 'there is no C++ compiler for libFuzzer'
        return
    fi
    fuzz_target=${CARGO_TARGET_DIR:-$setup_top/target}/fuzz
    RUSTFLAGS='--cfg fuzzing' cargo build --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir "$fuzz_target" || return 1
    for source in fuzz/fuzz_targets/*.rs; do
        name=$(basename "$source" .rs)
        "$fuzz_target/debug/$name" fuzz/seeds/"$name"/* >"$fuzz_target/$name.log" 2>&1 || {
            tail -n 30 "$fuzz_target/$name.log"
            echo "fuzz target $name fails on a seed"
            return 1
        }
        echo "$name: $(find "fuzz/seeds/$name" -type f | wc -l) seeds"
    done
}

summarize() {
    printf '\n== summary\n'
    [ -z "$skipped" ] || echo "skipped:$skipped"
    [ -z "$counted" ] || echo "$counted"
    [ -z "$failed_beside" ] || printf 'failed beside others, and passed alone:\n%s\n' "$failed_beside"
    echo "took:${took%;}"
    if [ -n "$failed" ]; then
        [ -z "$failed_tests" ] || printf 'failed tests:\n%s\n' "$failed_tests"
        echo "failed:${failed%;}"
        exit 1
    fi
    echo 'all parts that ran passed'
}

main "$@"
