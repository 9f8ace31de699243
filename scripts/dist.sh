#!/bin/sh
# Builds icdc as one static program for each architecture, and what is handed out with it, in dist/.
#
#   scripts/dist.sh build [ARCH...]        x86_64, aarch64 (default: both)
#   scripts/dist.sh check [ARCH...]        runs what was built in bare roots of Debian 11, 12 and 13 (root)
#   scripts/dist.sh reproduce [ARCH...]    builds the last commit in another directory and compares
#
# zig compiles the C sources and links with musl. libelf and zlib are those that the crate libbpf-sys brings along, so that everything
# but the tools comes with Cargo.lock. Dates are the commit's (or SOURCE_DATE_EPOCH), paths of this machine are taken out.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
cd "$setup_top" || exit 1
. scripts/setup.sh

# The tools' versions are a part of what makes two builds equal.
zig_version=0.15.2
zigbuild_version=0.24.1
largest=15000000 # bytes of a program

target=${CARGO_TARGET_DIR:-$setup_top/target}
case $target in /*) ;; *) target=$setup_top/$target ;; esac
tools=${ICDC_DIST_TOOLS:-$target/dist-tools}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

main() {
    action=${1:-build}
    [ $# = 0 ] || shift
    [ $# -gt 0 ] || set -- x86_64 aarch64
    for architecture in "$@"; do
        case $architecture in
        x86_64 | aarch64) ;;
        *)
            echo "dist: unknown architecture $architecture: x86_64 or aarch64" >&2
            return 2
            ;;
        esac
    done
    case $action in
    build) build "$@" ;;
    check) check "$@" ;;
    reproduce) reproduce "$@" ;;
    *)
        echo "dist: there is no action $action: build, check or reproduce" >&2
        return 2
        ;;
    esac
}

build() {
    setup build dist || return 1
    get_tools "$@" || return 1
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}
    [ -n "$SOURCE_DATE_EPOCH" ] || {
        echo 'dist: this is no clone: set SOURCE_DATE_EPOCH to the date of the release (seconds since 1970)' >&2
        return 1
    }
    # What `icdc --version --verbose` names, unless something else than the last commit is built.
    ICDC_COMMIT=$(git diff --quiet HEAD 2>/dev/null && git rev-parse HEAD) || ICDC_COMMIT=''
    export SOURCE_DATE_EPOCH ICDC_COMMIT
    mkdir -p dist || return 1
    for architecture in "$@"; do
        build_libraries "$architecture" && build_program "$architecture" && pack "$architecture" || return 1
    done
    cp install.sh dist/ && scripts/release.sh finish dist || return 1
    cat dist/SHA256SUMS
}

# Tools of these versions, in a directory of their own.
get_tools() {
    for architecture in "$@"; do
        rustup target list --installed | grep -qx "$architecture-unknown-linux-musl" ||
            rustup target add "$architecture-unknown-linux-musl" >&2 || return 1
    done
    zig=$tools/zig-$zig_version/ziglang/zig
    [ -x "$zig" ] || python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
        --target "$tools/zig-$zig_version" "ziglang==$zig_version" >&2 || return 1
    zigbuild=$tools/zigbuild-$zigbuild_version
    [ -x "$zigbuild/bin/cargo-zigbuild" ] || {
        cargo install --quiet --locked --root "$zigbuild" --target-dir "$tools/build" "cargo-zigbuild@$zigbuild_version" >&2 || return 1
        rm -rf "$tools/build"
    }
    PATH="$zigbuild/bin:$PATH"
}

# libelf.a and libz.a. The makefiles of elfutils need programs and libraries that musl lacks; libelf itself is plain C.
build_libraries() {
    cargo fetch --quiet --locked --target "$1-unknown-linux-musl" || return 1
    sources=$(source_of libbpf-sys) || return 1
    libraries=$target/dist-libraries/$1
    rm -rf "$libraries"
    mkdir -p "$libraries/include" "$libraries/elf" "$libraries/z" || return 1
    cat >"$libraries/elf/config.h" <<'CONFIG'
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_POWEROF2 1
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_ERR_H 1
#define HAVE_FALLTHROUGH 1
#define HAVE_STDATOMIC_H 1
#define HAVE_VISIBILITY 1
#include <eu-config.h>
CONFIG
    compile="$zig cc -target $1-linux-musl -c -Os -g -w -fno-sanitize=all -ffile-prefix-map=$sources=libbpf-sys -ffile-prefix-map=$target=target -ffile-prefix-map=${zig%/*}=zig"
    # shellcheck disable=SC2086 # a command with its words
    (cd "$libraries/elf" && $compile -std=gnu11 -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -I"$sources/elfutils/lib" -I"$sources/elfutils/libelf" -I"$sources/zlib" \
        "$sources"/elfutils/libelf/*.c && "$zig" ar rcsD ../libelf.a ./*.o) || return 1
    # shellcheck disable=SC2086 # likewise
    (cd "$libraries/z" && $compile -DHAVE_UNISTD_H -DHAVE_HIDDEN -D_LARGEFILE64_SOURCE=1 "$sources"/zlib/*.c &&
        "$zig" ar rcsD ../libz.a ./*.o) || return 1
    cp "$sources"/zlib/zlib.h "$sources"/zlib/zconf.h "$sources"/elfutils/libelf/libelf.h "$sources"/elfutils/libelf/gelf.h \
        "$libraries/include/"
}

# Where cargo has unpacked the one version of a crate that Cargo.lock names.
source_of() {
    locked=$(sed -n "/^name = \"$1\"\$/{n;s/^version = \"\(.*\)\"/\1/p;}" Cargo.lock)
    found=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$locked") || return 1
    echo "$found" | head -n 1
}

build_program() {
    triple=$1-unknown-linux-musl
    variable=$(echo "$triple" | tr - _)
    upper=$(echo "$variable" | tr '[:lower:]' '[:upper:]')
    registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    # As few paths as can be: each is different on another machine.
    flags=''
    files=''
    for directory in "$registry"/*; do
        flags="$flags --remap-path-prefix=$directory=registry"
        files="$files -ffile-prefix-map=$directory=registry"
    done
    for map in "$target=target" "$setup_top=icdc"; do
        flags="$flags --remap-path-prefix=$map"
        files="$files -ffile-prefix-map=$map"
    done
    files="$files -ffile-prefix-map=${zig%/*}=zig"
    # Nothing unwinds through C.
    files="$files -fno-asynchronous-unwind-tables -fno-unwind-tables"
    echo "dist: building icdc $version for $1"
    build_runtime && zigbuild --locked --package icdc || return 1
    program=$target/$triple/dist/icdc
}

# zigbuild ARGUMENT...: cargo build for $triple with the profile dist.
zigbuild() {
    env "CARGO_ZIGBUILD_ZIG_PATH=$zig" "ZIG_GLOBAL_CACHE_DIR=$target/dist-zig" "CARGO_TARGET_DIR=$target" CARGO_INCREMENTAL=0 \
        "CARGO_TARGET_${upper}_RUSTFLAGS=$flags" "CFLAGS_$variable=-I$libraries/include$files" \
        "LIBBPF_SYS_LIBRARY_PATH_$variable=$libraries" \
        cargo zigbuild --quiet --profile dist --target "$triple" "$@"
}

# zig compiles its C library and its own runtime at the first link, with debug information that names the directory that zig is in.
# An empty program is linked first, and then they lose that information.
build_runtime() {
    runtime=$target/dist-runtime
    rm -rf "$target/dist-zig" && mkdir -p "$runtime/src" && echo 'fn main() {}' >"$runtime/src/main.rs" || return 1
    {
        printf '[package]\nname = "runtime"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n'
        sed -n '/^\[profile.dist\]$/,/^$/p' Cargo.toml
    } >"$runtime/Cargo.toml"
    zigbuild --manifest-path "$runtime/Cargo.toml" &&
        find "$target/dist-zig" -type f '(' -name '*.a' -o -name 'crt*.o' ')' -exec llvm-objcopy --strip-debug {} ';'
}

# The program, its debug information, its parts, and a tar with what belongs to it.
pack() {
    name=icdc-$version-$1
    tree=$target/dist-tree/$name
    rm -rf "$target/dist-tree" && mkdir -p "$tree/bin" "$tree/share/man/man1" "$tree/share/doc/icdc" "$target/dist-tree/completions" || return 1
    llvm-objcopy --only-keep-debug "$program" "dist/$name.debug" &&
        llvm-objcopy --strip-all --add-gnu-debuglink="dist/$name.debug" "$program" "$tree/bin/icdc" || return 1
    bytes=$(stat -c %s "$tree/bin/icdc")
    [ "$bytes" -le "$largest" ] || {
        echo "dist: the program for $1 has $bytes bytes, and $largest are allowed" >&2
        return 1
    }
    echo "dist: $name: $bytes bytes"
    run=''
    [ "$(uname -m)" = "$1" ] || run=qemu-$1-static
    $run "$tree/bin/icdc" generate man "$tree/share/man/man1" || return 1
    $run "$tree/bin/icdc" generate completions "$target/dist-tree/completions" || return 1
    install -D -m 644 "$target/dist-tree/completions/icdc.bash" "$tree/share/bash-completion/completions/icdc" &&
        install -D -m 644 "$target/dist-tree/completions/_icdc" "$tree/share/zsh/site-functions/_icdc" &&
        install -D -m 644 "$target/dist-tree/completions/icdc.fish" "$tree/share/fish/vendor_completions.d/icdc.fish" || return 1
    cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$tree/share/doc/icdc/" || return 1
    scripts/parts.py licences "$1-unknown-linux-musl" "${zig%/*}" >"$tree/share/doc/icdc/LICENSES-OF-PARTS" &&
        scripts/parts.py bom "$1-unknown-linux-musl" "${zig%/*}" >"dist/$name.cdx.json" || return 1
    gzip -9nf "dist/$name.debug" || return 1
    chmod -R u=rwX,go=rX "$tree"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar -C "$target/dist-tree" -cf "dist/$name.tar" "$name" &&
        gzip -9nf "dist/$name.tar" || return 1
    scripts/attest.py provenance scripts/dist.sh "rustc=$(rustc --version)" "zig=$zig_version" "cargo-zigbuild=$zigbuild_version" \
        -- "dist/$name.tar.gz" "dist/$name.debug.gz" "dist/$name.cdx.json" >"dist/$name.provenance.json"
}

# What was built must run where nothing else is, as an ordinary Debian sees it.
check() {
    [ "$(id -u)" = 0 ] || {
        echo 'dist: roots of other systems need root: sudo scripts/dist.sh check' >&2
        return 1
    }
    setup dist || return 1
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-dist.XXXXXX") || return 1
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    (cd dist && sha256sum --check --quiet SHA256SUMS) || return 1
    for architecture in "$@"; do
        is_static "$architecture" || return 1
    done
    for suite in bullseye bookworm trixie; do
        make_root "$suite" || return 1
        for architecture in "$@"; do
            # An emulated processor is the same in every root.
            [ "$architecture" = "$(uname -m)" ] || [ "$suite" = trixie ] || continue
            try "$architecture" || return 1
            echo "dist: $architecture runs in Debian $suite"
        done
        rm -rf --one-file-system "$scratch/root"
    done
}

is_static() {
    tar -xzf "dist/icdc-$version-$1.tar.gz" -C "$scratch" || return 1
    program=$scratch/icdc-$version-$1/bin/icdc
    ! llvm-readelf --program-headers --dynamic-table "$program" | grep -E 'INTERP|NEEDED' || {
        echo "dist: the program for $1 is not static" >&2
        return 1
    }
}

# Unpacked packages only: a shell and what a user has at the least.
make_root() {
    place=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(CREATED_BY)' | sed -n 's/ [a-z]* Packages$//p' | grep -v security | head -n 1)
    mmdebstrap --quiet --variant=extract --include=base-files,dash,coreutils,diffutils,sed,grep,tar,gzip,mawk,findutils,libc-bin "$1" "$scratch/root" "$place" \
        >"$scratch/log" 2>&1 || {
        tail -n 20 "$scratch/log" >&2
        return 1
    }
    mkdir -p "$scratch/root/dist" "$scratch/root/srv" "$scratch/root/proc" "$scratch/root/dev" "$scratch/root/root" &&
        cp dist/* "$scratch/root/dist/" || return 1
    [ -e "$scratch/root/bin/sh" ] || ln -s dash "$scratch/root/bin/sh"
    [ -e "$scratch/root/usr/bin/awk" ] || ln -s mawk "$scratch/root/usr/bin/awk"
    printf 'root:x:0:0:root:/root:/bin/sh\ndata:x:1000:1000::/srv:/bin/sh\n' >"$scratch/root/etc/passwd"
    printf 'root:x:0:\ndata:x:1000:\n' >"$scratch/root/etc/group"
    chown 1000:1000 "$scratch/root/srv"
}

# Installs and copies in the root: within it, to a daemon and back, and by a stand-in for ssh.
try() {
    foreign=''
    [ "$1" = "$(uname -m)" ] || {
        foreign=/icdc-$1
        cp "$scratch/icdc-$version-$1/bin/icdc" "$scratch/root$foreign" || return 1
    }
    cat >"$scratch/root/try.sh" <<'TRY'
set -eu
export HOME=/root/home PATH=/root/home/.local/bin:$PATH
rm -rf "$HOME" /srv/* && mkdir -p "$HOME/.local/bin" && cd "$HOME"
if [ -z "$1" ]; then
    sh /dist/install.sh
else
    cp "$1" .local/bin/icdc
fi
head -c 20000000 /dev/urandom >file
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >ssh-here && chmod +x ssh-here
icdc copy file copy && cmp file copy
icdc copy --ssh "$HOME/ssh-here" file 127.0.0.1:"$HOME/pushed" && cmp file pushed
icdc copy --ssh "$HOME/ssh-here" 127.0.0.1:"$HOME/file" pulled && cmp file pulled
icdc keygen
echo "root=/srv,rights=rw,user=data $(cat .config/icdc/identity.pub)" >.config/icdc/authorized_keys
icdc keygen --trust 127.0.0.1 "$(cat .config/icdc/identity.pub)"
icdc serve --listen 127.0.0.1:2633 2>log &
daemon=$!
tries=0
until grep -q fingerprint log; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] && kill -0 "$daemon" || { cat log && exit 1; }
    sleep 0.1
done
icdc copy file icdc://127.0.0.1/file && cmp file /srv/file
icdc copy icdc://127.0.0.1/file fetched && cmp file fetched
[ "$(stat -c %u /srv/file)" = 1000 ]
kill "$daemon"
TRY
    # Its own network, processes and mounts: they end with it.
    apart='unshare --net --pid --mount --fork --kill-child --propagation private'
    [ -z "$foreign" ] || apart="scripts/emulate.sh $1"
    # shellcheck disable=SC2016 # for the inner shell
    $apart sh -c 'ip link set lo up && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$1" sh /try.sh "$2"' \
        sh "$scratch/root" "$foreign" >"$scratch/log" 2>&1 || {
        cat "$scratch/log" >&2
        echo "dist: the program for $1 fails in a bare Debian $suite" >&2
        return 1
    }
}

# The last commit, cloned to another place and built there by tools in another place: each file must have the checksum that it has in dist/.
reproduce() {
    [ -f dist/SHA256SUMS ] || {
        echo 'dist: there is nothing to compare with: make dist first' >&2
        return 1
    }
    git diff --quiet HEAD || {
        echo 'dist: the work tree has changes that are not committed: what is built elsewhere would differ' >&2
        return 1
    }
    get_tools "$@" || return 1
    scratch=$(mktemp -d "${SCRATCH:-/var/tmp}/icdc-dist-elsewhere.XXXXXX") || return 1
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    git clone --quiet . "$scratch/clone" && cp -R "$tools" "$scratch/tools" || return 1
    (unset CARGO_TARGET_DIR ICDC_SIGNING_KEY && ICDC_DIST_TOOLS=$scratch/tools "$scratch/clone/scripts/dist.sh" build "$@" >"$scratch/log" 2>&1) || {
        tail -n 20 "$scratch/log" >&2
        return 1
    }
    # It holds what was built there, which may be one architecture of the two.
    (cd dist && sha256sum --check --strict "$scratch/clone/dist/SHA256SUMS")
}

main "$@"
