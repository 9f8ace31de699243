"""The program under test: a copy within this host, over a stand-in for ssh, or with a daemon on loopback."""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass

HERE = "127.0.0.1"
WAYS = ["local", "local", "push", "pull", "to-daemon", "from-daemon"]
WAIT = 20


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b") ", 1)[1][:1] not in b"ZX"
    except OSError:
        return False


def descendants(pid):
    """All processes below one, whoever their parent is now if it was below it when looked at."""
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                parent = int(file.read().rsplit(b") ", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found, pending = [], [pid]
    while pending:
        new = children.get(pending.pop(), [])
        found += new
        pending += new
    return found


class Handle:
    """A process that is signalled only as long as it is the one that was meant."""

    def __init__(self, pid):
        self.pid = pid
        self.fd = os.pidfd_open(pid)

    def send(self, number):
        try:
            signal.pidfd_send_signal(self.fd, number)
            return True
        except ProcessLookupError:
            return False

    def close(self):
        os.close(self.fd)


class Site:
    """A home directory with keys, a stand-in for ssh, and a daemon where the way needs one."""

    def __init__(self, directory, program):
        self.directory = directory
        self.program = os.path.realpath(program)
        self.home = os.path.join(directory, "home")
        self.log = os.path.join(directory, "daemon.log")
        self.daemon = None
        self.port = None
        os.makedirs(self.home, exist_ok=True)
        self.ssh = os.path.join(directory, "ssh-here")
        with open(self.ssh, "w") as file:
            file.write('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        os.chmod(self.ssh, 0o755)

    def environment(self):
        return {
            "HOME": self.home,
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TMPDIR": self.directory,
            "RUST_BACKTRACE": "1",
        }

    def run(self, *arguments):
        subprocess.run(
            [self.program, *arguments],
            env=self.environment(),
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=WAIT,
        )

    def start_daemon(self):
        """A daemon that serves the site's directory; the port stays the same from one to the next."""
        keys = os.path.join(self.directory, "keys")
        identity = os.path.join(keys, "identity")
        if not os.path.exists(identity):
            os.makedirs(keys)
            self.run("keygen")
            self.run("keygen", "--identity", identity)
            with open(os.path.join(self.home, ".config/icdc/identity.pub")) as file:
                client = file.read()
            user = ",user=root" if os.geteuid() == 0 else ""
            with open(os.path.join(keys, "authorized_keys"), "w") as file:
                file.write(f'root="{self.directory}",rights=rw,owner=keep{user} {client}')
        with open(self.log, "ab") as log:
            begin = log.tell()
            self.daemon = subprocess.Popen(
                [self.program, "serve", "--listen", f"{HERE}:{self.port or 0}", "--identity", identity]
                + ["--authorized-keys", os.path.join(keys, "authorized_keys")],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline and self.daemon.poll() is None:
            with open(self.log, "rb") as log:
                log.seek(begin)
                said = log.read()
            if b"fingerprint" in said:
                break
            time.sleep(0.02)
        else:
            raise RuntimeError(f"the daemon does not listen; its log is {self.log}")
        if self.port is None:
            self.port = int(re.search(rb"127\.0\.0\.1:(\d+)", said)[1])
            with open(identity + ".pub") as file:
                self.run("keygen", "--trust", f"{HERE}:{self.port}", file.read().strip())

    def stop_daemon(self):
        if self.daemon is None:
            return
        for pid in [self.daemon.pid, *descendants(self.daemon.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.daemon.wait()
        self.daemon = None


@dataclass
class Copy:
    """One command: sources and destination are paths of this host, reached by `way`."""

    site: Site
    way: str
    sources: list
    destination: bytes
    options: list
    prefix: list
    word: str

    def command(self):
        far = {"push": "to", "pull": "from", "to-daemon": "to", "from-daemon": "from"}.get(self.way)
        place = {"to": self.remote, "from": os.fsencode}
        sources = [place["from"](path + b"/") for path in self.sources]
        destination = self.destination + b"/"
        if far == "from":
            sources = [self.remote(path + b"/") for path in self.sources]
        elif far == "to":
            destination = self.remote(destination)
        remote = ["--ssh", self.site.ssh, "--remote-icdc", self.site.program] if self.way in ("push", "pull") else []
        return self.prefix + [self.site.program, self.word, "--json", *remote, *self.options, *sources, destination]

    def remote(self, path):
        if self.way in ("push", "pull"):
            return os.fsencode(HERE) + b":" + path
        relative = os.path.relpath(path, os.fsencode(self.site.directory)) + b"/"
        return b"icdc://%s:%d/%s" % (os.fsencode(HERE), self.site.port, relative)
