#!/bin/sh
# Installs what is missing on a fresh Debian or Ubuntu: packages by apt, Rust by rustup. Silent when nothing is missing. Where dnf or
# apk is the package manager, packages have the names of setup_names; scripts/setup-test.sh tests it with stand-ins for both.
#
#   scripts/setup.sh [build] [demo] [cluster] [test] [reading] [packages] [booted] [fresh] [bench] [oracle] [dist]     (default: build)
#
# To be sourced as well (`. scripts/setup.sh`): then `setup GROUP...` installs, and PATH afterwards finds cargo.
# Without root, sudo or a package manager that it knows, it says what is missing and how to get it, and fails.

# Each line: group, command looked for (or pc:NAME, a library by its pkg-config name; py:NAME, a module of Python), package that holds
# it, whether the group can do without it.
setup_table='
build cc       build-essential needed
build pkg-config pkg-config    needed
build pc:libelf libelf-dev     needed
build pc:zlib  zlib1g-dev      needed
build clang    clang           optional
demo  ip       iproute2        needed
demo  b3sum    b3sum           optional
demo  scp      openssh-client  optional
demo  sshd     openssh-server  optional
test  ip       iproute2        optional
test  ping     iputils-ping    optional
test  ethtool  ethtool         optional
test  sshd     openssh-server  optional
test  kill     procps          optional
test  nft      nftables        optional
test  chromium chromium        optional
test  ssh      openssh-client  optional
test  ssh-keygen openssh-client optional
test  b3sum    b3sum           optional
test  shellcheck shellcheck    optional
test  zsh      zsh             optional
test  fish     fish            optional
test  busybox  busybox         optional
test  wget     wget            optional
test  slurmctld slurm-wlm     optional
test  kubectl kubernetes-client optional
test  setpriv util-linux      optional
test  nsenter util-linux      optional
test  mmdebstrap mmdebstrap   optional
test  systemd-nspawn systemd-container optional
test  prometheus prometheus   optional
test  promtool prometheus     optional
test  prometheus-node-exporter prometheus-node-exporter optional
test  prometheus-pushgateway prometheus-pushgateway optional
test  unshare util-linux      optional
test  python3 python3        optional
test  strace  strace         optional
test  git    git              optional
test  lowntfs-3g ntfs-3g      optional
test  mkfs.xfs xfsprogs     optional
test  mkfs.btrfs btrfs-progs optional
test  rsync  rsync           optional
reading shellcheck shellcheck  optional
cluster slurmctld slurm-wlm    needed
cluster ip     iproute2        needed
packages py:ensurepip python3-venv optional
packages strip binutils        needed
packages git   git             needed
packages python3 python3       needed
packages mmdebstrap mmdebstrap optional
packages unshare util-linux    optional
packages ip    iproute2        optional
packages rpm   rpm             optional
packages lintian lintian       optional
packages buildah buildah       optional
booted systemd-nspawn systemd-container needed
booted nsenter util-linux      needed
fresh mmdebstrap mmdebstrap needed
fresh unshare  util-linux      needed
fresh git      git             needed
dist  git      git             needed
dist  pip3     python3-pip     needed
dist  python3  python3         needed
dist  llvm-objcopy llvm        needed
dist  mmdebstrap mmdebstrap    needed
dist  unshare  util-linux      needed
dist  ip       iproute2        needed
dist  ssh-keygen openssh-client optional
dist  qemu-aarch64-static qemu-user-static needed
dist  qemu-x86_64-static qemu-user-static needed
bench ip       iproute2        needed
bench git      git             needed
bench setpriv  util-linux      needed
bench fio      fio             optional
bench rsync    rsync           optional
bench rclone   rclone          optional
bench jq       jq              optional
bench lsyncd   lsyncd          optional
bench scp      openssh-client  optional
bench sshd     openssh-server  optional
bench xz       xz-utils        needed
oracle linux.uml user-mode-linux needed
oracle insmod  kmod            needed
oracle ip      iproute2        needed
oracle ethtool ethtool         needed
oracle iptables-legacy iptables needed
oracle iperf3  iperf3          needed
oracle python3 python3         needed
oracle ping    iputils-ping    needed
'

