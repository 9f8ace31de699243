#!/bin/sh
# Tests how releases are sealed: scripts/release.sh and attest.py with a directory that stands for dist/ and keys that nobody keeps.
#
#   scripts/release-test.sh
#
# The list of parts in it is the real one, so that packages/vex.json is compared with what icdc is built of.
set -u
setup_top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=''
dist=$scratch/dist
name=icdc-9.9.9-x86_64
export VERSION=9.9.9 SOURCE_DATE_EPOCH=1700000000
unset ICDC_SIGNING_KEY ICDC_ALLOWED_SIGNERS

main() {
    for program in ssh-keygen python3 git; do
        command -v "$program" >/dev/null 2>&1 || {
            echo "skipped: releases: $program is not installed"
            return 0
        }
    done
    stand_in
    unsigned_is_told
    signed_is_verified
    changed_is_refused
    other_keys_are_refused
    origin_names_commit_and_tools
    vulnerabilities_speak_of_what_is_there
    [ -z "$failed" ] || exit 1
    echo 'releases are signed, verified, and say what they are built from'
}

stand_in() {
    mkdir "$dist" && cd "$setup_top" || exit 1
    for file in "$name.tar.gz" "$name.debug.gz"; do
        echo "stands for $file" | gzip -n >"$dist/$file" || exit 1
    done
    cp install.sh "$dist/"
    # Its parts do not depend on where zig is.
    scripts/parts.py bom x86_64-unknown-linux-musl "$scratch" >"$dist/$name.cdx.json" || exit 1
    scripts/attest.py provenance scripts/dist.sh 'rustc=rustc 1.99.0' zig=0.0.1 -- "$dist/$name.tar.gz" "$dist/$name.debug.gz" \
        "$dist/$name.cdx.json" >"$dist/$name.provenance.json" || exit 1
    for who in releaser other; do
        ssh-keygen -q -t ed25519 -N '' -C "$who" -f "$scratch/$who" || exit 1
    done
    ssh-keygen -q -t ecdsa -N '' -f "$scratch/weaker" || exit 1
    echo "releaser@example.org namespaces=\"icdc-release\" $(cat "$scratch/releaser.pub")" >"$scratch/signers"
}

# release ACTION...: as the releaser whose key the tree would name.
release() {
    ICDC_ALLOWED_SIGNERS=$scratch/signers scripts/release.sh "$@" >"$scratch/told" 2>&1
}

seal() {
    ICDC_SIGNING_KEY=$scratch/releaser release finish "$dist" || wrong 'a directory cannot be signed'
}

unsigned_is_told() {
    release finish "$dist" || wrong 'an unsigned directory cannot be finished'
    told 'is NOT signed: ICDC_SIGNING_KEY names no key'
    absent SHA256SUMS.sig allowed_signers
    ! release verify "$dist" || wrong 'an unsigned directory is verified'
    told 'is not signed'
}

signed_is_verified() {
    seal
    told 'is signed by releaser@example.org'
    for file in "$name.tar.gz" "$name.debug.gz" "$name.cdx.json" "$name.provenance.json" icdc-9.9.9.openvex.json install.sh; do
        grep -qF "  $file" "$dist/SHA256SUMS" || wrong "SHA256SUMS lacks $file"
    done
    release verify "$dist" || wrong 'what was signed is not verified'
    # As the documentation says for those who have no tree of icdc.
    (cd "$dist" && ssh-keygen -Y verify -f allowed_signers -I releaser@example.org -n icdc-release -s SHA256SUMS.sig <SHA256SUMS) \
        >"$scratch/told" 2>&1 || wrong 'ssh-keygen does not verify by hand'
    # A second build without a key leaves no signature of the first.
    release finish "$dist"
    absent SHA256SUMS.sig allowed_signers
}

changed_is_refused() {
    seal
    echo changed >>"$dist/$name.tar.gz"
    ! release verify "$dist" || wrong 'a changed file is verified'
    told 'holds other files than releaser@example.org has signed'
    (cd "$dist" && sha256sum "$name.tar.gz" >SHA256SUMS)
    ! release verify "$dist" || wrong 'changed checksums are verified'
    told 'is no signature of these checksums'
    # Signed again, but built from something else than the statement of origin says.
    seal
    ! release verify "$dist" || wrong 'a statement about another file is verified'
    told 'speaks of other files than SHA256SUMS'
}

