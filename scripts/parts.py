#!/usr/bin/env python3
"""Lists what the static program consists of: every crate that is linked in, and the C libraries that a crate brings along.

    scripts/parts.py bom TRIPLE ZIG         the list of parts (SBOM), CycloneDX 1.5, JSON
    scripts/parts.py licences TRIPLE ZIG    every licence text that the parts bring along

ZIG is the directory of zig, from which musl comes. The date is SOURCE_DATE_EPOCH.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

PROGRAM = "icdc"


def main():
    what, triple, zig = sys.argv[1:]
    crates, edges = linked(triple)
    libraries = c_libraries(crates, pathlib.Path(zig))
    if what == "bom":
        print(json.dumps(bill(crates, edges, libraries), indent=1))
    else:
        print(licences(crates, libraries))


def linked(triple):
    """The crates of the program by their ids, and on which others each depends."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", triple]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found, edges = {}, {}
    waiting = [identity for identity, package in packages.items() if package["name"] == PROGRAM]
    while waiting:
        identity = waiting.pop()
        if identity in found:
            continue
        found[identity] = packages[identity]
        edges[identity] = [
            dependency["pkg"]
            for dependency in nodes[identity]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            # What runs in the compiler is no part of the program.
            and not any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
        ]
        waiting += edges[identity]
    return dict(sorted(found.items(), key=lambda item: (item[1]["name"], item[1]["version"]))), edges


def directory(crate):
    return pathlib.Path(crate["manifest_path"]).parent


def c_libraries(crates, zig):
    """Name, version, licence and directory of each."""
    bpf = directory(next(crate for crate in crates.values() if crate["name"] == "libbpf-sys"))

    def version(file, pattern):
        return ".".join(re.findall(pattern, (bpf / file).read_text(), re.MULTILINE))

    return [
        ("libelf", version("elfutils/configure.ac", r"^AC_INIT\(\[elfutils\],\[([0-9.]*)\]"),
         "LGPL-3.0-or-later OR GPL-2.0-or-later", bpf / "elfutils"),
        ("libbpf", version("libbpf/src/Makefile", r"^LIBBPF_(?:MAJOR|MINOR|PATCH)_VERSION := (\d+)"),
         "LGPL-2.1-only OR BSD-2-Clause", bpf / "libbpf"),
        ("zlib", version("zlib/zlib.h", r'^#define ZLIB_VERSION "([^"]*)"'), "Zlib", bpf / "zlib"),
        ("musl", "of zig", "MIT", zig / "lib/libc/musl"),
    ]


def bill(crates, edges, libraries):
    locked = {
        (name, version): checksum
        for name, version, checksum in re.findall(
            r'name = "([^"]*)"\nversion = "([^"]*)"\nsource = .*\nchecksum = "([^"]*)"', pathlib.Path("Cargo.lock").read_text())
    }

    def reference(crate):
        return f"pkg:cargo/{crate['name']}@{crate['version']}"

    def component(crate):
        told = {
            "type": "application" if crate["name"] == PROGRAM else "library",
            "bom-ref": reference(crate),
            "name": crate["name"],
            "version": crate["version"],
            "purl": reference(crate),
        }
        if crate["license"]:
            # Before SPDX, a slash between two licences meant that either may be chosen.
            told["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}]
        checksum = locked.get((crate["name"], crate["version"]))
        if checksum:
            told["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return told

    date = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    c_components = [
        {"type": "library", "bom-ref": name, "name": name, "version": version, "licenses": [{"expression": licence}]}
        for name, version, licence, _ in libraries
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": next(component(crate) for crate in crates.values() if crate["name"] == PROGRAM),
        },
        "components": [component(crate) for crate in crates.values() if crate["name"] != PROGRAM] + c_components,
        "dependencies": [
            {"ref": reference(crate), "dependsOn": sorted({reference(crates[other]) for other in edges[identity]})}
            for identity, crate in crates.items()
        ],
    }


def licences(crates, libraries):
    parts = [(f"{crate['name']} {crate['version']} ({crate['license']})", directory(crate))
             for crate in crates.values() if crate["source"]]
    parts += [(f"{name} {version} ({licence})", place) for name, version, licence, place in libraries]
    lines = [
        "icdc contains these parts. Its own licences are in LICENSE-APACHE and LICENSE-MIT.",
        "libelf is used under LGPL 3 or later: its source is in the crate libbpf-sys, and scripts/dist.sh of icdc's own source builds "
        "the program with it, or with a changed one.",
    ]
    for title, place in parts:
        lines += ["", "=" * 100, title]
        for file in sorted(place.iterdir()):
            if file.is_file() and re.match(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE)", file.name, re.IGNORECASE):
                lines += ["-" * 100, file.name, "", file.read_text(errors="replace").rstrip()]
    return "\n".join(lines)


main()
