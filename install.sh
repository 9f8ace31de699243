#!/bin/sh
# Installs icdc for one user, without root, from the files that `make dist` makes.
#
#   ./install.sh [--from DIR|FILE|URL] [--prefix DIR]     default: the files beside this one or in dist/, into ~/.local
#                [--signers FILE | --unsigned]
#   ./install.sh --uninstall [--prefix DIR]
#
# DIR and URL hold SHA256SUMS and a tar for each architecture; FILE is one tar with SHA256SUMS beside it. The checksum is compared
# before anything is unpacked, and before that the signature of SHA256SUMS (SHA256SUMS.sig) is verified by ssh-keygen. Who may sign
# stands in FILE (default: allowed_signers beside this script), which should have come by another way than what it vouches for.
# Where this is known, what --from names must be signed; --unsigned installs it nevertheless. Needs a POSIX shell, tar, gzip,
# sha256sum, ssh-keygen of OpenSSH 8.2 or newer for signatures, and curl or wget for a URL.
set -u

main() {
    from='' prefix='' action=install signers='' unsigned=''
    while [ $# -gt 0 ]; do
        case $1 in
        --from) from=$(value "$@") && shift 2 || exit 2 ;;
        --from=*) from=${1#*=} && shift ;;
        --prefix) prefix=$(value "$@") && shift 2 || exit 2 ;;
        --prefix=*) prefix=${1#*=} && shift ;;
        --signers) signers=$(value "$@") && shift 2 || exit 2 ;;
        --signers=*) signers=${1#*=} && shift ;;
        --unsigned) unsigned=yes && shift ;;
        --uninstall) action=uninstall && shift ;;
        -h | --help)
            sed -n '2,/^set/ s/^# \{0,1\}//p' "$0"
            return
            ;;
        *)
            say "unknown argument '$1' (./install.sh --help)"
            exit 2
            ;;
        esac
    done
    [ -n "$prefix" ] || prefix=${HOME:?HOME is not set, so --prefix DIR is needed}/.local
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
    list=$prefix/share/icdc/installed
    case $action in
    install) install_icdc ;;
    uninstall) uninstall_icdc ;;
    esac
}

say() {
    echo "install.sh: $*" >&2
}

fail() {
    say "$*"
    exit 1
}

value() {
    [ $# -ge 2 ] && [ -n "$2" ] || {
        say "$1 needs a value"
        return 1
    }
    printf '%s\n' "$2"
}

