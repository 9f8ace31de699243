#!/bin/sh
# Checks that every program which the tests, the scripts and the binary start comes from a package that scripts/setup.sh names,
# or from one that every Debian has. A program that is only here because somebody installed it hides a missing step.
#
#   scripts/programs.sh
#
# Reads the sources: where Rust starts a program by a literal name, and the words of the scripts that stand where a command does.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$setup_top" || exit 1
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

main() {
    command -v dpkg-query >/dev/null 2>&1 || {
        echo 'skipped: programs: packages are known by dpkg only'
        return 0
    }
    named=$(sed -n "s/^[a-z]* *[^ ]*  *\([^ ]*\)  *\(needed\|optional\)$/\1/p" scripts/setup.sh | sort -u)
    listed=$(sed -n "s/^[a-z]* *\([^ ]*\)  *[^ ]*  *\(needed\|optional\)$/\1/p" scripts/setup.sh | sort -u)
    unknown=''
    for program in $({ started_by_rust; started_by_scripts; } | sort -u); do
        known "$program" || unknown="$unknown
  $program: $(where_from "$program")"
    done
    [ -z "$unknown" ] || {
        echo "These programs are started, and no line of scripts/setup.sh brings them:$unknown"
        return 1
    }
    echo "all programs that are started come from packages that scripts/setup.sh names"
}

# A literal name handed to what starts programs: Command::new("ip"), has_program("ss"), lab.run("a", &["ping", …]).
started_by_rust() {
    grep -rhoE '(Command::new|has_program|run|program|command)\("[a-z][a-z0-9.+-]*"|(exec|run|on|inside|succeed|host)\([^["|.]*("[ab]", )?&?\["[a-z][a-z0-9.+-]*"' \
        --include='*.rs' crates | sed 's/.*"\(.*\)"/\1/' | sort -u | while read -r name; do
        [ -z "$(path_of "$name")" ] || echo "$name"
    done
}

# Of the scripts, less comments and what is quoted, the words at the start of a line or after what a command follows.
started_by_scripts() {
    # shellcheck disable=SC2046 # names without blanks
    sed -e 's/^[[:space:]]*#.*//' -e "s/'[^']*'//g" $(scripts) |
        grep -oE '(^|[|&;!]|\$\(|\b(then|do|else|if|while|exec|env|setup_root|await|command -v)) *[a-z][a-z0-9.+-]*( |$)' |
        sed 's/ *$//; s/.*[^a-z0-9.+-]//' | sort -u | while read -r name; do
            # What the shell does by itself is no program.
            case $(command -v "$name") in /*) echo "$name" ;; esac
        done
}

scripts() {
    ls ./*.sh .ci/run scripts/*.sh bench/*.sh bench/oracle/*.sh packages/*.sh
}

# Where a program is that is started without a shell; nothing if it is not here.
path_of() {
    (
        IFS=:
        for directory in $PATH; do
            [ ! -f "$directory/$1" ] || [ ! -x "$directory/$1" ] || { echo "$directory/$1" && return; }
        done
    )
}

known() {
    case $1 in
    # What setup.sh brings Rust by, and everything else.
    cargo | rustc | rustup | curl | apt-get) return 0 ;;
    esac
    ! echo "$listed" | grep -qxF -e "$1" || return 0
    package=$(package_of "$1")
    [ -n "$package" ] || return 1
    ! echo "$named" | grep -qxF -e "$package" || return 0
    # shellcheck disable=SC2086 # names of packages
    ! dpkg-query -W -f '${Depends}, ' $named 2>/dev/null | tr ',|' '\n' | sed 's/^ *//; s/[ :].*//' | grep -qxF -e "$package" || return 0
    case $(dpkg-query -W -f '${Essential} ${Priority}\n' "$package" 2>/dev/null) in
    yes* | *required) return 0 ;;
    esac
    return 1
}

package_of() {
    file=$(path_of "$1")
    for path in "$file" "$(readlink -f "$file")" "${file#/usr}"; do
        grep -lxF -e "$path" /var/lib/dpkg/info/*.list | sed 's|.*/||; s/\.list$//; s/:.*//' | head -n 1 | grep . && return
    done
}

where_from() {
    package=$(package_of "$1")
    echo "$(path_of "$1")${package:+, of package $package}"
}

main "$@"