other_keys_are_refused() {
    ! ICDC_SIGNING_KEY=$scratch/other release finish "$dist" || wrong 'a key that nobody knows signs'
    told 'does not name this key'
    absent SHA256SUMS.sig allowed_signers
    ! ICDC_SIGNING_KEY=$scratch/weaker release finish "$dist" || wrong 'a key of another kind signs'
    told 'is no Ed25519 key'
    ! ICDC_SIGNING_KEY=$scratch/missing release finish "$dist" || wrong 'a missing key signs'
    # A signature for another purpose by the right key.
    ssh-keygen -q -Y sign -f "$scratch/releaser" -n file "$dist/SHA256SUMS" 2>/dev/null
    ! release verify "$dist" || wrong 'a signature for another purpose is verified'
    seal
    grep -q '^releaser' "$dist/allowed_signers" || wrong 'the list of signers does not come along'
    echo "releaser@example.org namespaces=\"icdc-release\" $(cat "$scratch/other.pub")" >"$scratch/others"
    ! release verify "$dist" "$scratch/others" || wrong 'a key of another releaser is verified'
}

origin_names_commit_and_tools() {
    python3 - "$dist/$name.provenance.json" "$(git rev-parse HEAD)" "$(git status --porcelain --untracked-files=no | head -c 1)" <<'PYTHON' || wrong 'the statement of origin'
import hashlib, json, sys
statement, commit, changed = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
assert statement["_type"] == "https://in-toto.io/Statement/v1", statement
assert statement["predicateType"] == "https://slsa.dev/provenance/v1", statement
names = [subject["name"] for subject in statement["subject"]]
assert names == ["icdc-9.9.9-x86_64.cdx.json", "icdc-9.9.9-x86_64.debug.gz", "icdc-9.9.9-x86_64.tar.gz"], names
definition = statement["predicate"]["buildDefinition"]
source = definition["resolvedDependencies"][0]
assert ("digest" not in source) if changed else source["digest"] == {"gitCommit": commit}, source
locked = hashlib.sha256(open("Cargo.lock", "rb").read()).hexdigest()
assert definition["resolvedDependencies"][1]["digest"]["sha256"] == locked, definition
assert definition["internalParameters"]["tools"] == {"rustc": "rustc 1.99.0", "zig": "0.0.1"}, definition
assert statement["predicate"]["runDetails"]["builder"]["id"]
PYTHON
}

vulnerabilities_speak_of_what_is_there() {
    python3 - "$dist" <<'PYTHON' || wrong 'the VEX document'
import json, pathlib, sys
dist = pathlib.Path(sys.argv[1])
document = json.loads((dist / "icdc-9.9.9.openvex.json").read_text())
parts = {part["bom-ref"] for part in json.loads((dist / "icdc-9.9.9-x86_64.cdx.json").read_text())["components"]}
assert document["@context"] == "https://openvex.dev/ns/v0.2.0" and document["timestamp"] == "2023-11-14T22:13:20Z", document
assert document["statements"]
for statement in document["statements"]:
    assert statement["vulnerability"]["name"] and statement["status"], statement
    (product,) = statement["products"]
    assert product["@id"] == "pkg:cargo/icdc@9.9.9", product
    assert {part["@id"] for part in product["subcomponents"]} <= parts, product
PYTHON
    # A newer part has to be looked at again.
    sed -i 's/"version": "1.2.13"/"version": "1.9.9"/' "$dist/$name.cdx.json"
    ! release finish "$dist" || wrong 'a statement about a part that is not there is handed out'
    told "CVE-2023-45853 of zlib 1.2.13: $name.cdx.json has no such part"
}

absent() {
    for file; do
        [ ! -e "$dist/$file" ] || wrong "there is a $file"
    done
}

told() {
    grep -qF -e "$1" "$scratch/told" || wrong "it does not say: $1"
}

wrong() {
    echo "release-test: $1"
    sed 's/^/    /' "$scratch/told"
    failed=yes
}

main