# What holds the same elsewhere, where the name is another. Each line: Debian's package, dnf's (Fedora, RHEL, Rocky), apk's (Alpine);
# several by commas, - for none.
setup_names='
build-essential  gcc,gcc-c++,make  build-base
pkg-config       pkgconf-pkg-config  pkgconf
libelf-dev       elfutils-libelf-devel,elfutils-libelf-devel-static  elfutils-dev,libelf-static
zlib1g-dev       zlib-devel,zlib-static  zlib-dev,zlib-static
iproute2         iproute           iproute2
openssh-client   openssh-clients   openssh-client
iputils-ping     iputils           iputils
procps           procps-ng         procps
shellcheck       ShellCheck        shellcheck
slurm-wlm        slurm             -
kubernetes-client kubernetes-client kubectl
python3-venv     python3           python3
rpm              rpm-build         rpm
mmdebstrap       mmdebstrap        -
lintian          lintian           -
xz-utils         xz                xz
user-mode-linux  -                 -
'

setup() {
    setup_manager=$(setup_which apt-get dnf apk)
    PATH="${CARGO_HOME:-${HOME:?HOME is not set}/.cargo}/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
    export PATH
    setup_needed='' setup_optional=''
    for setup_group in "$@"; do
        setup_collect "$setup_group"
    done
    setup_packages || return 1
    case " $* " in
    *" build "*) setup_rust || return 1 ;;
    esac
}

# Adds the packages of one group whose command is not there to setup_needed and setup_optional.
setup_collect() {
    while read -r group command package need; do
        [ "$group" = "$1" ] || continue
        setup_has "$command" && continue
        setup_listens "$package" && continue
        case "$need: $setup_needed $setup_optional " in
        needed:*) setup_needed="$setup_needed $package" ;;
        *" $package "*) ;;
        *) setup_optional="$setup_optional $package" ;;
        esac
    done <<TABLE
$setup_table
TABLE
}

# Where a service manager runs, these packages would start a server that listens to the world: the user's choice. A machine of the
# continuous integration is there for nothing else.
setup_listens() {
    case $1 in openssh-server | prometheus*) ;; *) return 1 ;; esac
    [ -d /run/systemd/system ] && [ -z "${CI:-}" ]
}

setup_has() {
    case $1 in
    py:*) python3 -c "import ${1#py:}" 2>/dev/null ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

setup_packages() {
    [ -n "$setup_needed$setup_optional" ] || return 0
    [ -n "$setup_manager" ] || {
        setup_lacking 'There is no apt-get, dnf or apk here: install by hand what these Debian packages hold:'
        return
    }
    # shellcheck disable=SC2086 # lists of package names
    setup_needed=$(setup_named $setup_needed) setup_optional=$(setup_named $setup_optional)
    if ! setup_root true 2>/dev/null; then
        setup_lacking "Neither root nor sudo is at hand. As root, let $setup_manager install"
        return
    fi
    echo "setup: installing$setup_needed$setup_optional" >&2
    case $setup_manager in
    apt-get) setup_root apt-get -q update >&2 || echo 'setup: apt-get update failed; going on with the package lists that are here' >&2 ;;
    esac
    for package in $setup_optional; do
        setup_install "$package" || echo "setup: ${package#-} cannot be had here; what needs it is skipped" >&2
    done
    # shellcheck disable=SC2086 # a list of package names
    [ -z "$setup_needed" ] || setup_install $setup_needed || {
        echo "setup: $setup_manager could not install$setup_needed (its message is above)" >&2
        return 1
    }
}

# The first of these programs that is there.
setup_which() {
    for program; do
        command -v "$program" >/dev/null 2>&1 && echo "$program" && return
    done
    return 1
}