install_icdc() {
    architecture=$(architecture) || exit 1
    know_signers
    [ -n "$from" ] || from=$(beside) || exit 1
    mkdir -p "$prefix" || fail "the directory $prefix cannot be made; name another one by --prefix DIR"
    # In the destination's file system: the program becomes visible by a rename.
    work=$(mktemp -d "$prefix/.icdc-install.XXXXXX") || fail "$prefix cannot be written to; name another directory by --prefix DIR"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    fetch_tar
    mkdir "$work/tree"
    (cd "$work/tree" && gzip -dc "$work/tar" | tar -xf -) || fail "$name cannot be unpacked"
    tree=$(echo "$work/tree"/*)
    version=$("$tree/bin/icdc" --version) || fail "the program of $name does not run on this host ($(uname -srm))"
    place
    echo "$version is installed: $prefix/bin/icdc"
    case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) echo "Add to your shell's start-up file (~/.profile): export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

architecture() {
    [ "$(uname -s)" = Linux ] || fail "icdc runs on Linux, and this is $(uname -s)"
    case $(uname -m) in
    x86_64 | amd64) echo x86_64 ;;
    aarch64 | arm64) echo aarch64 ;;
    *) fail "there is no program for the architecture $(uname -m); build it from source (README, \"Build from source\")" ;;
    esac
}

# Where the files are if the user does not say.
beside() {
    here=$(cd "$(dirname "$0")" && pwd) || exit 1
    for directory in "$here" "$here/dist"; do
        [ ! -f "$directory/SHA256SUMS" ] || { echo "$directory" && return; }
    done
    fail "there is no SHA256SUMS in $here or $here/dist; run make dist, or name the place by --from DIR|FILE|URL"
}

# Leaves in $signers a list that names somebody, else nothing; and in $required whether there must be a signature.
know_signers() {
    required=''
    if [ -n "$signers" ]; then
        [ -r "$signers" ] || fail "$signers cannot be read"
        required=yes
    else
        signers=$(cd "$(dirname "$0")" && pwd)/allowed_signers
        [ -r "$signers" ] && grep -q '^[^#]' "$signers" || signers=''
        # Files that lie here without a signature were built here.
        [ -z "$signers" ] || [ -z "$from" ] || required=yes
    fi
    [ -z "$unsigned" ] || required=''
}

# The signature of $work/sums, which is in $place.
verify_signature() {
    fetch_signature || {
        [ -z "$required" ] || fail "$place/SHA256SUMS.sig cannot be fetched: these files are not signed, and may be from anybody. Nothing was installed (--unsigned installs them nevertheless)"
        say "$place is not signed: its checksums say that the files are whole, not whose they are"
        return
    }
    if [ -z "$signers" ]; then
        say "the signature of $place is NOT verified: no list says who may sign; take allowed_signers from icdc's source and name it by --signers FILE"
    elif ! command -v ssh-keygen >/dev/null 2>&1; then
        [ -z "$required" ] || fail "the signature of $place cannot be verified: ssh-keygen is not installed (package openssh-client or openssh-clients). Nothing was installed (--unsigned installs nevertheless)"
        say "the signature of $place is NOT verified: ssh-keygen is not installed (package openssh-client or openssh-clients)"
    elif ! signer=$(ssh-keygen -Y find-principals -s "$work/sums.sig" -f "$signers" 2>"$work/said" </dev/null) || [ -z "$signer" ]; then
        ! grep -q 'unknown option\|illegal option\|[Uu]nsupported operation' "$work/said" || {
            [ -z "$required" ] || fail "the signature of $place cannot be verified: this ssh-keygen is older than OpenSSH 8.2. Nothing was installed (--unsigned installs nevertheless)"
            say "the signature of $place is NOT verified: this ssh-keygen is older than OpenSSH 8.2"
            return
        }
        fail "$place/SHA256SUMS.sig is by nobody whom $signers names. Nothing was installed"
    else
        signer=${signer%%"
"*}
        ssh-keygen -Y verify -f "$signers" -I "$signer" -n icdc-release -s "$work/sums.sig" <"$work/sums" >"$work/said" 2>&1 ||
            fail "$place/SHA256SUMS is not what $signer has signed: it was changed. Nothing was installed"
        say "the signature is good: $signer"
    fi
}

fetch_signature() {
    case $place in
    *://*) (fetch "$place/SHA256SUMS.sig" "$work/sums.sig") 2>/dev/null ;;
    *) [ -e "$place/SHA256SUMS.sig" ] && fetch "$place/SHA256SUMS.sig" "$work/sums.sig" ;;
    esac
}

# Leaves the tar in $work/tar, its signature and checksum compared, and its name in $name.
fetch_tar() {
    case $from in
    *.tar.gz)
        name=${from##*/}
        case $from in */*) place=${from%/*} ;; *) place=. ;; esac
        ;;
    *)
        name=''
        place=${from%/}
        ;;
    esac
    fetch "$place/SHA256SUMS" "$work/sums"
    verify_signature
    [ -n "$name" ] || name=$(sed -n "s/^[0-9a-f]\{64\}  \(icdc-[^ /]*-$architecture\.tar\.gz\)\$/\1/p" "$work/sums" | tail -n 1)
    [ -n "$name" ] || fail "$place/SHA256SUMS names no icdc-VERSION-$architecture.tar.gz"
    expected=$(awk -v name="$name" '$2 == name { print $1 }' "$work/sums")
    [ -n "$expected" ] || fail "$place/SHA256SUMS does not name $name"
    fetch "$place/$name" "$work/tar"
    found=$(sha256sum "$work/tar") || fail 'the checksum cannot be computed (is sha256sum installed?)'
    [ "${found%% *}" = "$expected" ] || fail "$place/$name has another checksum than SHA256SUMS says: it is damaged or was changed. Nothing was installed"
}

# fetch PLACE FILE
fetch() {
    case $1 in
    https://* | http://127.0.0.1[:/]* | http://localhost[:/]*)
        if command -v curl >/dev/null 2>&1; then
            # A redirect leads to https, too.
            curl -fsSL --proto-redir =https -o "$2" "$1"
        elif command -v wget >/dev/null 2>&1; then
            wget -q -O "$2" "$1"
        else
            fail "neither curl nor wget is here to fetch $1; fetch the files by hand and name their directory by --from DIR"
        fi || fail "$1 cannot be fetched"
        ;;
    *://*) fail "$1 is not fetched: checksums that come over an unprotected connection prove nothing; use https://" ;;
    *) cp "$1" "$2" || fail "$1 cannot be read" ;;
    esac
}

# Puts the tree's files below the prefix, each at once, and lists them for --uninstall.
place() {
    (cd "$tree" && find . -type f | sort) >"$work/files" || exit 1
    while read -r file; do
        file=${file#./}
        target=$prefix/$file
        mkdir -p "${target%/*}" && mv -f "$tree/$file" "$target" || fail "$target cannot be written"
    done <"$work/files"
    # What an earlier version had and this one has not goes.
    [ ! -f "$list" ] || grep -vxF -f "$work/files" "$list" | remove_listed
    mkdir -p "${list%/*}" && mv -f "$work/files" "$list" || fail "$list cannot be written"
}

uninstall_icdc() {
    [ -f "$list" ] || fail "nothing is installed by install.sh below $prefix ($list is missing)"
    remove_listed <"$list"
    rm -f "$list"
    rmdir "$prefix/share/icdc" "$prefix/share/doc/icdc" 2>/dev/null
    echo "icdc is removed from $prefix"
}

# Only what lies below the prefix.
remove_listed() {
    while read -r file; do
        case $file in
        ./../* | ./*/../* | *..) ;;
        ./*) rm -f "$prefix/${file#./}" ;;
        esac
    done
}

main "$@"
