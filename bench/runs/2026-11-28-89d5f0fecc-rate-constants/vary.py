"""Runs tests and simulated transfers with each constant of ids.txt at half and at twice its value.

Usage: vary.py TESTS TRANSFERS, the binaries of `cargo test -p icdc-rate --lib` and of transfers.rs.
"""
import os
import re
import subprocess
import sys

tests, transfers = sys.argv[1:]
for line in ["- - (as it is)"] + open("ids.txt").read().splitlines():
    number, file, name = line.split(" ", 4)[:3]
    for factor in ["1"] if number == "-" else ["0.5", "2"]:
        env = dict(os.environ, GOLDEN="transfers.csv", SENS="" if number == "-" else f"{number}:{factor}")
        ran = subprocess.run([tests, "--test-threads", "1"], env=env, capture_output=True, text=True)
        failed = re.findall(r"^test (\S+) \.\.\. FAILED", ran.stdout, re.M)
        subprocess.run([transfers], env=env, capture_output=True)
        print(file, name, factor, *failed, *open("transfers.csv").read().split(), flush=True)
