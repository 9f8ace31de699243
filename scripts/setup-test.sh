#!/bin/sh
# Tests what setup.sh asks of package managers that this machine does not have: stand-ins for them record how they are called.
#
#   scripts/setup-test.sh
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=''

main() {
    on dnf build test
    asked '-q -y --setopt=install_weak_deps=False install gcc gcc-c++ make pkgconf-pkg-config elfutils-libelf-devel elfutils-libelf-devel-static zlib-devel zlib-static'
    asked '-q -y --setopt=install_weak_deps=False install clang'
    asked '-q -y --setopt=install_weak_deps=False install ShellCheck'
    on apk build packages
    asked 'add --quiet build-base pkgconf elfutils-dev libelf-static zlib-dev zlib-static binutils git python3'
    asked 'add --quiet python3'
    asked 'add --quiet buildah'
    told 'mmdebstrap cannot be had here'
    not_asked mmdebstrap
    # What apt is asked for has the table's names.
    on apt-get packages
    asked '-q update'
    asked '-q install -y --no-install-recommends binutils git python3'
    asked '-q install -y --no-install-recommends python3-venv'
    asked '-q install -y --no-install-recommends lintian'
    on none build && wrong 'setup.sh succeeds without a package manager'
    told 'install by hand what these Debian packages hold: build-essential pkg-config libelf-dev zlib1g-dev clang'
    [ -z "$failed" ] || exit 1
    echo 'setup.sh asks dnf, apk and apt-get for what is missing'
}

# on MANAGER GROUP...: runs setup.sh as root where nothing is installed but what every system has, Rust, and this package manager.
on() {
    manager=$1
    shift
    rm -rf "${scratch:?}/bin"
    mkdir "$scratch/bin"
    : >"$scratch/asked"
    for program in sh awk cat cut dirname env head rm sed sort tr uname; do
        ln -s "$(command -v "$program")" "$scratch/bin/"
    done
    stand_in id 'echo 0'
    stand_in cargo 'echo cargo 99.0.0'
    [ "$manager" = none ] || stand_in "$manager" "echo \"\$*\" >>'$scratch/asked'"
    # The last directories, which setup.sh looks in as well, may hold programs of this machine: none that these groups name first.
    PATH=$scratch/bin HOME=$scratch /bin/sh "$setup_top/scripts/setup.sh" "$@" >"$scratch/told" 2>&1
}

stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod 755 "$scratch/bin/$1"
}

asked() {
    grep -qxF -e "$1" "$scratch/asked" || wrong "$manager is not asked: $1"
}

not_asked() {
    ! grep -qF -e "$1" "$scratch/asked" || wrong "$manager is asked for $1"
}

told() {
    grep -qF -e "$1" "$scratch/told" || wrong "setup.sh does not say: $1"
}

wrong() {
    echo "setup-test: $1"
    sed 's/^/    /' "$scratch/asked" "$scratch/told"
    failed=yes
}

main
