#!/bin/sh
# Fuzzes by coverage, with the stable toolchain: libFuzzer looks for inputs that reach code which no earlier one has reached.
#
#   [SEEDS=yes] scripts/fuzz.sh [TARGET|all] [SECONDS]      (default: all targets, 60 seconds each)
#
# Begins with fuzz/seeds/TARGET and what earlier runs have found, and leaves in fuzz/corpus/TARGET the smallest set of inputs that reaches
# the same code. SEEDS=yes also puts the shortest of these among the seeds, up to 48 files of at most 512 bytes: ./test.sh runs each
# seed once. An input that fails is kept in fuzz/artifacts/TARGET. Prints for each target how many inputs ran, and how many branches and
# values of counters they reached. Needs a C++ compiler (scripts/setup.sh).
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh

most_seeds=48
longest_seed=512
target=${CARGO_TARGET_DIR:-$setup_top/target}
case $target in /*) ;; *) target=$setup_top/$target ;; esac

main() {
    wanted=${1:-all}
    seconds=${2:-60}
    case $seconds in '' | *[!0-9]*)
        echo "fuzz: $seconds is no number of seconds" >&2
        return 2
        ;;
    esac
    targets=$(for source in fuzz/fuzz_targets/*.rs; do basename "$source" .rs; done)
    [ "$wanted" = all ] || {
        echo "$targets" | grep -qxF -e "$wanted" || {
            echo "fuzz: there is no target '$wanted':" $targets >&2
            return 2
        }
        targets=$wanted
    }
    setup build || return 1
    build || return 1
    failed=''
    for name in $targets; do
        fuzz "$name" || failed="$failed $name"
    done
    [ -z "$failed" ] || {
        echo "fuzz: failed:$failed" >&2
        return 1
    }
}

# The counters that libFuzzer reads are a pass of LLVM, which stable compilers have as well. Only what is fuzzed gets them, not what
# runs in the compiler: hence the target's name.
build() {
    triple=$(rustc -vV | sed -n 's/^host: //p')
    counters='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters'
    counters="$counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
    set --
    [ "$wanted" = all ] || set -- --bin "$wanted"
    RUSTFLAGS="--cfg fuzzing $counters -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks" \
        cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml --target "$triple" --target-dir "$target/fuzz-coverage" "$@"
}

# fuzz TARGET
fuzz() {
    program=$target/fuzz-coverage/$triple/release/$1
    corpus=fuzz/corpus/$1
    log=$target/fuzz-coverage/$1.log
    mkdir -p "$corpus" "fuzz/artifacts/$1" "fuzz/seeds/$1" || return 1
    nice -n 19 "$program" "$corpus" "fuzz/seeds/$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$1/" >"$log" 2>&1 || {
        tail -n 40 "$log"
        echo "fuzz: $1 fails; the input is in fuzz/artifacts/$1"
        return 1
    }
    smallest=$(mktemp -d "fuzz/corpus/.$1.XXXXXX") || return 1
    nice -n 19 "$program" -set_cover_merge=1 -rss_limit_mb=2048 "$smallest" "fuzz/seeds/$1" "$corpus" >"$log.merge" 2>&1 || {
        tail -n 20 "$log.merge"
        rm -rf "$smallest"
        return 1
    }
    rm -rf "$corpus" && mv "$smallest" "$corpus" && chmod 755 "$corpus" || return 1
    [ "${SEEDS:-}" != yes ] || keep_seeds "$1" || return 1
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    reached=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 branches, \2 counts/p' "$log" | tail -n 1)
    echo "$1: $executions inputs in $seconds s; $reached; $(find "$corpus" -type f | wc -l) inputs are enough for that"
}

# The shortest inputs of the smallest set take the places that are free among the seeds. Those of frames are one for each message, by
# their names.
keep_seeds() {
    [ "$1" != frame ] || return 0
    free=$((most_seeds - $(find "fuzz/seeds/$1" -type f | wc -l)))
    find "fuzz/corpus/$1" -type f -size -"$longest_seed"c -printf '%s %p\n' | sort -n | while read -r _ file; do
        [ "$free" -gt 0 ] || break
        find "fuzz/seeds/$1" -type f -exec cmp -s {} "$file" ';' -print -quit | grep -q . && continue
        cp "$file" "fuzz/seeds/$1/" || return 1
        free=$((free - 1))
    done
}

main "$@"
