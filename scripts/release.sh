#!/bin/sh
# Seals what is handed out, and checks the seal.
#
#   scripts/release.sh finish DIRECTORY                      VEX document, SHA256SUMS, and its signature
#   scripts/release.sh verify DIRECTORY [ALLOWED_SIGNERS]    signature, checksums, and that each statement of origin fits its files
#
# ICDC_SIGNING_KEY names the releaser's Ed25519 key in OpenSSH's format (or its public part, when an agent or a token holds the
# private one). Without it nothing is signed, and that is said. ICDC_ALLOWED_SIGNERS names another list than allowed_signers.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
namespace=icdc-release # as in allowed_signers and install.sh

main() {
    [ $# -ge 2 ] && [ -d "$2" ] || usage
    directory=$(cd "$2" && pwd) || exit 1
    case $1 in
    finish) explain && checksums && sign ;;
    verify) verify "${3:-$(allowed_signers)}" ;;
    *) usage ;;
    esac
}

usage() {
    echo 'usage: scripts/release.sh finish DIRECTORY | verify DIRECTORY [ALLOWED_SIGNERS]' >&2
    exit 2
}

say() {
    echo "release: $*" >&2
}

allowed_signers() {
    echo "${ICDC_ALLOWED_SIGNERS:-$top/allowed_signers}"
}

# Known vulnerabilities of the parts, where there is a list of parts.
explain() {
    for parts in "$directory"/*.cdx.json; do
        [ -e "$parts" ] || return 0
    done
    version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)}
    "$top/scripts/attest.py" vex "$directory" >"$directory/.vex" || {
        rm -f "$directory/.vex"
        return 1
    }
    mv -f "$directory/.vex" "$directory/icdc-$version.openvex.json"
}

checksums() (
    cd "$directory" && for file in install.sh *.gz *.json *.deb *.rpm *.oci.tar; do
        [ ! -e "$file" ] || sha256sum "$file" || return 1
    done >SHA256SUMS
)

# The signers' list goes along with a signature only: install.sh that finds one beside itself expects a signature.
sign() {
    rm -f "$directory/SHA256SUMS.sig" "$directory/allowed_signers"
    [ -n "${ICDC_SIGNING_KEY:-}" ] || {
        say "$directory is NOT signed: ICDC_SIGNING_KEY names no key (allowed_signers says how a releaser makes one)"
        return 0
    }
    case $(ssh-keygen -l -f "$ICDC_SIGNING_KEY" 2>/dev/null) in
    *'(ED25519)' | *'(ED25519-SK)') ;;
    *)
        say "$ICDC_SIGNING_KEY is no Ed25519 key of OpenSSH that can be read"
        return 1
        ;;
    esac
    ssh-keygen -q -Y sign -f "$ICDC_SIGNING_KEY" -n "$namespace" "$directory/SHA256SUMS" || return 1
    signature "$(allowed_signers)" || {
        rm -f "$directory/SHA256SUMS.sig"
        say "$(allowed_signers) does not name this key: nobody could verify what it signs"
        return 1
    }
    cp "$(allowed_signers)" "$directory/allowed_signers" && say "$directory is signed by $principal"
}

# signature ALLOWED_SIGNERS: leaves who has signed in $principal.
signature() {
    principal=$(ssh-keygen -Y find-principals -s "$directory/SHA256SUMS.sig" -f "$1" 2>/dev/null | head -n 1)
    [ -n "$principal" ] && ssh-keygen -Y verify -f "$1" -I "$principal" -n "$namespace" -s "$directory/SHA256SUMS.sig" \
        <"$directory/SHA256SUMS" >/dev/null 2>&1
}

verify() {
    [ -e "$directory/SHA256SUMS.sig" ] || {
        say "$directory is not signed"
        return 1
    }
    signature "$1" || {
        say "$directory/SHA256SUMS.sig is no signature of these checksums by anybody whom $1 names"
        return 1
    }
    (cd "$directory" && sha256sum --check --strict --quiet SHA256SUMS) || {
        say "$directory holds other files than $principal has signed"
        return 1
    }
    for file in "$directory"/*; do
        case ${file##*/} in SHA256SUMS | SHA256SUMS.sig | allowed_signers) continue ;; esac
        cut -c67- "$directory/SHA256SUMS" | grep -qxF -e "${file##*/}" || {
            say "${file##*/} is none of the files that $principal has signed"
            return 1
        }
    done
    for statement in "$directory"/*.provenance.json; do
        [ ! -e "$statement" ] || origin "$statement" || return 1
    done
    say "$directory is signed by $principal, and its files are those that were signed"
}

# Each file that a statement of origin names has the digest it states in the checksums that are signed.
origin() {
    python3 -c '
import json, sys
lines = open(sys.argv[2]).read().splitlines()
for subject in json.load(open(sys.argv[1]))["subject"]:
    if subject["digest"]["sha256"] + "  " + subject["name"] not in lines:
        sys.exit(1)
' "$1" "$directory/SHA256SUMS" || {
        say "$1 speaks of other files than SHA256SUMS"
        return 1
    }
}

main "$@"
