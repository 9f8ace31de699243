#!/usr/bin/env python3
"""Writes documents about what is handed out.

    scripts/attest.py provenance BUILD FROM... -- FILE...    what the files were built from, and by which tools
    scripts/attest.py vex DIRECTORY                          known vulnerabilities of parts, and what they mean for icdc

provenance prints an in-toto statement (v1) with the predicate SLSA provenance (v1). BUILD is the script that built the files.
FROM is a file they were built from besides the source, or TOOL=VERSION. SOURCE_DATE_EPOCH is the date of the build.

vex prints an OpenVEX document of packages/vex.json. It fails unless each part that is spoken of is in every list of parts
(*.cdx.json) of DIRECTORY, in that version: whoever brings a newer part looks again. deny.toml may ignore no advisory that it
does not explain.

Both have the same bytes for the same input. SOURCE_URI and BUILDER_ID name a repository and a builder of one's own.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
HOME = "https://example.org/icdc"
JUSTIFICATIONS = {
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
}


def main():
    action, *words = sys.argv[1:] or [""]
    if action == "provenance" and words and "--" in words:
        at = words.index("--")
        document = provenance(words[0], words[1:at], words[at + 1 :])
    elif action == "vex" and len(words) == 1:
        document = vex(pathlib.Path(words[0]))
    else:
        sys.exit(__doc__)
    print(json.dumps(document, indent=1))


def date():
    """The build's date, as RFC 3339 has it."""
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def version():
    return os.environ.get("VERSION") or re.search(r'^version = "(.*)"', (TOP / "Cargo.toml").read_text(), re.MULTILINE)[1]


def digest(file):
    found = hashlib.sha256()
    with open(file, "rb") as content:
        while block := content.read(1 << 20):
            found.update(block)
    return {"sha256": found.hexdigest()}


def provenance(build, built_from, files):
    if not files:
        sys.exit("attest: a statement about no file says nothing")
    tools = dict(given.split("=", 1) for given in built_from if "=" in given)
    inputs = [pathlib.Path(given) for given in built_from if "=" not in given]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": pathlib.Path(file).name, "digest": digest(file)} for file in sorted(files)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{HOME}/builds/{build}@v1",
                "externalParameters": {"build": build, "version": version()},
                "internalParameters": {"SOURCE_DATE_EPOCH": int(os.environ["SOURCE_DATE_EPOCH"]), "tools": tools},
                "resolvedDependencies": [
                    source(),
                    {"name": "Cargo.lock", "digest": digest(TOP / "Cargo.lock")},
                    *({"name": file.name, "digest": digest(file)} for file in inputs),
                ],
            },
            "runDetails": {"builder": {"id": os.environ.get("BUILDER_ID", f"{HOME}/builders/own-machine"), "version": tools}},
        },
    }


def source():
    """The repository with its commit; without it where something else than a commit was built."""
    described = {"name": "source", "uri": os.environ.get("SOURCE_URI", f"git+{HOME}")}
    commit = git("rev-parse", "HEAD")
    if commit and git("status", "--porcelain", "--untracked-files=no") == "":
        return described | {"digest": {"gitCommit": commit}}
    return described | {"annotations": {"changed": "built from a work tree that is no commit"}}


def git(*words):
    """The output; nothing where git is missing or this is no clone."""
    try:
        return subprocess.run(["git", "-C", TOP, *words], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def vex(directory):
    statements = json.loads((TOP / "packages/vex.json").read_text())
    lists = {file.name: json.loads(file.read_text()) for file in sorted(directory.glob("*.cdx.json"))}
    if not lists:
        sys.exit(f"attest: {directory} holds no list of parts (*.cdx.json)")
    check(statements, lists)
    product = f"pkg:cargo/icdc@{version()}"
    document = {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": f"{HOME}/vex/{hashlib.sha256(json.dumps([product, statements]).encode()).hexdigest()}",
        "author": "The icdc developers",
        "timestamp": date(),
        "version": 1,
        "statements": [],
    }
    for statement in statements:
        part = {"@id": reference(statement, next(iter(lists.values())))}
        kept = {key: statement[key] for key in ("status", "justification", "impact_statement", "action_statement") if key in statement}
        document["statements"].append(
            {"vulnerability": {"name": statement["vulnerability"]}, "products": [{"@id": product, "subcomponents": [part]}]} | kept
        )
    return document


def reference(statement, parts):
    """The id of a part in a list of parts; none if it is not there in this version."""
    for part in parts["components"]:
        if (part["name"], part["version"]) == (statement["part"], statement["version"]):
            return part["bom-ref"]
    return None


def check(statements, lists):
    wrong = []
    for statement in statements:
        named = f"{statement['vulnerability']} of {statement['part']} {statement['version']}"
        wrong += [f"{named}: {file} has no such part" for file, parts in lists.items() if not reference(statement, parts)]
        status = statement["status"]
        complete = {
            "not_affected": statement.get("justification") in JUSTIFICATIONS,
            "affected": bool(statement.get("action_statement")),
            "fixed": True,
            "under_investigation": True,
        }
        if not complete.get(status):
            wrong.append(f"{named}: the status {status} lacks what OpenVEX requires of it")
    explained = {statement["vulnerability"] for statement in statements}
    for ignored in re.findall(r"^[^#\n]*\b(RUSTSEC-\d+-\d+)", (TOP / "deny.toml").read_text(), re.MULTILINE):
        if ignored not in explained:
            wrong.append(f"{ignored}: deny.toml ignores it, and nothing here says why")
    if wrong:
        sys.exit("attest: packages/vex.json is not true:\n" + "\n".join(f"  {line}" for line in wrong))


main()