# The names, each after a blank, that the package manager here has for Debian's; with - before it where there is none.
setup_named() {
    case $setup_manager in
    dnf) field=2 ;;
    apk) field=3 ;;
    *) field=1 ;;
    esac
    for package; do
        echo "$setup_names" | awk -v package="$package" -v field="$field" '
            field > 1 && $1 == package { names = $field }
            END { printf " %s", names == "" ? package : names == "-" ? "-" package : names }' | tr ',' ' '
    done
}

# A missing optional package is told, a missing needed one is an error.
setup_lacking() {
    echo "setup: $1$setup_needed$setup_optional" >&2
    [ -z "$setup_needed" ]
}

# No runlevel in which services start: a package may not bring up a server that listens to the world.
setup_install() {
    case "$setup_manager $1" in
    *' -'*) return 1 ;;
    apt-get*) setup_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q install -y --no-install-recommends "$@" >&2 ;;
    dnf*) setup_root dnf -q -y --setopt=install_weak_deps=False install "$@" >&2 ;;
    apk*) setup_root apk add --quiet "$@" >&2 ;;
    esac
}

# Runs a command as root. sudo may ask for the password only where there is a terminal to ask on.
setup_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif ! command -v sudo >/dev/null 2>&1; then
        return 1
    elif [ -t 0 ]; then
        sudo -- "$@"
    else
        sudo -n -- "$@"
    fi
}

setup_rust() {
    setup_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$setup_top/Cargo.toml")
    setup_cargo_is_new_enough || setup_stable_is_new_enough || {
        setup_rustup || return 1
        setup_cargo_is_new_enough || setup_stable_is_new_enough || {
            echo "setup: $(command -v cargo) is still older than Rust $setup_wanted; put ${CARGO_HOME:-$HOME/.cargo}/bin first in PATH" >&2
            return 1
        }
    }
    for tool in rustfmt:fmt clippy:clippy; do
        cargo "${tool#*:}" --version >/dev/null 2>&1 || rustup component add "${tool%:*}" >&2 ||
            echo "setup: ${tool%:*} is missing; ./test.sh needs it (rustup component add ${tool%:*})" >&2
    done
}

setup_cargo_is_new_enough() {
    setup_found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
    [ -n "$setup_found" ] && [ "$(printf '%s\n' "$setup_wanted" "$setup_found" | sort -V | head -n 1)" = "$setup_wanted" ]
}

# The user's default toolchain may be old on purpose: leave it, and take rustup's stable one for this run.
setup_stable_is_new_enough() {
    command -v rustup >/dev/null 2>&1 && rustup toolchain list 2>/dev/null | grep -q '^stable' || return 1
    RUSTUP_TOOLCHAIN=stable
    export RUSTUP_TOOLCHAIN
    setup_cargo_is_new_enough
}

# Brings Rust by the rustup that is here, else by its own installer, else by the distribution's rustup package.
setup_rustup() {
    echo "setup: installing Rust (found: ${setup_found:-none}, wanted: $setup_wanted or newer)" >&2
    if ! command -v rustup >/dev/null 2>&1; then
        command -v curl >/dev/null 2>&1 || setup_install curl ca-certificates
        setup_installer=$(mktemp) || return 1
        if curl --proto '=https' --tlsv1.2 -fsS --retry 3 -m 300 -o "$setup_installer" https://sh.rustup.rs; then
            sh "$setup_installer" -y --no-modify-path --profile minimal --component rustfmt --component clippy >&2
            setup_status=$?
            rm -f "$setup_installer"
            return "$setup_status"
        fi
        rm -f "$setup_installer"
        setup_install rustup || {
            echo 'setup: https://sh.rustup.rs cannot be reached and the package manager has no rustup.' >&2
            echo "setup: install Rust $setup_wanted or newer by hand (cargo, rustfmt, clippy in PATH) and run this again." >&2
            return 1
        }
    fi
    rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2
}

case ${0##*/} in
setup.sh)
    setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
    [ $# -gt 0 ] || set -- build
    setup "$@"
    ;;
*) setup_top=${setup_top:?set setup_top to the top of the source tree before sourcing setup.sh} ;;
esac
